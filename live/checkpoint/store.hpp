// Files of one folder, with separate calls that make contents and names durable. Checkpoints use
// it; the tests have stores that fail at any call or lose power. An object may be shared by threads
// that work on different files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::live {

/// Folder of files. All methods, also those of File, throw an environment Error with the file and
/// the reason if the operating system refuses.
class Store {
 public:
  /// File being written; closed by the destructor.
  class File {
   public:
    virtual ~File() = default;
    /// Appends all of the bytes; a part of them may be written before an error.
    virtual void write(std::string_view bytes) = 0;
    /// Blocks until the contents so far are durable.
    virtual void sync() = 0;
  };

  virtual ~Store() = default;
  /// Creates an empty file for writing. Throws if a file of that name exists. The file's name is
  /// durable only after sync_names().
  virtual std::unique_ptr<File> create_file(const std::string& name) = 0;
  /// Renames a file atomically and replaces a file named `to`; durable only after sync_names().
  virtual void rename(const std::string& from, const std::string& to) = 0;
  /// Deletes a file; throws if the file does not exist or is a folder. Durable only after
  /// sync_names().
  virtual void remove_file(const std::string& name) = 0;
  /// Blocks until all created, changed and deleted names are durable.
  virtual void sync_names() = 0;
  /// Returns the names of the folder's files and subfolders, ascending, without the contents of
  /// subfolders.
  virtual std::vector<std::string> list() = 0;
  /// Returns the contents of a regular file; fewer bytes if the file becomes shorter meanwhile.
  /// Throws bad_input for more than `most_bytes`, and for a folder or pipe; an environment Error
  /// for a link or a missing file.
  virtual std::string read(const std::string& name, std::uint64_t most_bytes) = 0;
};

/// Store in the file system; all other stores are in tests. Files are accessible to the user only
/// (0600).
class FolderStore : public Store {
 public:
  /// Creates the folder and its parents, if missing (0700), and opens it. Throws an environment
  /// Error if that fails.
  static std::unique_ptr<FolderStore> make_folder(const std::string& path);
  /// Opens an existing folder. Throws bad_input for any reason that prevents it: the folder does
  /// not exist, `path` is no folder, or the user may not read it.
  static std::unique_ptr<FolderStore> open(const std::string& path);
  ~FolderStore() override;

  std::unique_ptr<File> create_file(const std::string& name) override;
  void rename(const std::string& from, const std::string& to) override;
  void remove_file(const std::string& name) override;
  void sync_names() override;
  std::vector<std::string> list() override;
  std::string read(const std::string& name, std::uint64_t most_bytes) override;

 private:
  FolderStore(std::string path, int folder) : path_(std::move(path)), folder_(folder) {}

  const std::string path_;
  const int folder_;  ///< descriptor: refers to the same folder even after a rename
};

}  // namespace orrery::live
