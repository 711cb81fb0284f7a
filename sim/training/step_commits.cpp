#include "sim/training/step_commits.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "policies/seam/job_lifecycle.hpp"
#include "sim/training/job_faults.hpp"
#include "sim/training/placement.hpp"

namespace orrery::sim {
namespace {

void save_if_due(const JobInWorld& here, TrainingState& state) {
  const JobInfo& job = here.job(state.id);
  const auto tier = state.saving.drain_due(state.step);
  if (!tier) return;
  const std::vector<GpuId> writers = working_part(job).first.gpus.to_vector();
  const Nanos stall =
      state.saving.begin({.job = state.id,
                          .step = state.step,
                          .tier = *tier,
                          .holders = copy_holders(*tier, here.cluster(), writers),
                          // storage rate at the begin of the save
                          .storage = state.faults.plan.storage(state.step, state.now)},
                         state.now, here.scenario().checkpoints());
  state.metrics.time().mark_checkpoint(state.step, state.saving.oldest_kept(job.saved));
  stall_until(state, state.now + stall, GpuUse::checkpoint);
}

/// Ends the checkpoints in flight whose copies are lost with the part.
void fail_saves_held_by(const PartChanged& change, const JobInWorld& here, TrainingState& state) {
  if (change.part.kind != PartKind::node || change.to.health != Health::lost) return;
  for (SaveDone& done : state.saving.abandon_holder({change.part.index})) {
    here.emit_event(std::move(done));
  }
}

}  // namespace

void commit_steps(const JobInWorld& here, TrainingState& state, std::uint64_t steps,
                  Nanos duration, bool tell) {
  state.metrics.committed_by(state.now);
  state.step += steps;
  state.untold_steps += steps;
  state.untold_duration += duration;
  state.losses.mark_resumed(state.now);
  state.metrics.record_progress(state.step, state.now);
  state.faults.plan.forget_before(state.now, state.metrics.started());
  // A run that continues a log may have another number of steps than the job's submission.
  const bool is_over = has_done_all_steps(state.step, here.scenario().run().steps());
  if (tell || is_over) {
    tell_committed(here, state);
    here.gate().settle_deferred(state.id, state.now);
    save_if_due(here, state);
  }
  if (is_over) end_job(here, state, Ending::completed);
  here.report_progress(state.step, state.now);
}

void tell_committed(const JobInWorld& here, TrainingState& state) {
  if (state.untold_steps == 0) return;
  here.emit_event(StepsDone{.job = state.id,
                            .last = state.step - 1,
                            .count = std::exchange(state.untold_steps, 0),
                            .duration = std::exchange(state.untold_duration, 0)});
}

void roll_back_to(TrainingState& state, Step step) {
  state.metrics.roll_back(state.step, step);
  state.saving.forget_kept_after(step);
  state.step = step;
}

void emit_due_events(const JobInWorld& here, TrainingState& state) {
  std::vector<Event> due;
  drain_reports(state.faults, state.now, due);
  while (auto done = state.saving.take_done(state.now)) {
    const std::uint32_t keep = here.scenario().checkpoints().keep();
    state.saving.keep_checkpoint(*done, state.now, keep);
    due.push_back(std::move(*done));
  }
  std::stable_sort(due.begin(), due.end(),
                   [](const Event& a, const Event& b) { return a.index() < b.index(); });
  bool parts_changed = false;
  for (Event& event : due) {
    const auto* const part = std::get_if<PartChanged>(&event);
    parts_changed = parts_changed || part != nullptr;
    if (part != nullptr) fail_saves_held_by(*part, here, state);
    here.emit_event(std::move(event));
  }
  if (!parts_changed || !state.metrics.has_started()) return;
  renew_spares(here, state, state.now + here.survival().replacement());
}

void end_job(const JobInWorld& here, TrainingState& state, Ending how) {
  emit_due_events(here, state);
  state.metrics.end(state.now);
  here.contention().remove_job(state.id);
  here.emit_event(JobDone{state.id, how});
  here.gate().reject_decisions(state.id, state.now);
}

}  // namespace orrery::sim
