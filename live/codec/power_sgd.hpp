// Arithmetic of PowerSGD (arXiv 1905.13727): a matrix M as left x right^T of small rank, by one
// step of subspace iteration from the right factor of the previous call. Sums run in 32 lanes that
// are then added pairwise, the order of a GPU's warp, so that both give the same bits. Factors are
// row-major. Pure functions, used by the codec and by the exchange (which sums the factors over all
// ranks).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "traces/workload/gradient_codec.hpp"

namespace orrery::live {

/// Bucket as a matrix, the last row filled with zeros. The functions below need spans of its sizes:
/// `count` values of the matrix, left_size() and right_size() values of the factors (the basis is a
/// right factor); not checked.
struct FactorShape {
  FactorShape(const CodecRule& rule, std::size_t count);  ///< matrix of matrix_shape(count)
  /// Matrix of this shape, with the rule's rank or the smaller side of the matrix, whichever is
  /// less.
  FactorShape(const CodecRule& rule, std::size_t rows, std::size_t columns);
  std::size_t rows, columns, rank, count;
  /// Returns the number of values of the left factor, rows x rank.
  std::size_t left_size() const { return rows * rank; }
  /// Returns the number of values of the right factor, columns x rank.
  std::size_t right_size() const { return columns * rank; }
};

/// Makes `basis` usable: fixed pseudo-random values if it has another size than right_size() or is
/// not finite, and in columns of zeros (which would stay 0 for ever).
void refresh_basis(const FactorShape& shape, std::vector<float>& basis);
/// Computes left = M basis.
void project(const FactorShape& shape, std::span<const float> matrix, std::span<const float> basis,
             std::span<float> left);
/// Makes the columns of `left` orthonormal (modified Gram-Schmidt, in order). A column that depends
/// on the previous ones becomes 0.
void orthonormalise(const FactorShape& shape, std::span<float> left);
/// Computes right = M^T left.
void project_back(const FactorShape& shape, std::span<const float> matrix,
                  std::span<const float> left, std::span<float> right);
/// Computes M = left right^T, cut to `count` values.
void multiply(const FactorShape& shape, std::span<const float> left, std::span<const float> right,
              std::span<float> values);

}  // namespace orrery::live
