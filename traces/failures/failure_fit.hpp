// Failure rates, recovery times and unreliable nodes learnt from the incidents of a log, and the
// goodput that they predict. Used by `orrery fit failures`. Pure functions of their arguments
// (random numbers among them); thread-safe. Seconds. For example, 40 interruptions in 100 days of
// work give the rate gamma(40.5) / 100 d, whose 80% interval is 0.326 to 0.490 a day.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "traces/failures/incident_log.hpp"
#include "traces/failures/recovery_fit.hpp"

namespace orrery {

/// Interval of an uncertain number: quantiles of 2.5%, 10%, 50%, 90% and 97.5%.
struct FitInterval {
  double p2_5 = 0, p10 = 0, p50 = 0, p90 = 0, p97_5 = 0;
};

/// Incidents of one cause, part and effect.
struct CauseFit {
  Incident like = {};  ///< cause, part and effect
  std::uint64_t count = 0;
  std::uint32_t highest_index = 0;  ///< highest index that the log names
  std::vector<double> down_s = {}, detection_s = {}, repair_s = {};  ///< observed times
  FitInterval per_day = {};                                          ///< rate of all parts together
};

/// Nodes that fail more often than the others.
struct LemonFit {
  double share = 0, times = 1;  ///< share of the nodes, factor on their rate; 0: none found
  std::vector<std::uint32_t> nodes =
      {};                             ///< nodes that are unreliable with at least 90% probability
  std::vector<double> expected = {};  ///< share of the cluster's failures expected on each of them
};

/// Returns the node of the incident's part; nothing unless the log names a node or a GPU.
std::optional<std::uint32_t> node_of(const Incident& incident, std::uint32_t gpus_per_node);

/// Failures of a span of a log.
struct FailureFit {
  double begin_s = 0, end_s = 0;
  double up_s = 0;                    ///< time in which the job worked
  std::uint64_t interruptions = 0;    ///< losses while it worked
  std::vector<CauseFit> causes = {};  ///< sorted by count, then name
  LemonFit lemons = {};
  double goodput() const { return up_s / (end_s - begin_s); }
};

/// Returns the failures of [begin_s, end_s) of the log. `nodes` is the number of nodes of the job,
/// and `gpus_per_node` finds the node of a GPU.
FailureFit learn_failures(const IncidentLog& log, double begin_s, double end_s, std::uint32_t nodes,
                          std::uint32_t gpus_per_node);

/// Forecast of a later span.
struct FailureForecast {
  FitInterval goodput = {};  ///< share of the time in which the job works
  FitInterval interruptions = {};
};
/// Returns the forecast for a span of `length_s` seconds after the fit, in which the job is at work
/// at the begin: the median and the intervals of simulated spans, each with a rate and
/// recovery times drawn from the fit. The fit needs an interruption.
FailureForecast forecast_failures(const FailureFit& fit, double length_s, Rng rng);

/// Returns true if two incidents have one cause, part and effect.
bool is_same_cause(const Incident& a, const Incident& b);
/// Returns quantiles of numbers, of which there must be at least one. Sorts them.
FitInterval interval_of(std::vector<double>& values);

}  // namespace orrery
