// A sum of vectors whose bits do not depend on the order of its terms, nor on who added which: each
// term is rounded once to a whole multiple of 2^-36, whole numbers are added, and integer addition
// is associative. Any tree, ring or number of ranks gives the same sum. Floating-point sums that
// are reproducible without a fixed range need several bins per value (Demmel and Nguyen, Parallel
// Reproducible Summation, IEEE Trans. Computers 2015); the gradients of one step span less than the
// range 2^-36 to 2^27 that fits here, so one 64-bit bin is enough, at twice the bytes of fp32. A
// fixed tree over the micro-batches would need as many gradients in memory as it is deep, and ranks
// that own whole subtrees. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace orrery::live {

class FixedPointSum {
 public:
  static constexpr int kFractionBits = 36;
  /// Largest magnitude of one term; there is room for the sum of 1024 such.
  static constexpr float kLargestTerm = 131072.0F;

  explicit FixedPointSum(std::size_t size) : units_(size, 0) {}

  void clear();
  /// Throws an environment Error for a term that is no number or too large.
  void add(std::span<const float> term);
  /// In units of 2^-36; whoever adds these of several ranks has the sum of all.
  std::span<std::int64_t> units() { return units_; }
  /// The sum, rounded to fp32.
  void store(std::span<float> sum) const;

 private:
  std::vector<std::int64_t> units_;
};

}  // namespace orrery::live
