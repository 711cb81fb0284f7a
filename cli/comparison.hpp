// What `orrery compare` says of a scenario that ran in both worlds, and of several: predicted
// against measured, and whether their order was predicted. Pure; seconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/report.pb.h"

namespace orrery::cli {

struct Comparison {
  std::string name;
  Report predicted = {}, measured = {};

  /// Predicted over measured median step time, less 1.
  double error() const;
  /// Of the live run's steps; share 0.1, 0.5, 0.9, ...
  double quantile(double share) const;
  bool within(double tolerance) const;
};

/// Indices from the fastest to the slowest.
std::vector<std::size_t> predicted_order(const std::vector<Comparison>& runs);
std::vector<std::size_t> measured_order(const std::vector<Comparison>& runs);
/// Neighbours of the measured order whose steps overlap (p90 of the faster at or above p10 of the
/// slower): their order is noise.
std::vector<std::pair<std::size_t, std::size_t>> too_close(const std::vector<Comparison>& runs);

std::string comparison_text(const Comparison& run, double tolerance);
std::string order_text(const std::vector<Comparison>& runs);
std::string comparison_json(const std::vector<Comparison>& runs, double tolerance);

}  // namespace orrery::cli
