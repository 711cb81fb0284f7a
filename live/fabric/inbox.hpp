// What has arrived from one peer through its stream and has not been taken: bytes of collectives
// and bytes that were sent to this rank directly, each in the order in which they were sent. The
// thread that serves the peer's link puts, the fabric's takes; close() may be called by any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "live/fabric/piece_wire.hpp"

namespace orrery::live {

class Inbox {
 public:
  void put(PieceData piece, bool direct);
  /// Nobody waits any longer.
  void close(const std::string& why);

  /// Whether a collective's are there: without a lock.
  bool has_collective() const { return collective_waiting_ > 0; }
  std::optional<PieceData> take_collective();
  /// Blocks; throws FabricBroken once it is closed.
  PieceData wait_for_direct();

 private:
  std::mutex mutex_;  // of everything below, except where noted
  std::condition_variable changed_;
  std::optional<std::string> closed_;  ///< why; nothing while open
  std::deque<PieceData> direct_, collective_;
  std::atomic<std::size_t> collective_waiting_ = 0;  ///< size of `collective_`; read by any
};

}  // namespace orrery::live
