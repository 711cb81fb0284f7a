#include "live/run/operator/run_status.hpp"

#include "live/run/files/run_statistics.hpp"

namespace orrery::live {

RunStatus status_of(const RunState& state, const Scenario& scenario) {
  RunStatus status;
  status.scenario = scenario.name();
  for (const PolicySpec& policy : scenario.policies()) status.policies.push_back(policy.name());
  status.phase = !state.started               ? "starting"
                 : state.held_since == kNever ? "training"
                                              : "held";
  status.step = state.core.committed;
  status.steps = scenario.run().steps();
  status.elapsed_s = to_seconds(state.statistics.last_commit());
  status.step_time_s = newest_interval(state.statistics);
  status.loss = newest_loss(state.statistics);
  status.samples = sample_total(state.statistics);
  status.epoch = state.core.epoch;
  status.losses = state.losses.size();
  status.checkpoints_written = state.checkpoints.written();
  status.checkpoints_failed = state.checkpoints.failed();
  status.keeps_checkpoints = scenario.has_checkpoints();
  return status;
}

}  // namespace orrery::live
