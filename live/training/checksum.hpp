// Checksum that detects damage of the training state in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace orrery::live {

/// Checksum of floating-point values in memory order, for comparisons within one process. With the
/// values as 32-bit words w_0 ... w_(n-1), a = sum(w_i) and b = sum((n - i) w_i), both modulo 2^64.
/// A change of one word always changes a. Costs one pass over the memory.
class Checksum {
 public:
  /// Adds values.
  void add(std::span<const float> values) {
    for (const float& value : values) {
      std::uint32_t word = 0;
      std::memcpy(&word, &value, sizeof word);
      a_ += word;
      b_ += a_;
    }
  }
  friend bool operator==(const Checksum&, const Checksum&) = default;

 private:
  std::uint64_t a_ = 0, b_ = 0;
};

}  // namespace orrery::live
