#include "live/run/job_release.hpp"

#include <chrono>
#include <optional>

#include <fmt/format.h>

namespace orrery::live {
namespace {

// Patience with a slow disk. Afterwards a checkpoint that is still being written may count as the
// newest for the keeper, which may delete the one that the job continues from.
constexpr std::chrono::seconds kWritePatience{10};

}  // namespace

void release_job(const JobRelease& run) {
  const Nanos now = run.clock.now();
  run.proposals.reject_open(run.carrier, fmt::format("job {} is not running", kLiveJob.value));
  run.crew.end_ranks();
  for (std::uint32_t seat = 0; seat < run.placement.seats(); ++seat) {
    run.checkpoints.record_lost_rank(seat);
  }
  run.checkpoints.wait_for_writes(kWritePatience);
  for (const SaveDone& done : run.saves.drain_events(now)) run.carrier.emit_event(done);

  const JobInfo& job = run.placement.job();
  const auto saved = job.saved_at > 0 ? std::optional(job.saved) : std::nullopt;
  const Resumption from = run.checkpoints.resumption_at(saved);
  run.account.roll_back(run.step.number(), from.step());
  run.crew.begin_again(from);
  run.step.roll_back_to(from.step());
  run.detector.forget_ranks();
  run.carrier.emit_event(JobStopped{kLiveJob, from.step()});
  run.recovery.mark_released();
  run.gate.reject_decisions(kLiveJob, now);
}

}  // namespace orrery::live
