// Checksums of the training state: they detect damage in memory, and replicas that differ.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>

#include "live/checkpoint/format.hpp"

namespace orrery::live {

/// Checksum of the floating-point values of a vector or of a part of one. With the values at the
/// indices i as 32-bit words w_i, sum = sum(w_i) and weighted = sum((i + 1) w_i), both modulo 2^64.
/// Checksums of disjoint parts add up, so that a running checksum can follow every write: subtract
/// the values that are overwritten, add the written ones. A change of one word always changes the
/// sum, and damage between two writes stays in the difference between the running checksum and the
/// memory. Zeros add nothing. Costs one pass over the memory.
class Checksum {
 public:
  Checksum() = default;
  /// Restores a checksum from its two numbers.
  Checksum(std::uint64_t sum, std::uint64_t weighted) : sum_(sum), weighted_(weighted) {}

  /// Adds values, the first of which has index `first`.
  void add(std::span<const float> values, std::uint64_t first) {
    std::array<std::uint64_t, kLanes> sums{}, prefixes{};
    const std::size_t rows = values.size() / kLanes;
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        sums[lane] += word(values[row * kLanes + lane]);
        prefixes[lane] += sums[lane];
      }
    }
    // A prefix counts the word of row r (rows - r) times.
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      sum_ += sums[lane];
      weighted_ += (first + 1 + lane) * sums[lane] + kLanes * (rows * sums[lane] - prefixes[lane]);
    }
    for (std::size_t i = rows * kLanes; i < values.size(); ++i) {
      sum_ += word(values[i]);
      weighted_ += (first + 1 + i) * word(values[i]);
    }
  }
  /// Adds the moments of the parameters from index `first` on, with indices that no parameter has.
  void add_moments(std::span<const float> mean, std::span<const float> square,
                   std::uint64_t first) {
    add(mean, first + (std::uint64_t{1} << 40));
    add(square, first + (std::uint64_t{2} << 40));
  }
  /// Adds the checksum of a disjoint part.
  Checksum& operator+=(const Checksum& part) {
    sum_ += part.sum_;
    weighted_ += part.weighted_;
    return *this;
  }
  /// Subtracts the checksum of a part.
  Checksum& operator-=(const Checksum& part) {
    sum_ -= part.sum_;
    weighted_ -= part.weighted_;
    return *this;
  }
  friend auto operator<=>(const Checksum&, const Checksum&) = default;

  /// Returns the sum of the words.
  std::uint64_t sum() const { return sum_; }
  /// Returns the sum of the words, each times its index + 1.
  std::uint64_t weighted() const { return weighted_; }

 private:
  static constexpr std::size_t kLanes = 8;  ///< independent sums, for vector instructions
  static std::uint64_t word(const float& value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
  }

  std::uint64_t sum_ = 0, weighted_ = 0;
};

/// Returns the checksum of a part of the state whose first parameter has index `first`.
inline Checksum checksum_of(const TrainingState& part, std::uint64_t first) {
  Checksum sum;
  sum.add(part.parameters, first);
  sum.add_moments(part.mean, part.square, first);
  return sum;
}

/// Checksums of the parts of the state that one rank holds. Key 0: the parameters, with the moments
/// unless they are sharded; key 1 + p: parameters and moments of part p of a sharded state. Ranks
/// that hold the same part have the same checksum.
using PartChecksums = std::map<std::uint32_t, Checksum>;

/// Checksums that a shard's writer reports: of the state from which the shard was copied, empty if
/// replicas need not have equal bits, and of the shard.
struct ShardProof {
  PartChecksums state;
  Checksum content;
};

}  // namespace orrery::live
