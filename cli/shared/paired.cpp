#include "cli/shared/paired.hpp"

#include <cmath>
#include <numbers>

#include "core/error.hpp"

namespace orrery::cli {
namespace {

constexpr double kConfidence = 0.95;

/// Returns the distribution function at `t` (Abramowitz and Stegun, 26.7.3 and 26.7.4).
double student_share(double t, std::uint32_t freedom) {
  const bool odd = freedom % 2 == 1;
  const double angle = std::atan(t / std::sqrt(static_cast<double>(freedom)));
  const double cosine = std::cos(angle);
  double term = odd ? cosine : 1, total = 0;
  for (std::uint32_t k = odd ? 2 : 1; k < freedom; k += 2) {
    total += term;
    term *= cosine * cosine * k / (k + 1);
  }
  total *= std::sin(angle);
  const double inside = odd ? 2 / std::numbers::pi * (angle + total) : total;
  return (1 + inside) / 2;
}

}  // namespace

double student_quantile(double share, std::uint32_t freedom) {
  double low = 0, high = 1;
  while (student_share(high, freedom) < share) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (student_share(middle, freedom) < share ? low : high) = middle;
  }
  return (low + high) / 2;
}

PairedDifference paired_difference(const std::vector<double>& values,
                                   const std::vector<double>& reference) {
  ensure(values.size() == reference.size() && values.size() > 1, "pairs are at least two");
  const auto count = static_cast<double>(values.size());
  double mean = 0, squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) mean += (values[i] - reference[i]) / count;
  for (std::size_t i = 0; i < values.size(); ++i) {
    squares += std::pow(values[i] - reference[i] - mean, 2);
  }
  const double deviation = std::sqrt(squares / (count - 1));
  const double quantile =
      student_quantile(0.5 + kConfidence / 2, static_cast<std::uint32_t>(values.size() - 1));
  const double half = quantile * deviation / std::sqrt(count);
  return {mean, mean - half, mean + half};
}

}  // namespace orrery::cli
