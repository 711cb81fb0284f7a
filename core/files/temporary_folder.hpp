// Temporary folder of a program.
#pragma once

#include <filesystem>
#include <string>

namespace orrery {

/// Folder for temporary files that belongs to one object: the constructor creates the folder, the
/// destructor removes it with all files. For example, TemporaryFolder("orrery-vary") creates
/// /tmp/orrery-vary-x3Gk2q. The folder has a marker and is locked while the object lives, so that a
/// later object of the same name can remove the folders of killed processes. Not copyable;
/// single-threaded.
class TemporaryFolder {
 public:
  /// Creates the folder in `parent`, readable by this user alone, and removes folders of `name`
  /// there that have the marker, belong to this user and are not locked. Throws an environment
  /// Error if the folder cannot be created or marked, and std::filesystem::filesystem_error if
  /// TMPDIR names no folder; ignores old folders that cannot be removed.
  explicit TemporaryFolder(const std::string& name, const std::filesystem::path& parent =
                                                        std::filesystem::temp_directory_path());
  /// Marks the constructor of a folder that a killed process has left.
  struct Taken {};
  /// Owns the folder `path` of a killed process from now on, locked or not (claim_lock()). Throws
  /// an environment Error if there is no such folder of this user.
  TemporaryFolder(std::filesystem::path path, Taken);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  /// Returns the path of a file in the folder.
  std::string path_of(const std::string& file) const { return (path_ / file).string(); }
  /// Lets processes that are started from now on keep the folder locked: if this process is killed,
  /// the folder stays until the last one has ended. Throws an environment Error if the system
  /// refuses it.
  void share_lock();
  /// Locks a taken folder once the processes that share its lock have ended; processes that are
  /// started meanwhile share the new lock. Call now and then; does nothing for other folders.
  void claim_lock();

 private:
  std::filesystem::path path_;
  int lock_ = -1;             ///< Descriptor of the folder, closed on exec until share_lock()
  bool is_unlocked_ = false;  ///< a taken folder whose lock others hold
};

}  // namespace orrery
