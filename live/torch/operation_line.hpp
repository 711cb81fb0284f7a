// Operations of one group in their order: those that wait, those in flight, and those whose results
// are kept. Compiled into the user's program.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include <c10/core/Stream.h>

#include "live/torch/operation.hpp"

namespace orrery::live {

/// Line of a group's operations. Not thread-safe.
class OperationLine {
 public:
  /// Adds an operation behind those that wait.
  void add_operation(std::unique_ptr<Operation> operation);
  /// Returns true if no operation waits.
  bool has_begun_all() const { return waiting_.empty(); }
  /// Returns the next operation that waits; null if none does.
  const Operation* next_operation() const;
  /// Returns true if an operation waits, and it and all in flight only queue their work on one
  /// device (Operation::starts_early).
  bool can_start_early() const;
  /// Moves the next operation to those in flight. Call only if one waits.
  Operation& begin_next();
  /// Returns operation `place` of those in flight, the oldest first. Throws std::out_of_range.
  const std::shared_ptr<Operation>& in_flight(std::size_t place) const {
    return in_flight_.at(place);
  }
  /// Removes the oldest operation in flight.
  void release_oldest() { in_flight_.pop_front(); }
  /// Keeps operation `place` of those in flight as the one with the newest result, and `count`
  /// results in all. Gives the buffers of others to `pool`.
  void keep_result(std::size_t place, std::size_t count, BufferPool& pool);
  /// Returns the kept operation that is `age` operations older than the newest one. Throws
  /// std::out_of_range.
  const std::shared_ptr<Operation>& kept_operation(std::size_t age) const {
    return kept_.at(kept_.size() - 1 - age);
  }

 private:
  std::deque<std::unique_ptr<Operation>> waiting_;
  std::deque<std::shared_ptr<Operation>> in_flight_, kept_;
};

/// Starts of operations on the stream and with the buffers of one group. One thread.
class OperationStarts {
 public:
  /// Fills the operation's buffers and starts its first part in the groups of `view`, those of
  /// `epoch`. Throws as Operation::perform does.
  void start_operation(Operation& operation, const EpochView& view, std::uint64_t epoch);
  /// Makes the group's stream on the operation's device that of this thread; it waits for the begin
  /// of the operation. Does nothing on the CPU.
  void enter_stream_of(const Operation& operation);
  /// Returns the buffers for results.
  BufferPool& buffer_pool() { return pool_; }

 private:
  std::optional<c10::Stream> stream_;  ///< queue of the thread on the operations' device
  BufferPool pool_;
};

}  // namespace orrery::live
