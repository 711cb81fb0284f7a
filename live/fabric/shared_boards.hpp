// Boards (shared_memory.hpp) through which a rank and its peers on the same machine exchange bytes:
// its own board, and those of the peers, which the hellos on the streams announce. A peer whose
// board this process cannot open (Board::open()) has none. connect_peer() is for the threads that
// serve links, speak_to() for those that read answers, push_bytes() and pull_bytes() for the
// fabric's thread; the others may be called by any thread. Ranks are below `ranks`, not checked.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "live/data.pb.h"
#include "live/fabric/all_reduce.hpp"
#include "live/fabric/egress.hpp"
#include "live/fabric/shared_memory.hpp"

namespace orrery::live {

/// Shared memory between a rank and its peers.
class SharedBoards {
 public:
  /// Allocates the board of rank `rank` of `ranks`. Throws an environment Error if no memory is
  /// available.
  SharedBoards(std::uint32_t rank, std::uint32_t ranks);

  /// Treats every peer as if it were on another machine, except peers whose board is open already;
  /// for good.
  void disable_shared_memory() { apart_ = true; }
  /// Writes this rank's board into a hello; nothing if shared memory is disabled.
  void write_hello(LinkHello& hello) const;
  /// Returns this rank's bell, which wakes its fabric's thread.
  Bell& bell() { return own_.bell(); }

  /// Opens the board that a peer's hello announces, if this process can open it (Board::open()) and
  /// shared memory is not disabled: from now on the peer's bytes arrive there, and `welcome` gets
  /// this rank's board. A board of the peer that is open already stays and counts. Otherwise
  /// changes nothing, also for an empty `said`.
  void connect_peer(std::uint32_t peer, const SharedBoard& said, Welcome& welcome);
  /// Returns the bell of a peer that, by its answer, reads our board, and opens the peer's board if
  /// needed; null if the peer does not read it or its board cannot be opened. The bell is valid as
  /// long as this object.
  Bell* speak_to(std::uint32_t peer, const Welcome& welcome);

  /// Returns true if this peer's bytes arrive through memory.
  bool is_connected_to(std::uint32_t peer) const { return rings_[peer] != nullptr; }
  /// Copies bytes of `out`, as many as fit and at most 64 KiB, removes them from `out`, and rings
  /// the peer's bell. Returns false if no space is free or `out` is empty. Blocks for the turn of
  /// `egress`. `bell`: result of speak_to() for the peer, not null. The end of `out` ends a
  /// message.
  bool push_bytes(std::uint32_t to, Bell& bell, std::span<const std::byte>& out, Egress& egress);
  /// Takes the available bytes, whole units and at most 64 KiB, directly from the shared memory,
  /// removes their space from `in`, and rings the peer's bell. Returns false if no whole unit is
  /// available or `in` is full. `in` must have the size of the `out` that the peer pushes. Call
  /// only if is_connected_to(from).
  bool pull_bytes(std::uint32_t from, Inflow& in);

 private:
  Board* open(std::uint32_t peer, const SharedBoard& said);

  const std::uint32_t rank_, ranks_;
  Board own_;
  std::atomic<bool> apart_ = false;             ///< read by the threads that serve links
  std::mutex mutex_;                            // guards the next
  std::vector<std::unique_ptr<Board>> theirs_;  ///< indexed by rank
  std::vector<std::atomic<ByteRing*>> rings_;   ///< indexed by rank: from the peer to this rank
};

}  // namespace orrery::live
