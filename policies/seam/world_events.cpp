// Part of World (world.hpp) that knows each event: its conditions, which protect against damaged
// logs and faulty backends, and its effect. A new event is added here.
#include <algorithm>

#include <fmt/format.h>

#include "policies/seam/gpu_sets.hpp"
#include "policies/seam/job_lifecycle.hpp"
#include "policies/seam/world.hpp"
#include "policies/seam/world_words.hpp"

namespace orrery {

struct World::Check {
  const World& world;

  std::string operator()(const JobSubmitted& event) const {
    const JobSpec& job = event.job;
    if (job.id.value != world.jobs_.submitted()) {
      return fmt::format("expected the submission of job {}, found that of job {}",
                         world.jobs_.submitted(), job.id.value);
    }
    if (job.layout.ranks() == 0) return kNoRanks;
    // The layout of a job that does not train has no meaning; only its number of GPUs counts.
    const bool fits = job.gpus > 0 && job.layout.ranks() == job.gpus;
    if (!job.is_training() || fits) return {};
    return fmt::format("job {} has {} GPUs for a layout of {} x {} x {} x {}", job.id.value,
                       job.gpus, job.layout.tensor, job.layout.context, job.layout.pipeline,
                       job.layout.data);
  }
  std::string operator()(const Decided& event) const {
    const auto found = world.announced_.find(event.decision);
    if (found == world.announced_.end()) {
      return fmt::format("decision {} was not announced", event.decision);
    }
    if (event.status != Outcome::applied) return {};
    // A backend may report the outcome after the step, so the step is not checked.
    const Decision& decision = found->second.decision;
    const ParallelLayout* const next = world.coming_layout(decision);
    std::string why = world.against(decision, 0, {}, next);
    if (why.empty() || !std::holds_alternative<Configure>(decision.what)) return why;
    // A Batch of the same group may have been decided since shares were checked: without the
    // announced ones.
    Decision unannounced = decision;
    unannounced.id = 0;
    return world.against(unannounced, 0, {}, next);
  }
  std::string operator()(const JobStarted& event) const {
    const JobInfo* job = world.jobs_.find(event.job);
    if (job == nullptr || job->phase == JobPhase::done) return no_such_job(event.job);
    if (event.where.gpus.empty()) return fmt::format("job {} starts without GPUs", event.job.value);
    if (std::string why = newer(*job, event.epoch); !why.empty()) return why;
    // The GPUs of the pending assignment belong to the job already and need no check.
    if (!job->next || job->next->gpus != event.where.gpus) {
      for (const GpuRuns::Run& run : event.where.gpus.runs()) {
        if (!unclaimed(world.state_, run, event.job)) return taken(run, event.job);
      }
      if (std::string why = named_twice(event.where.gpus); !why.empty()) return why;
    }
    if (event.where.layout.ranks() == 0) return kNoRanks;
    const bool known = std::is_sorted(event.lost.begin(), event.lost.end()) &&
                       (event.lost.empty() || event.lost.back().value < event.where.gpus.size());
    if (!known) return fmt::format("job {} starts without ranks that it lacks", event.job.value);
    const bool fits =
        !job->spec.is_training() || event.where.layout.ranks() == event.where.gpus.size();
    return fits ? ""
                : fmt::format("job {} starts with a layout of {} ranks on {} GPUs", event.job.value,
                              event.where.layout.ranks(), event.where.gpus.size());
  }
  std::string taken(GpuRuns::Run run, JobId job) const {
    std::uint32_t gpu = run.first;
    while (gpu < world.state_.owner.size() && unclaimed(world.state_, {gpu, 1}, job)) ++gpu;
    if (gpu >= world.state_.owner.size()) return no_such_gpu({gpu});
    return fmt::format("GPU {} is taken by job {}", gpu, world.state_.owner[gpu].value);
  }
  std::string operator()(const StepsDone& event) const {
    return with_job(event.job, [&](const JobInfo& job) -> std::string {
      if (job.phase != JobPhase::running) {
        return fmt::format("job {} is not running", event.job.value);
      }
      const bool next = event.last >= job.step && event.count == event.last - job.step + 1;
      if (next && event.count > 0 && event.last < ~Step{0}) return {};
      return fmt::format("job {} works on step {} and cannot complete steps {} to {}",
                         event.job.value, job.step, event.last + 1 - event.count, event.last);
    });
  }
  std::string operator()(const SaveDone& event) const {
    return with_job(event.job, [&](const JobInfo& job) -> std::string {
      for (const CopyHolders& shard : event.holders) {
        const std::uint32_t node = std::max(shard.node.value, shard.peer.value);
        if (node >= world.cluster().nodes()) return fmt::format("there is no node {}", node);
      }
      return event.step <= job.step
                 ? ""
                 : fmt::format("job {} works on step {}, found a checkpoint of step {}",
                               event.job.value, job.step, event.step);
    });
  }
  std::string operator()(const PartChanged& event) const {
    const bool known = event.part.index < count_of(world.cluster(), event.part.kind);
    return known ? "" : fmt::format("there is no {}", part_name(event.part));
  }
  std::string operator()(const RanksSuspected& event) const { return of_ranks(event); }
  std::string operator()(const RanksLost& event) const {
    if (std::string why = of_ranks(event); !why.empty()) return why;
    const JobInfo& job = world.jobs_[event.job];
    if (event.intact && *event.intact > job.step) {
      return fmt::format("job {} works on step {}, found an intact checkpoint of step {}",
                         event.job.value, job.step, *event.intact);
    }
    return newer(job, event.epoch);
  }
  std::string operator()(const JobHeld& event) const {
    return with_job(event.job, [&event](const JobInfo& job) {
      return job.is_placed() ? "" : fmt::format("job {} is not running", event.job.value);
    });
  }
  std::string operator()(const ParameterSet&) const { return {}; }
  std::string operator()(const Tick&) const { return {}; }
  template <class OfJob>
  std::string operator()(const OfJob& event) const {
    return with_job(event.job, [](const JobInfo&) { return std::string(); });
  }

  template <class Then>
  std::string with_job(JobId id, Then&& then) const {
    const JobInfo* job = world.jobs_.find(id);
    if (job == nullptr) return no_such_job(id);
    if (job->phase == JobPhase::done) return fmt::format("job {} is over", id.value);
    return then(*job);
  }
  template <class OfRanks>
  std::string of_ranks(const OfRanks& event) const {
    return with_job(event.job, [&](const JobInfo& job) -> std::string {
      for (const RankId rank : event.ranks) {
        if (rank.value < job.gpus.size()) continue;
        return fmt::format("job {} has no rank {}", event.job.value, rank.value);
      }
      return {};
    });
  }
  static std::string newer(const JobInfo& job, Epoch epoch) {
    if (epoch > job.epoch) return {};
    return fmt::format("epoch {} of job {} is not after epoch {}", epoch.value, job.spec.id.value,
                       job.epoch.value);
  }
};

std::string World::objection(const Event& event) const { return std::visit(Check{*this}, event); }

// ---- effects of events ----------------------------------------------------------------------

struct World::Change {
  World& world;
  Nanos now;

  void operator()(const JobSubmitted& event) const {
    JobInfo& job = world.jobs_.add(event.job);
    job.layout = event.job.layout;
  }
  void operator()(const JobDone& event) const {
    JobInfo& job = world.jobs_.at(event.job);
    world.release_job(job, now);
    job.phase = JobPhase::done;
    world.over_.push_back(event.job);
  }
  void operator()(const StepsDone& event) const {
    world.begin_step(world.jobs_.at(event.job), event.last + 1);
  }
  void operator()(const SaveDone& event) const {
    JobInfo& job = world.jobs_.at(event.job);
    if (!event.durable) return;
    world.has_copies_ = world.has_copies_ || !event.holders.empty();
    HeldCheckpoint checkpoint{event.step, event.tier, now, event.holders};
    for (const auto& [part, state] : world.state_.parts) {
      const bool is_gone = part.kind == PartKind::node && state.health == Health::lost;
      if (is_gone && !remove_holder(checkpoint.holders, {part.index})) return;
    }
    add_checkpoint(job, std::move(checkpoint));
  }
  void operator()(const PartChanged& event) const { world.change_part(event, now); }
  void operator()(const RanksSuspected& event) const {
    JobInfo& job = world.jobs_.at(event.job);
    job.suspected = event.ranks;
    std::sort(job.suspected.begin(), job.suspected.end());
  }
  void operator()(const RanksLost& event) const {
    JobInfo& job = world.jobs_.at(event.job);
    if (event.intact) fall_back(job, *event.intact, now);
    world.lose_ranks(job, event);
  }
  void operator()(const JobHeld& event) const {
    JobInfo& job = world.jobs_.at(event.job);
    // The first one belongs to the restart of a running job. Another one means that hardware is
    // lost, which makes the restart void.
    if (job.phase == JobPhase::held) job.is_restarting = false;
    job.phase = JobPhase::held;
  }
  void operator()(const JobStopped& event) const {
    JobInfo& job = world.jobs_.at(event.job);
    world.release_job(job, now);
    job.phase = JobPhase::waiting;
    job.step = event.kept;
  }
  void operator()(const JobStarted& event) const {
    world.start(world.jobs_.at(event.job), event, now);
  }
  void operator()(const Decided& event) const {
    // The effect looks the decision up, so the decision is removed afterwards.
    const auto found = world.announced_.find(event.decision);
    if (event.status == Outcome::applied) world.take_effect(found->second);
    world.announced_.erase(found);
  }
  void operator()(const ParameterSet&) const {}
  void operator()(const Tick&) const {}
};

void World::apply_change(const Event& event, Nanos now) { std::visit(Change{*this, now}, event); }

}  // namespace orrery
