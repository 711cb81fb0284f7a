// Results of `orrery compare`: predicted against measured values of scenarios that ran in both
// worlds, and the predicted against the measured order of several scenarios. Pure; seconds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "traces/report.pb.h"

namespace orrery::cli {

/// Predicted and measured values of one scenario.
struct Comparison {
  std::string name;
  Report predicted = {}, measured = {};
  std::vector<std::string> policies = {};  ///< names, if there is a comparison without them
  /// The same scenario without its policies; null if nobody asked for the policies' gain.
  std::shared_ptr<const Comparison> without_policies = {};

  /// Returns the relative error of the predicted median step time: predicted / measured - 1. The
  /// measured time must not be 0. For example, 0.05 means that the prediction is 5% too long.
  double error() const;
  /// Returns a quantile of the live run's step times, in seconds: the time of the nearest rank,
  /// without interpolation; 0 if it has none. `share`: from 0 to 1, for example 0.9.
  double quantile(double share) const;
  /// Returns true if the absolute error is at most `tolerance`.
  bool is_within(double tolerance) const;
  /// Returns the gain of the policies in the simulation: the share of the median step time that
  /// they save. For example, 0.25 for steps of 60 ms in place of 80 ms. Call only with
  /// without_policies.
  double predicted_gain() const;
  /// Returns the gain of the policies in the real run; see predicted_gain().
  double measured_gain() const;
};

/// Returns the indices of `runs` from the fastest to the slowest, by predicted step time.
std::vector<std::size_t> predicted_order(const std::vector<Comparison>& runs);
/// Returns the indices of `runs` from the fastest to the slowest, by measured step time.
std::vector<std::size_t> measured_order(const std::vector<Comparison>& runs);
/// Returns the neighbours in the measured order whose step times overlap (p90 of the faster run is
/// at or above p10 of the slower run), so that their order is noise. A pair is (faster, slower).
std::vector<std::pair<std::size_t, std::size_t>> too_close(const std::vector<Comparison>& runs);

/// Returns one scenario's phases and step, predicted and measured, as a table for people.
std::string comparison_text(const Comparison& run, double tolerance);
/// Returns both orders and the pairs that are too close, as text for people.
std::string order_text(const std::vector<Comparison>& runs);
/// Returns all comparisons, and the orders if there are several, as one JSON object.
std::string comparison_json(const std::vector<Comparison>& runs, double tolerance);

}  // namespace orrery::cli
