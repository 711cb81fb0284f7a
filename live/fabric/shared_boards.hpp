// The boards (shared_memory.hpp) through which a rank and its peers on the same machine reach each
// other: its own, and those of others, as the greetings on the streams introduce them. Whoever is
// elsewhere has none. hear_from() is for the threads that serve links, speak_to() for those that
// read answers, push() and pull() for the fabric's own; the others may be called by any.
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

class SharedBoards {
 public:
  /// As rank `rank` of `ranks`. Throws an environment Error if there is no memory.
  SharedBoards(std::uint32_t rank, std::uint32_t ranks);

  /// From now on as if every peer were on a machine of its own.
  void keep_apart() { apart_ = true; }
  /// What a greeting says of this rank's board; nothing where peers are kept apart.
  void introduce(LinkHello& hello) const;
  /// This rank's bell, which wakes its fabric's thread.
  Bell& bell() { return own_.bell(); }

  /// By what a peer's greeting, which opens its link to us, says of its board: from now on it can
  /// be heard there, if it is on this machine; `welcome` then says so.
  void hear_from(std::uint32_t peer, const SharedBoard& said, Welcome& welcome);
  /// By what a peer's answer says of its board: the bell that wakes it, if it hears us there.
  Bell* speak_to(std::uint32_t peer, const Welcome& welcome);

  /// This peer is heard through memory.
  bool hears(std::uint32_t peer) const { return rings_[peer] != nullptr; }
  /// Copies as many of `out` as there is room for, and rings the peer's bell, since its reader may
  /// have waited for that. False: there is none.
  bool push(std::uint32_t to, Bell& bell, std::span<const std::byte>& out, Egress& egress);
  /// Takes what is there, straight from where it lies. False: nothing is.
  bool pull(std::uint32_t from, Inflow& in);

 private:
  Board* open(std::uint32_t peer, const SharedBoard& said);

  const std::uint32_t rank_, ranks_;
  Board own_;
  std::atomic<bool> apart_ = false;             ///< read by whoever serves a link
  std::mutex mutex_;                            // of the next
  std::vector<std::unique_ptr<Board>> theirs_;  ///< by rank
  std::vector<std::atomic<ByteRing*>> rings_;   ///< by rank: from it to us
};

}  // namespace orrery::live
