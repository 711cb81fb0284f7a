#include "live/run/job_release.hpp"

#include <chrono>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "policies/seam/job_lifecycle.hpp"

namespace orrery::live {
namespace {

// Patience with a slow disk.
constexpr std::chrono::seconds kWritePatience{10};

/// Rolls the checkpoints back to the newest complete one that the policies know; without one, to
/// the state with which the run began. Returns the state.
Resumption roll_back_checkpoints(RunParts& run) {
  const JobInfo& job = run.placement.job();
  return run.checkpoints.roll_back_to(job.saved_at > 0 ? std::optional(job.saved) : std::nullopt);
}

/// Lets the processes that start from now on begin with the state `from`. Call once all ranks have
/// ended.
void begin_again(RunParts& run, StepParts& parts, const Resumption& from) {
  run.metrics.record_discard(parts.step.number());
  parts.crew.begin_again(from);
  parts.step.roll_back_to(from.step());
  parts.detector.forget_ranks();
}

/// Ends all ranks and rolls the run back to its newest complete checkpoint; `anew`, and without a
/// checkpoint: to the state with which the run began. Returns the next step.
Step roll_back(RunParts& run, StepParts& parts, Carrier& carrier, bool anew) {
  parts.crew.end_ranks();
  for (std::uint32_t seat = 0; seat < run.placement.seats(); ++seat) {
    run.checkpoints.record_lost_rank(seat);
  }
  run.checkpoints.wait_for_writes(kWritePatience);
  for (const SaveDone& done : parts.saves.drain_events(run.clock.now())) carrier.emit_event(done);
  const Resumption from =
      anew ? run.checkpoints.roll_back_to(std::nullopt) : roll_back_checkpoints(run);
  begin_again(run, parts, from);
  return from.step();
}

/// Starts the processes of the pending assignment, which load the state together.
void start_loading(const RunParts& run, StepParts& parts) {
  parts.recovery.start_missing();
  const Standing& where = *run.placement.job().next;
  parts.crew.await_ranks(static_cast<std::uint32_t>(where.gpus.size()));
}

}  // namespace

void release_job(RunParts& run, StepParts& parts, Carrier& carrier) {
  parts.proposals.reject_open(carrier, fmt::format("job {} is not running", kLiveJob.value));
  const Step kept = roll_back(run, parts, carrier, false);
  carrier.emit_event(stop_of(run.placement.job(), kept));
  parts.recovery.mark_released();
  parts.gate.reject_decisions(kLiveJob, run.clock.now());
}

void restart_job(RunParts& run, StepParts& parts, Carrier& carrier, StateFrom state) {
  parts.proposals.drop_batches(std::numeric_limits<std::uint64_t>::max());
  roll_back(run, parts, carrier, state == StateFrom::none);
  parts.gate.expire_settings(kLiveJob);
  if (run.placement.job().phase == JobPhase::running) carrier.emit_event(JobHeld{kLiveJob});
  parts.recovery.mark_released();
}

bool restore_job(RunParts& run, StepParts& parts, Carrier& carrier) {
  if (!parts.recovery.begin_restore(parts.step.number())) return false;
  restart_job(run, parts, carrier, StateFrom::checkpoint);
  start_loading(run, parts);
  return true;
}

void choose_checkpoint_again(RunParts& run, StepParts& parts) {
  const std::optional<Resumption> before = parts.crew.restored_state();
  if (!before || !before->in_memory() || !run.placement.is_submitted()) return;
  const JobInfo& job = run.placement.job();
  if (job.is_placed() && !job.is_restarting) return;
  const Resumption from = roll_back_checkpoints(run);
  if (from.attempt() == before->attempt()) return;
  parts.crew.end_ranks();
  begin_again(run, parts, from);
  if (job.next) start_loading(run, parts);
}

}  // namespace orrery::live
