#include "live/silence.hpp"

namespace orrery::live {
namespace {

constexpr Nanos kAway = kNanosPerSecond;  // between two looks: more means that nobody listened

}  // namespace

std::optional<std::uint32_t> Silence::find(Nanos now) {
  const Nanos pause = now - looked_;
  looked_ = now;
  for (std::uint32_t rank = 0; rank < heard_.size(); ++rank) {
    if (pause > kAway) heard_[rank] += pause;
    if (now - heard_[rank] >= limit_) return rank;
  }
  return std::nullopt;
}

}  // namespace orrery::live
