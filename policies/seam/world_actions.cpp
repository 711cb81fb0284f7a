// Part of World (world.hpp) that knows each action: its objections and its effect. A new action or
// setting is added here.
#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "policies/seam/gpu_sets.hpp"
#include "policies/seam/job_lifecycle.hpp"
#include "policies/seam/world.hpp"
#include "policies/seam/world_words.hpp"

namespace orrery {
namespace {

std::uint64_t sum(const std::vector<std::uint32_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

// ---- objections to settings ---------------------------------------------------------------

/// Returns the objection to shares of the job; `next`: layout of the assignment with which the
/// shares start, null for the present layout.
std::string objection_to(const JobInfo& job, const Shares& shares, const ParallelLayout* next) {
  const std::vector<std::uint32_t>& wanted = shares.per_replica;
  std::size_t replicas = job.shares().size();
  if (next != nullptr) replicas = job.spec.is_training() ? next->data : 0;
  const std::uint64_t total = next != nullptr ? job.spec.micro_batches : sum(job.shares());
  if (wanted.size() != replicas) {
    return fmt::format("job {} has {} replicas{}, not {}", job.spec.id.value, replicas,
                       next != nullptr ? " after its assignment" : "", wanted.size());
  }
  if (sum(wanted) != total) {
    return fmt::format("the step has {} micro-batches, not {}", total, sum(wanted));
  }
  const auto most = std::max_element(wanted.begin(), wanted.end());
  if (job.spec.max_micro_batches > 0 && most != wanted.end() &&
      *most > job.spec.max_micro_batches) {
    return fmt::format("replica {} has memory for {} micro-batches, not {}", most - wanted.begin(),
                       job.spec.max_micro_batches, *most);
  }
  if (next != nullptr) return {};  // All replicas of an assignment work.
  const std::vector<bool> lost = lost_replicas(job);
  for (std::size_t replica = 0; replica < wanted.size(); ++replica) {
    if (wanted[replica] > 0 && lost[replica]) {
      return fmt::format("replica {} has lost a rank", replica);
    }
  }
  return {};
}

std::string objection_to(const JobInfo&, const CodecRules& rules, const ParallelLayout*) {
  for (const CodecRule& rule : rules) {
    if (rule.bucket_class >= kBucketClasses) {
      return fmt::format("there is no bucket class {}", rule.bucket_class);
    }
    if (std::string why = orrery::objection_to(rule); !why.empty()) return why;
  }
  return {};
}

template <class Any>
std::string objection_to(const JobInfo&, const Any&, const ParallelLayout*) {
  return {};
}

}  // namespace

// ---- against an assignment ------------------------------------------------------------------

std::string World::gpu_objection(const JobInfo& job, GpuId gpu, const Supposed& supposed) const {
  if (gpu.value >= state_.owner.size()) return no_such_gpu(gpu);
  if (!is_healthy(gpu)) return fmt::format("GPU {} is lost", gpu.value);
  for (const auto& [other, gpus] : supposed) {
    if (other != job.spec.id && gpus.contains(gpu)) {
      return fmt::format("GPU {} is taken by job {}", gpu.value, other.value);
    }
  }
  if (unclaimed(state_, {gpu.value, 1}, job.spec.id)) return {};
  const JobId owner = state_.owner[gpu.value];
  const bool given_up = std::any_of(supposed.begin(), supposed.end(), [&](const auto& each) {
    return each.first == owner;  // its assignment lacks the GPU, as checked above
  });
  const JobInfo* of = jobs_.find(owner);
  const bool to_be_free = of != nullptr && of->next && !of->next->gpus.contains(gpu);
  if (given_up || to_be_free) return {};
  return fmt::format("GPU {} is taken by job {}", gpu.value, owner.value);
}

std::string World::standing_objection(const JobInfo& job, const Assign& where,
                                      const Supposed& supposed) const {
  const std::size_t count = where.gpus.size();
  if (count < job.spec.least() || count > job.spec.most()) {
    return fmt::format("job {} wants {} GPUs, not {}", job.spec.id.value,
                       job.spec.least() == job.spec.most()
                           ? fmt::format("{}", job.spec.gpus)
                           : fmt::format("{} to {}", job.spec.least(), job.spec.most()),
                       count);
  }
  const bool simple = lost_hosts_ == 0 && supposed.empty();
  for (const GpuRuns::Run& run : where.gpus.runs()) {
    if (simple && unclaimed(state_, run, job.spec.id)) continue;
    for (std::uint32_t gpu = run.first; gpu < run.first + run.count; ++gpu) {
      if (std::string why = gpu_objection(job, {gpu}, supposed); !why.empty()) return why;
    }
  }
  if (std::string why = named_twice(where.gpus); !why.empty()) return why;
  if (where.layout.ranks() == 0) return kNoRanks;
  if (!job.spec.is_training()) return {};
  const ParallelLayout& shape = job.spec.layout;
  ParallelLayout same = where.layout;
  same.data = shape.data;
  if (same != shape || where.layout.ranks() != count) {
    return fmt::format(
        "job {} has replicas of {} x {} x {} ranks: {} GPUs do not fit the layout {} x {} x {} x "
        "{}",
        job.spec.id.value, shape.tensor, shape.context, shape.pipeline, count, where.layout.tensor,
        where.layout.context, where.layout.pipeline, where.layout.data);
  }
  const std::uint64_t room = std::uint64_t{job.spec.max_micro_batches} * where.layout.data;
  if (room > 0 && room < job.spec.micro_batches) {
    return fmt::format("{} replicas have memory for {} micro-batches, not {}", where.layout.data,
                       room, job.spec.micro_batches);
  }
  return {};
}

/// Objections to an action.
struct World::Against {
  const World& world;
  Step at_step;  ///< step of the decision
  const Supposed& supposed;
  const ParallelLayout* next;  ///< layout of the assignment with which a setting starts; or null

  std::string operator()(const Assign& assign) const {
    const JobInfo* job = world.jobs_.find(assign.job);
    if (job == nullptr) return no_such_job(assign.job);
    if (std::string why = of_step(*job); !why.empty()) return why;
    if (assign.is_release()) {
      const bool there = job->is_placed() || job->phase == JobPhase::starting;
      return there ? "" : fmt::format("job {} is not running", assign.job.value);
    }
    // A job on hold after a loss may be assigned again despite a pending assignment.
    if (job->next && job->phase != JobPhase::held) {
      return fmt::format("job {} is being assigned already", assign.job.value);
    }
    if (std::string why = world.standing_objection(*job, assign, supposed); !why.empty()) {
      return why;
    }
    const bool stays = job->lost.empty() && job->gpus == assign.gpus;
    // All ranks may load a checkpoint where they are; without a state they would lose the training.
    const bool loads = job->spec.is_training() && assign.state == StateFrom::checkpoint;
    if (job->phase == JobPhase::running && stays && !loads) {
      return fmt::format("job {} is placed there already", assign.job.value);
    }
    return job->spec.is_training() ? of_state(*job, assign) : "";
  }
  std::string of_state(const JobInfo& job, const Assign& assign) const {
    if (assign.state == StateFrom::checkpoint && job.saved_at == 0) {
      return fmt::format("job {} has no checkpoint yet", assign.job.value);
    }
    if (assign.state != StateFrom::peer) return {};
    const std::vector<bool> lost = lost_replicas(job);
    const bool works = job.is_placed() && !job.is_restarting;
    const bool left = works && std::find(lost.begin(), lost.end(), false) != lost.end();
    return left
               ? ""
               : fmt::format("job {} has no replica left to take its state from", assign.job.value);
  }
  std::string operator()(const Configure& configure) const {
    const JobInfo* job = world.jobs_.find(configure.job);
    if (job == nullptr) return no_such_job(configure.job);
    if (!job->spec.can.has(configure.what)) {
      return fmt::format("job {} cannot change its {} while it runs", configure.job.value,
                         setting_name(configure.what));
    }
    if ((!job->is_placed() && next == nullptr) || is_leaving(*job)) {
      return fmt::format("job {} is not running", configure.job.value);
    }
    if (std::string why = of_step(*job); !why.empty()) return why;
    return std::visit([&](const auto& setting) { return objection_to(*job, setting, next); },
                      configure.what);
  }
  /// Returns true if the job is to leave its GPUs. The time until then depends on the backend, so
  /// the reason for a refusal is the same before and after.
  bool is_leaving(const JobInfo& job) const {
    if (job.next && job.next->gpus.empty()) return true;
    return std::any_of(supposed.begin(), supposed.end(), [&job](const auto& each) {
      return each.first == job.spec.id && each.second.empty();
    });
  }
  std::string operator()(const Save& save) const {
    const JobInfo* job = world.jobs_.find(save.job);
    if (job == nullptr) return no_such_job(save.job);
    const bool running = job->phase == JobPhase::running && !is_leaving(*job);
    return running ? of_step(*job) : fmt::format("job {} is not running", save.job.value);
  }
  std::string of_step(const JobInfo& job) const {
    if (job.phase == JobPhase::done) return fmt::format("job {} is done", job.spec.id.value);
    if (job.spec.steps > 0 && at_step >= job.spec.steps) {
      return fmt::format("there is no step {}: job {} has steps 0 to {}", at_step,
                         job.spec.id.value, job.spec.steps - 1);
    }
    if (at_step == 0 || at_step >= job.step) return {};
    return fmt::format("step {} is past: job {} works on step {}", at_step, job.spec.id.value,
                       job.step);
  }
};

std::string World::against(const Decision& decision, Step at_step, const Supposed& supposed,
                           const ParallelLayout* next) const {
  return std::visit(Against{*this, at_step, supposed, next}, decision.what);
}

std::string World::objection(const Decision& decision) const {
  return against(decision, decision.at_step, {}, coming_layout(decision));
}

bool World::is_same_call(DecisionId one, DecisionId other) const {
  const auto a = announced_.find(one), b = announced_.find(other);
  return a != announced_.end() && b != announced_.end() && a->second.call == b->second.call;
}

bool World::waits_for_epoch(const Action& what) const {
  if (!std::holds_alternative<Configure>(what)) return false;
  const JobInfo* job = jobs_.find(job_of(what));
  return job != nullptr && (waits_for_step(what) || !job->is_placed());
}

/// Returns the layout of the assignment with which the decision starts; null if with none.
const ParallelLayout* World::coming_layout(const Decision& decision) const {
  if (!waits_for_epoch(decision.what)) return nullptr;
  const JobInfo& job = jobs_[job_of(decision.what)];
  if (!job.next || job.next->gpus.empty()) return nullptr;
  // A job on hold does no step before its assignment is active.
  if (job.phase == JobPhase::held) return &job.next->layout;
  const auto coming = coming_.find(job.spec.id);
  const auto announced = announced_.find(decision.id);
  const bool together = coming != coming_.end() && announced != announced_.end() &&
                        coming->second.call == announced->second.call;
  return together ? &job.next->layout : nullptr;
}

bool World::starts_with_assignment(const Decision& decision) const {
  return coming_layout(decision) != nullptr;
}

std::pair<std::size_t, std::string> World::objection(std::span<const Decision> group) const {
  Supposed supposed;
  const auto next_of = [&](const Decision& setting) {
    if (!waits_for_epoch(setting.what)) return coming_layout(setting);
    const auto found = std::find_if(group.begin(), group.end(), [&](const Decision& each) {
      const auto* assign = std::get_if<Assign>(&each.what);
      return assign && !assign->is_release() && assign->job == job_of(setting.what);
    });
    return found != group.end() ? &std::get<Assign>(found->what).layout : coming_layout(setting);
  };
  for (std::size_t i = 0; i < group.size(); ++i) {
    std::string why = against(group[i], group[i].at_step, supposed, next_of(group[i]));
    if (!why.empty()) return {i, std::move(why)};
    const auto* assign = std::get_if<Assign>(&group[i].what);
    if (assign == nullptr || group.size() == 1) continue;
    for (const auto& [job, gpus] : supposed) {
      if (job != assign->job) continue;
      return {i, fmt::format("job {} is assigned twice", job.value)};
    }
    supposed.emplace_back(assign->job, assign->gpus);
  }
  return {group.size(), {}};
}

// ---- effects of decisions -------------------------------------------------------------------

struct World::Effect {
  World& world;
  const Decision& decision;
  std::uint64_t call;
  Step announced_at;  ///< step of the job when the decision was announced

  void operator()(const Assign& assign) const {
    JobInfo& job = world.jobs_.at(assign.job);
    if (job.next) world.owners().vacate_gpus(job, job.gpus);  // replaces a pending assignment
    job.is_restarting = is_restart(job, assign);
    job.next = Standing{assign.gpus, assign.layout};
    Coming& coming = world.coming_[assign.job];
    coming.call = call;
    // Shares were computed for the layout of the earlier assignment.
    std::erase_if(coming.settings,
                  [](const auto& each) { return std::holds_alternative<Shares>(each.second); });
    world.owners().claim_gpus(assign.gpus, assign.job);
    if (job.phase == JobPhase::waiting) job.phase = JobPhase::starting;
  }
  void operator()(const Configure& configure) const {
    JobInfo& job = world.jobs_.at(configure.job);
    if (world.starts_with_assignment(decision)) {
      world.coming_[configure.job].settings.emplace_back(decision.at_step, configure.what);
      return;
    }
    Step from = decision.at_step;
    if (from == 0) {
      from = std::min(announced_at, job.step);
      const auto since = world.since_.find({configure.job, configure.what.index()});
      if (since != world.since_.end() && since->second > from) return;
    }
    world.ahead_[{configure.job, from}].push_back(configure.what);
    world.begin_step(job, job.step);
  }
  void operator()(const Save&) const {}
};

void World::take_effect(const Announced& announced) {
  std::visit(Effect{*this, announced.decision, announced.call, announced.step},
             announced.decision.what);
}

}  // namespace orrery
