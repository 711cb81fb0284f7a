// Thread for the file operations of a live run, so that a slow or hung disk never delays the
// control loop. Used by the journal, the log and the status board, one writer for each disk and
// purpose.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace orrery::live {

/// Writes all bytes. Returns 0, or the error number of a failed write.
int write_all(int file, std::string_view bytes);
/// Renames a file. Returns 0 or the error number.
int rename_file(const std::string& from, const std::string& to);
/// Replaces a file atomically: the text is written beside the file and renamed; never follows a
/// link. Returns false if the file cannot be written.
bool replace_file(const std::string& path, const std::string& text);

/// File operations that a disk can delay; tests replace them by slow ones.
struct FileCalls {
  std::function<int(int file, std::string_view bytes)> write = write_all;
  std::function<int(const std::string& from, const std::string& to)> rename = rename_file;
};

/// Queue of file operations and the thread that carries them out, oldest first. The thread starts
/// with the first job and may outlive this object, so a job owns all that it uses, and throws
/// nothing. Example: a rename that takes 0.5 s delays later jobs of the same writer, and neither
/// the caller nor another writer. The methods belong to one thread.
class FileWriter {
 public:
  using Job = std::function<void()>;
  /// `end`: longest time in milliseconds for which the destructor waits for unfinished jobs.
  explicit FileWriter(std::chrono::milliseconds end) : end_(end) {}
  /// Waits for the unfinished jobs, at most for the time of the constructor. Then drops the jobs
  /// that have not begun, and leaves the current job to its disk.
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  /// Queues a job and returns at once.
  void add_job(Job job) { add_job({}, std::move(job)); }
  /// Queues a job and returns at once. The job takes the place of a job of the same name that has
  /// not begun: a slow disk gets the newest text alone.
  void add_job(std::string name, Job job);
  /// Queues a job and blocks until the job and all earlier ones are done. Returns false if
  /// `patience` has passed before; the job is then done later, or never.
  bool run_job(Job job, std::chrono::milliseconds patience);
  /// Blocks until no job is unfinished. Returns false if `patience` has passed before.
  bool wait_until_idle(std::chrono::milliseconds patience);

 private:
  struct Shared;
  /// Returns the state that the thread shares, and starts the thread if it does not run yet.
  Shared& running();

  const std::chrono::milliseconds end_;
  std::shared_ptr<Shared> shared_;  ///< Null before the first job.
};

}  // namespace orrery::live
