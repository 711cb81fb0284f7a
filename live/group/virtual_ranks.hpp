// Arithmetic of a group that keeps its size after losses: programs divide by the world size and
// index gathered lists by rank, so sums are scaled and gathered entries have stand-ins. Used by
// live/torch. Example: of 4 members 3 are left; their sum 9 becomes 12, the mean that the program
// computes is 3.
#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

namespace orrery::live {

/// Returns the sum of `size` members for the sum of `alive` members: value * size / alive. Integers
/// are rounded to the nearest, halves away from zero, and wrap if the result is outside of T.
/// `alive` must not be 0.
template <typename T>
T scaled_sum(T value, std::size_t size, std::size_t alive) {
  if constexpr (std::is_integral_v<T>) {
    const __int128 product = static_cast<__int128>(value) * static_cast<__int128>(size);
    const auto count = static_cast<__int128>(alive);
    const __int128 half = product < 0 ? -(count / 2) : count / 2;
    return static_cast<T>((product + half) / count);
  } else {
    return static_cast<T>(value * (static_cast<double>(size) / static_cast<double>(alive)));
  }
}

/// Returns the position in `alive` (ascending members) of the member whose entry stands in the
/// place of `member`: the member itself if it is alive, else one chosen by its number. `alive` must
/// not be empty.
inline std::size_t stand_in_position(std::size_t member, const std::vector<std::size_t>& alive) {
  for (std::size_t at = 0; at < alive.size(); ++at) {
    if (alive[at] == member) return at;
  }
  return member % alive.size();
}

}  // namespace orrery::live
