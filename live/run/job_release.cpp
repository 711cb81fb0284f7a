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
Resumption roll_back_checkpoints(const JobRelease& run) {
  const JobInfo& job = run.placement.job();
  return run.checkpoints.roll_back_to(job.saved_at > 0 ? std::optional(job.saved) : std::nullopt);
}

/// Lets the processes that start from now on begin with the state `from`. Call once all ranks have
/// ended.
void begin_again(const JobRelease& run, const Resumption& from) {
  run.account.record_discard(run.step.number());
  run.crew.begin_again(from);
  run.step.roll_back_to(from.step());
  run.detector.forget_ranks();
}

/// Ends all ranks and rolls the run back to its newest complete checkpoint; `anew`, and without a
/// checkpoint: to the state with which the run began. Returns the next step.
Step roll_back(const JobRelease& run, bool anew) {
  run.crew.end_ranks();
  for (std::uint32_t seat = 0; seat < run.placement.seats(); ++seat) {
    run.checkpoints.record_lost_rank(seat);
  }
  run.checkpoints.wait_for_writes(kWritePatience);
  for (const SaveDone& done : run.saves.drain_events(run.clock.now())) {
    run.carrier.emit_event(done);
  }
  const Resumption from =
      anew ? run.checkpoints.roll_back_to(std::nullopt) : roll_back_checkpoints(run);
  begin_again(run, from);
  return from.step();
}

/// Starts the processes of the pending assignment, which load the state together.
void start_loading(const JobRelease& run) {
  run.recovery.start_pending_ranks();
  const Standing& where = *run.placement.job().next;
  run.crew.await_ranks(static_cast<std::uint32_t>(where.gpus.size()));
}

}  // namespace

void release_job(const JobRelease& run) {
  run.proposals.reject_open(run.carrier, fmt::format("job {} is not running", kLiveJob.value));
  const Step kept = roll_back(run, false);
  run.carrier.emit_event(stop_of(run.placement.job(), kept));
  run.recovery.mark_released();
  run.gate.reject_decisions(kLiveJob, run.clock.now());
}

void restart_job(const JobRelease& run, StateFrom state) {
  run.proposals.drop_batches(std::numeric_limits<std::uint64_t>::max());
  roll_back(run, state == StateFrom::none);
  run.gate.expire_settings(kLiveJob);
  if (run.placement.job().phase == JobPhase::running) run.carrier.emit_event(JobHeld{kLiveJob});
  run.recovery.mark_released();
}

bool restore_job(const JobRelease& run) {
  if (!run.recovery.begin_restore(run.step.number())) return false;
  restart_job(run, StateFrom::checkpoint);
  start_loading(run);
  return true;
}

void choose_checkpoint_again(const JobRelease& run) {
  const std::optional<Resumption> before = run.crew.restored_state();
  if (!before || !before->in_memory() || !run.placement.is_submitted()) return;
  const JobInfo& job = run.placement.job();
  if (job.is_placed() && !job.is_restarting) return;
  const Resumption from = roll_back_checkpoints(run);
  if (from.attempt() == before->attempt()) return;
  run.crew.end_ranks();
  begin_again(run, from);
  if (job.next) start_loading(run);
}

}  // namespace orrery::live
