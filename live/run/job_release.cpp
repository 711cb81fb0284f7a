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
  const JobInfo& job = run.placement.job();
  const auto saved = job.saved_at > 0 && !anew ? std::optional(job.saved) : std::nullopt;
  const Resumption from = run.checkpoints.roll_back_to(saved);
  run.account.roll_back(run.step.number(), from.step());
  run.crew.begin_again(from);
  run.step.roll_back_to(from.step());
  run.detector.forget_ranks();
  return from.step();
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
  run.recovery.start_pending_ranks();
  const Standing& where = *run.placement.job().next;
  run.crew.await_ranks(static_cast<std::uint32_t>(where.gpus.size()));
  return true;
}

}  // namespace orrery::live
