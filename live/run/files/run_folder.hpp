// Folder of one run's sockets and secrets. Only its owner may enter the folder. The folder is
// deleted with the RunFolder, and by a process that an external signal ends (except SIGKILL). The
// folder is locked while the run lives; the next run deletes the folders that killed runs have
// left: folders with Orrery's marker, of this user and without a lock, never by name alone. Threads
// that are started before the first RunFolder must block those signals.
#pragma once

#include <string>

#include "live/run/files/run_files.hpp"

namespace orrery::live {

/// Deletes the folder `path` if a signal from outside (except SIGKILL) ends this process, until
/// keep_on_signal() is called; after a signal of a defect, such as SIGSEGV, deletes only the
/// secrets in the newest folder. The signal from outside also kills the child processes. The first
/// call blocks the ending signals in the calling thread, installs the handlers and starts a thread
/// that waits for the signals. Thread-safe.
void remove_on_signal(const std::string& path);
/// Cancels remove_on_signal() for `path`; no effect if `path` is not registered. Deletes nothing.
/// After a signal of a defect the secrets in the newest folder of remove_on_signal() are deleted
/// all the same. Thread-safe.
void keep_on_signal(const std::string& path);

/// Records the first SIGINT or SIGTERM from now on instead of ending the process, so that the
/// caller can stop in order. The same or the other signal within a second is ignored; a signal
/// later than that, or any other signal, ends the process as before. Signals are recorded only if
/// the process has called remove_on_signal() or created a RunFolder. Thread-safe.
void note_first_signal();
/// Returns the number of the recorded signal; 0 if none has arrived or note_first_signal() was not
/// called. Thread-safe.
int noted_signal();

/// Temporary folder of one run, or of its files in memory; owns the folder and its lock.
class RunFolder {
 public:
  /// Creates, marks and locks the folder below `parent`, calls remove_on_signal(), and removes the
  /// folders of this user's dead runs below run_parent() and kMemoryParent. Throws an environment
  /// Error if the folder cannot be created, marked or locked.
  explicit RunFolder(std::string parent = run_parent());
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  /// Returns the folder's path.
  const std::string& path() const { return path_; }
  /// Deletes the folder early, and cancels remove_on_signal() for it; ignores files that cannot be
  /// deleted. Connected sockets need their names no longer, so that nothing remains even after kill
  /// -9. The lock stays until the destructor. May be called repeatedly.
  void remove_folder() noexcept;

 private:
  /// Locks the folder. Returns false if another run has deleted the folder as stale before the lock
  /// was taken.
  bool lock();
  /// Releases the lock.
  void release() noexcept;
  /// Throws an environment Error with the text of errno.
  [[noreturn]] void fail_with_errno() const;

  const std::string parent_;
  std::string path_;
  /// Descriptor of the folder, closed on exec, so that no child process keeps the lock.
  int lock_ = -1;
};

}  // namespace orrery::live
