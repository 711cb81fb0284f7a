// Errors of sampled values: standard normal numbers for a whole column at once, eight at a time
// where the processor can. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <span>

namespace orrery::sim {

/// Fills `out` with standard normal numbers. Number i depends on `seed`, `a` and `first` + i *
/// `stride` alone, and differs from normal_at(seed, a, first + i * stride) by rounding only. All
/// processors compute the same bits.
void fill_normals(std::uint64_t seed, std::uint64_t a, std::uint64_t first, std::uint64_t stride,
                  std::span<double> out);

/// Multiplies each value by 1 plus `deviation` times its number of fill_normals(); missing values
/// (NaN) stay missing. All processors compute the same bits.
void add_errors(std::uint64_t seed, std::uint64_t a, std::uint64_t first, std::uint64_t stride,
                double deviation, std::span<double> values);

}  // namespace orrery::sim
