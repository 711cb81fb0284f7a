// Data that arrived from one peer through its stream and has not been taken: bytes of collectives
// and directly sent bytes, each in the order of sending. The thread that serves the peer's link
// puts, the fabric's thread takes; close() may be called by any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "live/fabric/piece_wire.hpp"

namespace orrery::live {

/// Queue of arrived pieces. Thread-safe.
class Inbox {
 public:
  /// Adds a piece after the earlier ones of its kind, also after close(); `direct`: not part of a
  /// collective.
  void put_piece(PieceData piece, bool direct);
  /// Wakes all waiting threads; current and later waits throw FabricBroken with `why`, even if
  /// pieces have arrived. The reason of the last call counts. take_collective() still returns
  /// pieces.
  void close(const std::string& why);

  /// Returns true if a piece of a collective has arrived; takes no lock.
  bool has_collective() const { return collective_waiting_ > 0; }
  /// Removes and returns the oldest piece of a collective; nothing if none has arrived. Does not
  /// block.
  std::optional<PieceData> take_collective();
  /// Blocks until a direct piece has arrived; removes and returns the oldest one. Throws
  /// FabricBroken once the inbox is closed.
  PieceData wait_for_direct();

 private:
  std::mutex mutex_;  // guards everything below, except where noted
  std::condition_variable changed_;
  std::optional<std::string> closed_;  ///< reason; nothing while open
  std::deque<PieceData> direct_, collective_;
  std::atomic<std::size_t> collective_waiting_ = 0;  ///< size of `collective_`; read by any thread
};

}  // namespace orrery::live
