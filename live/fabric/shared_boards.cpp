#include "live/fabric/shared_boards.hpp"

#include <algorithm>
#include <cstring>

namespace orrery::live {
namespace {

/// Bytes copied before the reader is woken.
constexpr std::size_t kSharedPiece = 64 * 1024;

void encode(const BoardPlace& place, SharedBoard& out) {
  out.set_machine(place.machine);
  out.set_pid(place.pid);
  out.set_descriptor_number(place.descriptor);
  out.set_mark(place.mark);
}

BoardPlace decode(const SharedBoard& in) {
  return {.machine = in.machine(),
          .pid = in.pid(),
          .descriptor = in.descriptor_number(),
          .mark = in.mark()};
}

}  // namespace

SharedBoards::SharedBoards(std::uint32_t rank, std::uint32_t ranks)
    : rank_(rank), ranks_(ranks), own_(ranks), theirs_(ranks), rings_(ranks) {}

void SharedBoards::write_hello(LinkHello& hello) const {
  if (!apart_) encode(own_.board_place(), *hello.mutable_board());
}

/// A peer's board, if we see it. Under the lock.
Board* SharedBoards::open(std::uint32_t peer, const SharedBoard& said) {
  if (!theirs_[peer] && !apart_) theirs_[peer] = Board::open(decode(said), ranks_);
  return theirs_[peer].get();
}

void SharedBoards::connect_peer(std::uint32_t peer, const SharedBoard& said, Welcome& welcome) {
  const std::scoped_lock lock(mutex_);
  Board* const theirs = open(peer, said);
  if (theirs == nullptr) return;
  rings_[peer] = &theirs->ring_to(rank_);
  encode(own_.board_place(), *welcome.mutable_board());
}

Bell* SharedBoards::speak_to(std::uint32_t peer, const Welcome& welcome) {
  if (!welcome.has_board()) return nullptr;
  const std::scoped_lock lock(mutex_);
  Board* const theirs = open(peer, welcome.board());
  return theirs == nullptr ? nullptr : &theirs->bell();
}

bool SharedBoards::push_bytes(std::uint32_t to, Bell& bell, std::span<const std::byte>& out,
                        Egress& egress) {
  ByteRing& ring = own_.ring_to(to);
  const std::span<std::byte> room = ring.free_stretch();
  const std::size_t bytes = std::min({out.size(), room.size(), kSharedPiece});
  if (bytes == 0) return false;
  {
    Egress::Turn turn(egress, bytes);
    std::memcpy(room.data(), out.data(), bytes);
    turn.mark_sent();
  }
  out = out.subspan(bytes);
  ring.mark_filled(bytes, out.empty());
  bell.ring();
  return true;
}

bool SharedBoards::pull_bytes(std::uint32_t from, Inflow& in) {
  ByteRing& ring = *rings_[from];
  const std::span<const std::byte> there = ring.filled_stretch();
  std::size_t bytes = std::min({in.bytes.size(), there.size(), kSharedPiece});
  bytes -= bytes % in.unit;
  if (bytes == 0) return false;
  in.take(in.bytes.data(), there.data(), bytes);
  in.bytes = in.bytes.subspan(bytes);
  ring.mark_emptied(bytes, in.bytes.empty());
  theirs_[from]->bell().ring();
  return true;
}

}  // namespace orrery::live
