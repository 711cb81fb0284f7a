#include "sim/training/training_snapshot.hpp"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/seam/job_lifecycle.hpp"
#include "sim/training/job_faults.hpp"
#include "sim/training/next_step.hpp"
#include "sim/training/placement.hpp"
#include "sim/training/state_archive.hpp"
#include "sim/training/step_sequence.hpp"

namespace orrery::sim {
namespace {

/// First value of a snapshot; another one is another layout of the bytes.
constexpr std::uint32_t kVersion = 6;

/// Fits of a state by their placements, and the begin of the open step.
struct Placements {
  Standing first, now;
  std::vector<std::uint32_t> ranks;
  std::vector<GpuId> numbered;
  std::optional<Nanos> opened;
};

template <class Archive>
void fields(Archive& archive, Placements& of) {
  archive(of.first, of.now, of.ranks, of.numbered, of.opened);
}

/// Returns the faults of a job at the end of a log, within the current step: the parts of the world
/// are reported, and the faults of the step that strike at this instant are spent unless they kill
/// a rank that still works and was not lost in this step.
JobFaults faults_after(const JobInWorld& here, const TrainingState& state, const Past& past) {
  JobFaults faults = state.faults;
  faults.reported = here.world().state().parts;
  // A rank that was lost in the current step has already been killed by the faults of this step.
  for (const FatalFault& fault : faults.plan.losses(state.step, state.now, state.now + 1)) {
    const auto rank = rank_at_work(here.job(state.id), state, fault.rank.value);
    if (!rank || past.lost_in_step().contains(*rank)) faults.plan.mark_spent(fault);
  }
  return faults;
}

/// Returns the GPUs of stalled ranks that the job has replaced or lost, and when these are heard
/// again.
std::map<GpuId, Nanos> fenced_gpus(const JobInfo& job, const TrainingState& state) {
  std::map<GpuId, Nanos> fenced;
  for (const auto& [rank, end] : state.faults.plan.stopped_ranks(state.now)) {
    const GpuId gpu = state.fits.numbered.at(rank.value);
    if (!rank_on(job, gpu) && job.gpus.contains(gpu)) fenced[gpu] = end;
  }
  return fenced;
}

/// Returns the assignment that is not active yet at the end of a log; nothing if there is none.
std::optional<PendingAssignment> pending_of(const JobInWorld& here, const JobInfo& job,
                                            Nanos now) {
  if (!job.next) return {};
  const auto saved = job.saved_at > 0 ? StateFrom::checkpoint : StateFrom::none;
  return PendingAssignment{*job.next, job.is_restarting ? saved : StateFrom::peer,
                           now + here.survival().replacement()};
}

}  // namespace

std::string write_state(const TrainingState& state) {
  ensure(!state.stretch, "a snapshot is taken between steps or within an open step");
  std::string bytes;
  StateWriter archive(bytes);
  archive(kVersion);
  archive(Placements{.first = state.fits.first->where(),
                     .now = state.fit().where(),
                     .ranks = state.fit().ranks(),
                     .numbered = state.fits.numbered,
                     .opened = state.open ? std::optional(state.open->start()) : std::nullopt},
          state);
  return bytes;
}

TrainingState read_state(const JobInWorld& here, std::string_view bytes) {
  StateReader archive(bytes);
  std::uint32_t version = 0;
  archive(version);
  if (version != kVersion) {
    throw Error(ErrorKind::bad_input,
                fmt::format("snapshot of a training job: expected version {}, found version {}; "
                            "read it with the build that wrote it, or simulate the job again and "
                            "write it with this build", kVersion, version));
  }
  Placements at;
  archive(at);
  TrainingState state = state_at(here, at.first);
  state.fits.numbered = std::move(at.numbered);
  state.faults.plan.move_ranks(state.fits.numbered);
  if (at.now != at.first) here.fits().move_to(state.fits, at.now, std::move(at.ranks));
  archive(state);
  ensure(archive.is_at_end(), "a snapshot ends with its state");
  if (state.conditions) apply_conditions(here, state);
  if (at.opened) reopen_step(here, state, *at.opened);
  return state;
}

TrainingState state_from_log(const JobInWorld& here, TrainingState initial, const Past& past) {
  TrainingState state = std::move(initial);
  state.id = {0};  // a log that a run goes on from has one job
  state.submitted = true;
  state.now = past.now();
  const JobInfo* const job = here.world().jobs().find(state.id);
  const bool over = job == nullptr || job->phase == JobPhase::done;
  state.metrics = TrainingMetrics(here.setup(), *state.fits.first, past, over);
  if (over) return state;
  state.step = job->step;
  state.faults = faults_after(here, state, past);
  renew_spares(here, state, state.now);
  number_gpus(state, job->gpus);  // the job may have moved
  state.fenced = fenced_gpus(*job, state);
  state.pending = pending_of(here, *job, state.now);
  refit_job(here, state);
  const bool is_in_step = job->phase == JobPhase::running && past.last_commit() != past.now() &&
                          past.lost_in_step().empty() && !past.steps().empty();
  if (is_in_step) restart_current_step(here, state, past.last_commit());
  return state;
}

}  // namespace orrery::sim
