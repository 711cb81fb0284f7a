#include <algorithm>
#include <cmath>

#include <Eigen/Dense>

#include "core/error.hpp"
#include "tests/live/gpu_check.hpp"

namespace orrery::live::gpu_check {

Median median_of(std::vector<double> values) {
  ensure(values.size() >= 6, "an interval needs six values");
  std::sort(values.begin(), values.end());
  const double count = static_cast<double>(values.size());
  const double reach = 0.98 * std::sqrt(count);
  const auto at = [&](double rank) {
    return values[static_cast<std::size_t>(std::clamp(rank, 0.0, count - 1))];
  };
  const std::size_t half = values.size() / 2;
  const double middle =
      values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {middle, at(std::floor(count / 2 - reach) - 1), at(std::ceil(count / 2 + reach))};
}

Verdict judge(const Median& ratio, double most) {
  if (ratio.high <= most) return Verdict::within;
  return ratio.low > most ? Verdict::beyond : Verdict::noisy;
}

std::vector<double> step_features(const StepSize& s) {
  constexpr double kVocabulary = 256;
  const auto of = [](std::uint64_t value) { return static_cast<double>(value); };
  const double tokens = of(s.sequences) * of(s.length), hidden = of(s.hidden), wide = of(s.wide);
  const double layers = of(s.layers);
  // Forward once, backward twice; attention apart, its products are small and many.
  const double products =
      6 * tokens * hidden * (layers * (4 * hidden + 3 * wide) + kVocabulary);
  const double attention = 12 * layers * tokens * of(s.length) * hidden;
  const double moved = 4 * tokens * layers * (30 * hidden + 8 * wide) +
                       4 * 8 * tokens * layers * of(s.heads) * of(s.length);
  const double embedding = tokens * hidden * kVocabulary;
  const double calls = 12 + layers * (30 + 6 * of(s.sequences));
  return {products, attention, moved, embedding, calls};
}

std::vector<double> fit(const std::vector<StepSize>& sizes, const std::vector<double>& seconds) {
  const auto rows = static_cast<Eigen::Index>(sizes.size());
  const auto columns = static_cast<Eigen::Index>(step_features(sizes.at(0)).size());
  Eigen::MatrixXd all(rows, columns);
  for (Eigen::Index row = 0; row < rows; ++row) {
    const auto at = static_cast<std::size_t>(row);
    const std::vector<double> features = step_features(sizes[at]);
    for (Eigen::Index i = 0; i < columns; ++i) {
      all(row, i) = features[static_cast<std::size_t>(i)] / seconds[at];
    }
  }
  const Eigen::VectorXd scale = all.cwiseAbs().colwise().maxCoeff();
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(rows);
  std::vector<Eigen::Index> used;
  for (Eigen::Index i = 0; i < columns; ++i) used.push_back(i);
  std::vector<double> out(static_cast<std::size_t>(columns), 0.0);
  while (!used.empty()) {
    Eigen::MatrixXd chosen(rows, static_cast<Eigen::Index>(used.size()));
    for (std::size_t i = 0; i < used.size(); ++i) {
      chosen.col(static_cast<Eigen::Index>(i)) = all.col(used[i]) / scale(used[i]);
    }
    const Eigen::VectorXd found = chosen.colPivHouseholderQr().solve(ones);
    Eigen::Index worst = 0;
    if (found.minCoeff(&worst) >= 0) {
      for (std::size_t i = 0; i < used.size(); ++i) {
        const double value = found(static_cast<Eigen::Index>(i)) / scale(used[i]);
        out[static_cast<std::size_t>(used[i])] = value;
      }
      break;
    }
    used.erase(used.begin() + worst);  // time is never won by doing more
  }
  return out;
}

double predict(const StepSize& size, const std::vector<double>& coefficients) {
  const std::vector<double> features = step_features(size);
  double seconds = 0;
  for (std::size_t i = 0; i < features.size(); ++i) seconds += features[i] * coefficients[i];
  return seconds;
}

}  // namespace orrery::live::gpu_check
