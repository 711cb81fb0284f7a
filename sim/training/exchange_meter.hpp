// Exposed duration of the gradient exchange of a training job in its newest committed step, for
// policies that choose collectives and codecs. Called by the job's steps; one thread. Samples in
// seconds.
#pragma once

#include <optional>
#include <vector>

#include "policies/seam/policy.hpp"
#include "sim/estimates/step/stepper.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::sim {

/// Collective sample of the newest committed step of a job. For example, an exchange of 3 s that
/// computation hides for 2 s has an exposed duration of 1 s.
class ExchangeMeter {
 public:
  /// Replaces the sample by the one of `step`, which took `duration` nanoseconds and ran as `what`.
  /// `graph`: step graph of the current placement. `stretch`: by replica, factor on the compute
  /// time; empty: 1.
  void record_step(JobId job, Step step, const estimates::SimulatedStep& what, Nanos duration,
            const std::vector<double>& stretch, const StepGraph& graph);
  /// Appends the sample to `out`, unless no step is recorded or its exchange was hidden completely.
  void read(std::vector<CollectiveSample>& out) const;

 private:
  std::optional<CollectiveSample> newest_;

  /// Passes all members to a StateWriter or StateReader.
  template <class Archive>
  friend void fields(Archive& archive, ExchangeMeter& of) {
    archive(of.newest_);
  }
};

}  // namespace orrery::sim
