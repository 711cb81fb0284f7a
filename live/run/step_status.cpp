#include "live/run/step_status.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "policies/seam/part_changes.hpp"

namespace orrery::live {
namespace {

/// Returns the name of a rank's state. `is_tested`: the seat belongs to a part that is tested.
std::string state_name(const RankState& rank, bool is_tested) {
  return rank.is_member    ? "working"
         : is_tested       ? "testing"
         : rank.is_spare   ? "spare"
         : rank.is_fenced  ? "fenced"
         : rank.is_running ? "joining"
                           : "lost";
}

/// Appends one entry for each rank, and for each other process.
void fill_ranks(const RunParts& run, const StepParts& parts, RunStatus& status) {
  const RankStates& states = parts.crew.states();
  const std::vector<std::uint32_t> tested = parts.tests.seats(parts.step.number(), run.clock.now());
  for (std::uint32_t seat = 0; seat < run.placement.seats(); ++seat) {
    const RankState& rank = states.at(seat);
    if (!rank.is_running && run.placement.is_stray(seat)) continue;  // no process has this GPU
    const bool is_tested = std::find(tested.begin(), tested.end(), seat) != tested.end();
    const auto [step, micro_batches] = parts.detector.at(seat);
    status.ranks.push_back(
        {.rank = seat,
         .state = state_name(rank, is_tested),
         .pid = rank.is_running ? rank.pid : 0,
         .step = step,
         .micro_batches = micro_batches,
         .device = rank.is_running ? run.observations.telemetry().device(seat) : DeviceReading()});
  }
}

}  // namespace

void fill_status(const RunParts& run, const StepParts& parts, bool over, RunStatus& status) {
  const Nanos duration = parts.step.newest_duration();
  if (duration > 0) status.step_time_s = to_seconds(duration);
  const bool waits = run.placement.is_submitted() && !run.placement.job().is_placed();
  if (over) {
    status.phase = "over";
  } else if (parts.end.is_stopping()) {
    status.phase = "stopping";
  } else if (waits) {
    status.phase = "waiting";
  }
  if (!run.placement.is_submitted()) return;
  const RankCount count{run.placement.counted(), run.journal.state().wanted_ranks};
  status.ranks_missing = over ? 0 : count.missing();
  const JobInfo& job = run.placement.job();
  if (job.saved_at > 0) status.saved = job.saved;
  status.batch = job.micro_batches();
  status.learning_rate_factor = job.now.get<orrery::Batch>().learning_rate_factor;
  status.delay_s = job.now.get<Delay>().seconds;
  for (const auto& [part, state] : run.world().state().parts) {
    if (state.removal) status.removals.push_back({part, state.health, *state.removal});
    if (is_slower(state)) status.slower.push_back({part, state.rate, to_seconds(state.since)});
  }
  fill_ranks(run, parts, status);
}

}  // namespace orrery::live
