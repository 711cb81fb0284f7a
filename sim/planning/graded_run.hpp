// Training of a scenario as the training spec grades it: its step, its memory and the course of a
// long run with failures. Called by sim/planning/training_spec. One thread. Seconds, bytes.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "sim/planning/candidates.hpp"
#include "sim/planning/outcomes.hpp"

namespace orrery::sim {

/// Predicted gain of a change. For example, a share of 0.012 if the changed run takes 1.2% less
/// time.
struct PredictedGain {
  std::optional<double> share = {};  ///< share of the run's time that the change saves
  std::string reason = {};           ///< reason why the share is unknown; empty if it is known
};

/// Training run of a scenario with the price of its step and of its failures. For example, gain_of
/// a change that halves the restart time returns 0.012 if the run then takes 1.2% less time.
class GradedRun {
 public:
  /// `scenario` must be loaded and have a job. Throws bad_input as estimate_step().
  explicit GradedRun(const Scenario& scenario);

  const Scenario& scenario() const { return basis_.scenario; }
  const Cluster& cluster() const { return basis_.cluster; }
  const estimates::StepEstimate& step() const { return candidate_.priced.estimate; }
  const LongRun& run() const { return run_; }
  const TimeShares& shares() const { return shares_; }
  const PlanBasis& basis() const { return basis_; }
  /// Returns the nodes that hold ranks.
  std::uint32_t job_nodes() const { return candidate_.job_nodes; }
  /// Returns the mean seconds between two failures that interrupt the job; infinite without
  /// failures.
  double mtbf_s() const;
  /// Returns true if the scenario has no failures of its own, so that assumed ones were taken.
  bool assumes_failures() const { return assumes_failures_; }

  /// Returns the gain of a change of the scenario, with the same failures. The share is unknown if
  /// the changed run is impossible, needs more memory than a GPU has, or never ends.
  PredictedGain gain_of(const std::function<void(Scenario&)>& change) const;
  /// Returns the gain of another step time, with the same failures.
  PredictedGain gain_of_step(double step_s) const;

 private:
  /// Returns the median seconds of the run of a candidate on a basis.
  double median_of(const PlanBasis& basis, const LongRun& run) const;
  /// Returns the gain of a run that takes `seconds`.
  PredictedGain gain_at(double seconds) const;

  bool assumes_failures_ = false;
  PlanBasis basis_;
  Candidate candidate_;
  LongRun run_;
  TimeShares shares_;
  double median_s_ = 0;
};

/// Returns the layout of a job as a choice.
LayoutChoice choice_of(const Job& job);

}  // namespace orrery::sim
