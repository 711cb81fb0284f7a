#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "live/codec/arithmetic.hpp"
#include "live/codec/codecs.hpp"
#include "live/codec/power_sgd.hpp"

namespace orrery::live {
namespace {

constexpr std::size_t kLanes = 32;
using Lanes = std::array<float, kLanes>;

float sum_of(Lanes& lanes) {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

/// Sum of factor(i) over i < count; lane j takes j, j + 32, ...
template <class Factor>
float lane_sum(std::size_t count, Factor factor) {
  Lanes lanes{};
  for (std::size_t i = 0; i < count; ++i) lanes[i % kLanes] += factor(i);
  return sum_of(lanes);
}

float seed_value(std::size_t index) {
  std::uint32_t hash = static_cast<std::uint32_t>(index) * 0x9E3779B9u + 0x85EBCA6Bu;
  hash = (hash ^ (hash >> 16)) * 0x7FEB352Du;
  hash ^= hash >> 15;
  return static_cast<float>(static_cast<std::int32_t>(hash >> 8) - (1 << 23)) * 0x1p-23F;
}

}  // namespace

FactorShape::FactorShape(const CodecRule& rule, std::size_t values)
    : rows(matrix_shape(values).rows),
      columns(matrix_shape(values).columns),
      rank(factor_rank(rule, values)),
      count(values) {}

FactorShape::FactorShape(const CodecRule& rule, std::size_t row_count, std::size_t column_count)
    : rows(row_count),
      columns(column_count),
      rank(std::min({static_cast<std::size_t>(parameter_of(rule)), row_count, column_count})),
      count(row_count * column_count) {}

void refresh_basis(const FactorShape& shape, std::vector<float>& basis) {
  const bool finite =
      std::all_of(basis.begin(), basis.end(), [](float value) { return std::isfinite(value); });
  if (basis.size() != shape.right_size() || !finite) basis.assign(shape.right_size(), 0.0F);
  for (std::size_t k = 0; k < shape.rank; ++k) {
    bool empty = true;
    for (std::size_t i = k; i < basis.size(); i += shape.rank) empty &= basis[i] == 0.0F;
    if (!empty) continue;
    for (std::size_t i = k; i < basis.size(); i += shape.rank) basis[i] = seed_value(i);
  }
}

void project(const FactorShape& shape, std::span<const float> matrix, std::span<const float> basis,
             std::span<float> left) {
  for (std::size_t row = 0; row < shape.rows; ++row) {
    const std::size_t first = row * shape.columns;
    const std::size_t width = std::min(shape.columns, shape.count - first);
    for (std::size_t k = 0; k < shape.rank; ++k) {
      left[row * shape.rank + k] = lane_sum(width, [&](std::size_t column) {
        return matrix[first + column] * basis[column * shape.rank + k];
      });
    }
  }
}

void orthonormalise(const FactorShape& shape, std::span<float> left) {
  const std::size_t rank = shape.rank;
  const auto dot = [&](std::size_t a, std::size_t b) {
    return lane_sum(shape.rows,
                    [&](std::size_t i) { return left[i * rank + a] * left[i * rank + b]; });
  };
  for (std::size_t k = 0; k < rank; ++k) {
    const float before = dot(k, k);
    for (std::size_t earlier = 0; earlier < k; ++earlier) {
      const float share = dot(earlier, k);
      for (std::size_t i = 0; i < shape.rows; ++i) {
        left[i * rank + k] -= share * left[i * rank + earlier];
      }
    }
    const float square = dot(k, k);
    // A dependent column leaves only rounding errors, which must not be scaled up.
    const bool independent = square > before * 1e-10F && square > 1e-30F;
    const float factor = independent ? 1.0F / std::sqrt(square) : 0.0F;
    for (std::size_t i = 0; i < shape.rows; ++i) {
      float& value = left[i * rank + k];
      value = factor == 0.0F ? 0.0F : value * factor;
    }
  }
}

void project_back(const FactorShape& shape, std::span<const float> matrix,
                  std::span<const float> left, std::span<float> right) {
  // Row by row through the matrix, as it lies in memory; the lane of a term is that of its row.
  std::vector<Lanes> lanes(shape.right_size());
  for (std::size_t row = 0; row < shape.rows; ++row) {
    const std::size_t first = row * shape.columns;
    const std::size_t width = std::min(shape.columns, shape.count - first);
    for (std::size_t column = 0; column < width; ++column) {
      const float value = matrix[first + column];
      for (std::size_t k = 0; k < shape.rank; ++k) {
        lanes[column * shape.rank + k][row % kLanes] += value * left[row * shape.rank + k];
      }
    }
  }
  for (std::size_t i = 0; i < lanes.size(); ++i) right[i] = sum_of(lanes[i]);
}

void multiply(const FactorShape& shape, std::span<const float> left, std::span<const float> right,
              std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float* a = left.data() + i / shape.columns * shape.rank;
    const float* b = right.data() + i % shape.columns * shape.rank;
    float sum = 0;
    for (std::size_t k = 0; k < shape.rank; ++k) sum += a[k] * b[k];
    values[i] = sum;
  }
}

void PowerSgdCodec::write(std::span<const float> values, std::vector<float>& basis,
                          std::span<std::byte> code) const {
  if (values.empty()) return;
  const FactorShape shape(rule_, values.size());
  refresh_basis(shape, basis);
  std::vector<float> left(shape.left_size());
  project(shape, values, basis, left);
  orthonormalise(shape, left);
  project_back(shape, values, left, basis);
  std::memcpy(code.data(), left.data(), 4 * left.size());
  std::memcpy(code.data() + 4 * left.size(), basis.data(), 4 * basis.size());
}

bool PowerSgdCodec::read(std::span<const std::byte> code, std::span<float> values) const {
  if (values.empty()) return true;
  const FactorShape shape(rule_, values.size());
  std::vector<float> left(shape.left_size()), right(shape.right_size());
  std::memcpy(left.data(), code.data(), 4 * left.size());
  std::memcpy(right.data(), code.data() + 4 * left.size(), 4 * right.size());
  multiply(shape, left, right, values);
  return true;
}

}  // namespace orrery::live
