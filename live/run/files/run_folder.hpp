// The folder of one run's sockets and secrets: only its owner may enter, and it goes away with this
// object, and with a process that a signal from outside ends (SIGKILL apart). It is locked as long
// as the run lives; what a killed run has left, the next one takes away: folders that hold our
// marker, are this user's and that nobody has locked, never by their name alone. Threads that are
// started before the first of these objects have to block those signals.
#pragma once

#include <string>

namespace orrery::live {

/// A signal that ends this process takes the folder `path` away too, until keep_on_signal().
void remove_on_signal(const std::string& path);
void keep_on_signal(const std::string& path);

/// SIGINT and SIGTERM are only noted from now on, the number of the first of them: whoever asks
/// ends what it does in order. Another one a second later, or every other signal, ends the process
/// as before. Nothing is noted without folders.
void note_first_signal();
/// That number; 0: none has come.
int noted_signal();

class RunFolder {
 public:
  /// Removes what this user's dead runs have left, too. Throws an environment Error if the folder
  /// of temporary files is not writable.
  RunFolder();
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  /// Sockets that are connected need their names no longer: removing them early leaves nothing
  /// behind even after kill -9. Harmless twice.
  void remove() noexcept;

 private:
  bool lock();
  void release() noexcept;
  [[noreturn]] static void fail();

  std::string path_;
  int lock_ = -1;  ///< descriptor of the folder, closed on exec: no child keeps the lock
};

}  // namespace orrery::live
