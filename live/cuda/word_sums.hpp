// Checksum of values in a device's memory: that of live/checkpoint/checksum.hpp, computed value by
// value on the device. C++17, for CUDA's compiler. For example, the value 1.0F (the word
// 0x3F800000) at index 2 adds 0x3F800000 to the sum and 3 times that to the weighted sum.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define ORRERY_DEVICE __device__
#else
#define ORRERY_DEVICE
#endif

namespace orrery::live::gpu {

/// Sums of words w_i at the indices i: sum(w_i) and sum((i + 1) w_i), modulo 2^64. Sums of disjoint
/// parts add up in any order.
struct WordSums {
  std::uint64_t sum = 0, weighted = 0;

  /// Adds a value's word at an index.
  ORRERY_DEVICE void add_value(const float& value, std::uint64_t index) {
    const std::uint64_t word = word_of(value);
    sum += word;
    weighted += (index + 1) * word;
  }
  /// Subtracts a value's word at an index.
  ORRERY_DEVICE void subtract_value(const float& value, std::uint64_t index) {
    const std::uint64_t word = word_of(value);
    sum -= word;
    weighted -= (index + 1) * word;
  }

 private:
  static ORRERY_DEVICE std::uint32_t word_of(const float& value) {
    std::uint32_t word = 0;
    memcpy(&word, &value, sizeof word);
    return word;
  }
};

/// Indices of the moments of parameter 0, as in Checksum::add_moments().
constexpr std::uint64_t kMeanIndex = std::uint64_t{1} << 40;
constexpr std::uint64_t kSquareIndex = std::uint64_t{2} << 40;

}  // namespace orrery::live::gpu
