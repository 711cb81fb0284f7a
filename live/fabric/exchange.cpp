#include "live/fabric/exchange.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "live/fabric/fabric.hpp"

namespace orrery::live {
namespace {

/// Bytes copied from a piece at once: a whole number of units, and small relative to the cache.
constexpr std::size_t kAtOnce = 16 * 1024;

/// Copies bytes that arrived by stream. Returns false if none have arrived.
bool pull_piece(Inbox& inbox, Inflow& in) {
  std::optional<PieceData> piece = inbox.take_collective();
  if (!piece) return false;
  const bool agreed = piece->size() <= in.bytes.size() && piece->size() % in.unit == 0;
  if (!agreed) throw FabricBroken("a neighbour sent data that differ from the agreed ones");
  // Slices begin and end anywhere: units are made whole and aligned where the cache is near.
  alignas(64) std::array<std::byte, kAtOnce> part;
  while (piece->size() > 0) {
    const auto units = std::span(part).first(std::min(piece->size(), part.size()));
    piece->take_bytes(units);
    in.take(in.bytes.data(), units.data(), units.size());
    in.bytes = in.bytes.subspan(units.size());
  }
  return true;
}

}  // namespace

void Exchange::exchange(std::uint32_t to, std::span<const std::byte> out, std::uint32_t from,
                        Inflow in) {
  Bell* const theirs = out.empty() ? nullptr : out_.await_welcome(to);
  Bell& bell = peers_.boards().bell();
  for (std::uint32_t seen = bell.count(); !out.empty() || !in.bytes.empty(); seen = bell.count()) {
    fate_.throw_if_broken();
    bool moved = false;
    if (!out.empty() && theirs != nullptr) {
      moved = peers_.boards().push_bytes(to, *theirs, out, egress_);
    } else if (!out.empty()) {
      out_.send_piece(to, out, false);
      moved = true;
    }
    if (!in.bytes.empty()) moved |= pull_bytes(from, in);
    if (!moved) bell.wait(seen);
  }
}

/// Copies available bytes.
bool Exchange::pull_bytes(std::uint32_t from, Inflow& in) {
  Inbox& inbox = peers_.inbox(from);
  const bool streamed = !peers_.boards().is_connected_to(from) || inbox.has_collective();
  return streamed ? pull_piece(inbox, in) : peers_.boards().pull_bytes(from, in);
}

}  // namespace orrery::live
