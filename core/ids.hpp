// Ids of objects and the type of instants. Every id is a type of its own, so that a rank is never
// used as a GPU. Header only; thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <limits>

namespace orrery {

/// Instant or span of the policy clock, in whole nanoseconds. Signed, so that differences are safe;
/// 292 years fit.
using Nanos = std::int64_t;
inline constexpr Nanos kNanosPerSecond = 1'000'000'000;
inline constexpr Nanos kNever = std::numeric_limits<Nanos>::max();

/// Returns a time of `t` nanoseconds in seconds.
constexpr double to_seconds(Nanos t) { return static_cast<double>(t) / 1e9; }
/// Returns a time of `seconds`, rounded to the nearest nanosecond (half a nanosecond: away from 0).
/// `seconds` must be finite and below 9.2e9.
constexpr Nanos to_nanos(double seconds) {
  return static_cast<Nanos>(seconds * 1e9 + (seconds < 0 ? -0.5 : 0.5));
}

/// Dense index of one kind of objects; `value` starts at 0.
template <class Tag, class Rep = std::uint32_t>
struct Id {
  Rep value = 0;
  friend constexpr auto operator<=>(const Id&, const Id&) = default;
};

using GpuId = Id<struct GpuTag>;    ///< index of a GPU in the Cluster, node-major
using NodeId = Id<struct NodeTag>;  ///< index of a node in the Cluster
using LinkId = Id<struct LinkTag>;  ///< index of a directed link in the Cluster
using RankId = Id<struct RankTag>;  ///< rank within one job, 0 .. world size - 1
using JobId = Id<struct JobTag>;    ///< index of a job in the JobTable, in order of submission
using Epoch = Id<struct EpochTag, std::uint64_t>;  ///< membership generation of a job
using Step = std::uint64_t;                        ///< optimizer step, the first is 0

}  // namespace orrery

/// Hash of an id.
template <class Tag, class Rep>
struct std::hash<orrery::Id<Tag, Rep>> {
  std::size_t operator()(const orrery::Id<Tag, Rep>& id) const noexcept {
    return std::hash<Rep>{}(id.value);
  }
};
