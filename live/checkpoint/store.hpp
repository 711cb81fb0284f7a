// Files of one folder, with what durability needs: contents and names are made durable by separate
// calls. Checkpoints are written through it; the tests put stores behind it that fail at any call
// or lose power. An object may be shared by threads that work on different files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::live {

/// Everything throws an environment Error that says which file and why.
class Store {
 public:
  /// A file being written; closed when it goes away.
  class File {
   public:
    virtual ~File() = default;
    virtual void write(std::string_view bytes) = 0;
    /// Returns when the contents so far are durable.
    virtual void sync() = 0;
  };

  virtual ~Store() = default;
  /// A new, empty file. One of that name must not exist.
  virtual std::unique_ptr<File> create(const std::string& name) = 0;
  /// At once; a file of the name `to` goes.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void remove(const std::string& name) = 0;
  /// Returns when all names given, changed and removed so far are durable.
  virtual void sync_names() = 0;
  /// Names of the files, ascending.
  virtual std::vector<std::string> list() = 0;
  /// The contents of a regular file. Throws bad_input for more than `most_bytes`.
  virtual std::string read(const std::string& name, std::uint64_t most_bytes) = 0;
};

/// The file system; all other stores are in tests. Files are the user's alone (0600).
class FolderStore : public Store {
 public:
  /// Makes the folder, and those above it, if it is not there (0700).
  static std::unique_ptr<FolderStore> make(const std::string& path);
  /// Throws bad_input if there is no such folder.
  static std::unique_ptr<FolderStore> open(const std::string& path);
  ~FolderStore() override;

  std::unique_ptr<File> create(const std::string& name) override;
  void rename(const std::string& from, const std::string& to) override;
  void remove(const std::string& name) override;
  void sync_names() override;
  std::vector<std::string> list() override;
  std::string read(const std::string& name, std::uint64_t most_bytes) override;

 private:
  FolderStore(std::string path, int folder) : path_(std::move(path)), folder_(folder) {}

  const std::string path_;
  const int folder_;  ///< descriptor: the folder stays the same, whatever happens to its name
};

}  // namespace orrery::live
