// Sum of vectors whose bits do not depend on the order of its terms or on the ranks that added
// them: each term is rounded once to a multiple of 2^-36, whole numbers are added, and integer
// addition is associative. Any tree, ring or number of ranks gives the same sum. Reproducible
// floating-point sums without a fixed range need several bins for each value (Demmel and Nguyen,
// Parallel Reproducible Summation, IEEE Trans. Computers 2015); the gradients of one step span less
// than the range 2^-36 to 2^27, so one 64-bit bin is enough, at twice the bytes of fp32. A fixed
// tree over the micro-batches would need as many gradients in memory as it is deep, and ranks that
// own whole subtrees. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace orrery::live {

/// Vector sum in units of 2^-36. For example, the term 0.5 is stored as 2^35.
class FixedPointSum {
 public:
  static constexpr int kFractionBits = 36;
  /// Largest magnitude of one term; the sum of 1024 such terms fits.
  static constexpr float kLargestTerm = 131072.0F;

  /// Constructs a sum of zeros.
  explicit FixedPointSum(std::size_t size) : units_(size, 0) {}

  /// Sets the sum to zero.
  void clear();
  /// Adds a term, each value rounded towards zero to a multiple of 2^-36; the sum of more than 1024
  /// terms may overflow. Throws an environment Error for a value that is not finite or too large;
  /// the other values are added by then. Throws an internal Error for a term of another size.
  void add(std::span<const float> term);
  /// Returns the sum in units of 2^-36; adding the units of several ranks gives the sum of all.
  std::span<std::int64_t> units() { return units_; }
  /// Returns the sum of the squares of all values.
  double square() const;
  /// Writes the sum, rounded to fp32. Throws an internal Error for another size.
  void store(std::span<float> sum) const;

 private:
  std::vector<std::int64_t> units_;
};

}  // namespace orrery::live
