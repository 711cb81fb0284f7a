// Log file that never blocks a run.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "policies/record/recorder.hpp"

namespace orrery::live {

/// Log file that is written by a thread of its own. An unresponsive disk becomes an error of the
/// caller, like a full disk, so that the run can continue without its log; only the end of the
/// process may still wait for the disk. begin_at(), flush() and release_file() block for at most
/// Patience::flush and rename_into_place() for at most Patience::end, until all pending writes are
/// done; all throw an environment Error if a write has failed or the time has passed. A failed
/// write is final: every later call throws its error. Single-threaded for the caller.
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

 private:
  struct Shared;
  /// Queues `task` and blocks until it is done. Throws an environment Error if a write has failed
  /// or if `patience` has passed.
  void wait_for(std::function<void(LogFile&)> task, std::chrono::milliseconds patience);

  const Patience patience_;
  /// State shared with the thread, which may outlive this object.
  const std::shared_ptr<Shared> shared_;
};

}  // namespace orrery::live
