#include "live/run/observations/noise_scale.hpp"

namespace orrery::live {
namespace {

constexpr double kKept = 0.9;  ///< weight of the earlier steps

/// Returns the square of a mean gradient, from that of the sum over `samples`.
double mean_square(double square, std::uint64_t samples) {
  return square / static_cast<double>(samples) / static_cast<double>(samples);
}

bool has_squares(const StepReport& report) {
  return report.has_own_square() && report.samples() > 0;
}

}  // namespace

std::optional<double> gradient_variance(const StepReport& report, std::uint64_t all) {
  if (!has_squares(report) || report.total_square() <= 0) return {};
  const double mean = mean_square(report.total_square(), all);
  return mean_square(report.own_square(), report.samples()) / mean - 1;
}

void NoiseScale::add_step(std::span<const StepReport> reports, std::uint64_t all) {
  double small = 0, inverse = 0, big = 0;
  std::uint32_t ranks = 0;
  for (const StepReport& report : reports) {
    if (!has_squares(report) || report.samples() >= all) continue;
    small += mean_square(report.own_square(), report.samples());
    inverse += 1 / static_cast<double>(report.samples());
    big = mean_square(report.total_square(), all);
    ++ranks;
  }
  if (ranks < 2 || big <= 0) return;
  small /= ranks;
  const double each = ranks / inverse, total = static_cast<double>(all);
  square_ = kKept * square_ + (total * big - each * small) / (total - each);
  trace_ = kKept * trace_ + (small - big) / (1 / each - 1 / total);
}

std::optional<double> NoiseScale::value() const {
  if (square_ <= 0 || trace_ <= 0) return {};
  return trace_ / square_;
}

}  // namespace orrery::live
