// Log file that never blocks a run.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "live/run/files/file_writer.hpp"
#include "policies/record/recorder.hpp"

namespace orrery::live {

/// Position of a log's thread in the log. Thread-safe; may outlive the log.
class LogProgress {
 public:
  /// Counts bytes that the thread is to write.
  void record_queued(std::size_t bytes);
  /// Counts bytes that the thread has written to a buffer; `flushed`: the file holds them.
  void record_written(std::size_t bytes, bool flushed);
  /// Records that no process will continue the log: the log is given up or in place.
  void mark_final();

  /// Returns the number of bytes that wait for the thread.
  std::size_t waiting() const;
  /// Returns a function that returns true once the file holds all bytes that are queued now, or no
  /// process will continue the log.
  static std::function<bool()> flush_query(const std::shared_ptr<const LogProgress>& log);

 private:
  mutable std::mutex mutex_;  // Guards the members below.
  std::uint64_t queued_ = 0, written_ = 0, flushed_ = 0;
  bool is_final_ = false;
};

/// Log file that is written by a thread of its own. An unresponsive disk becomes an error of the
/// caller, like a full disk, so that the run can continue without its log; only the end of the
/// process may still wait for the disk. The thread flushes the file whenever it has written all
/// pending bytes; flush() does not wait for it. begin_at() and release_file() block for at most
/// Patience::flush and rename_into_place() for at most Patience::end, until all pending writes are
/// done. All methods throw an environment Error if a write has failed or the time has passed. A
/// failed write is final: every later call throws its error. Single-threaded for the caller.
class UnhurriedLog : public LogFile {
 public:
  /// Time and size limits of the log.
  struct Patience {
    std::chrono::milliseconds flush{2000}, end{10'000};
    std::size_t waiting_bytes = std::size_t{64} << 20;
  };
  /// Starts the thread, which owns `plain` from now on.
  UnhurriedLog(std::unique_ptr<LogFile> plain, Patience patience);
  /// Waits at most the flush limit for the pending writes, and not at all after a call that
  /// exceeded its limit. Writes that are still pending are dropped.
  ~UnhurriedLog() override;
  UnhurriedLog(const UnhurriedLog&) = delete;
  UnhurriedLog& operator=(const UnhurriedLog&) = delete;

  void begin_at(std::uint64_t bytes) override;
  /// Queues `bytes` for writing and returns at once. Throws an environment Error, and queues
  /// nothing, if a write has failed or if more than Patience::waiting_bytes bytes would be pending.
  void append_bytes(const std::string& bytes) override;
  void flush() override;
  void release_file() override;
  void rename_into_place() override;
  bool is_in_place() const override { return in_place_; }

  /// Returns the progress of the thread.
  std::shared_ptr<const LogProgress> progress() const { return progress_; }

 private:
  struct Shared;
  /// Queues `task` and blocks until it is done. Throws an environment Error if a write has failed
  /// or if `patience` has passed.
  void wait_for(std::function<void(LogFile&)> task, std::chrono::milliseconds patience);

  const Patience patience_;
  const bool in_place_;
  const std::shared_ptr<LogProgress> progress_;
  bool hangs_ = false;  ///< True after one missed limit: the destructor does not wait then.
  /// State shared with the jobs of the writer, which may outlive this object.
  const std::shared_ptr<Shared> shared_;
  FileWriter writer_;
};

}  // namespace orrery::live
