// Part of World (world.hpp) that knows each action: its objections and its effect. A new action or
// setting is added here.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

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

/// Returns the reason why the replicas of `layout` cannot hold a batch; empty if they can.
std::string lack_of_memory(const JobSpec& job, const ParallelLayout& layout, std::uint32_t batch) {
  if (fits_replicas(job, batch, layout)) return {};
  return fmt::format("{} replicas have memory for {} micro-batches, not {}", layout.data,
                     std::uint64_t{most_micro_batches(job, layout)} * layout.data, batch);
}

/// State of the job for which a setting is checked.
struct CheckedFor {
  const ParallelLayout* next;   ///< layout of the assignment with which the setting starts, or null
  std::uint64_t micro_batches;  ///< batch of the step from which the setting applies
};

std::string objection_to(const JobInfo& job, const Shares& shares, const CheckedFor& coming) {
  const ParallelLayout* const next = coming.next;
  const std::vector<std::uint32_t>& wanted = shares.per_replica;
  std::size_t replicas = job.shares().size();
  if (next != nullptr) replicas = job.spec.is_training() ? next->data : 0;
  const std::uint64_t total = replicas > 0 ? coming.micro_batches : 0;
  if (wanted.size() != replicas) {
    return fmt::format("job {} has {} replicas{}, not {}", job.spec.id.value, replicas,
                       next != nullptr ? " after its assignment" : "", wanted.size());
  }
  if (sum(wanted) != total) {
    return fmt::format("the step has {} micro-batches, not {}", total, sum(wanted));
  }
  const auto most = std::max_element(wanted.begin(), wanted.end());
  const std::uint32_t limit = most_micro_batches(job.spec, next != nullptr ? *next : job.layout);
  if (limit > 0 && most != wanted.end() && *most > limit) {
    return fmt::format("replica {} has memory for {} micro-batches, not {}", most - wanted.begin(),
                       limit, *most);
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

std::string objection_to(const JobInfo& job, const Batch& batch, const CheckedFor& coming) {
  ParallelLayout layout = coming.next != nullptr ? *coming.next : job.layout;
  if (coming.next == nullptr) {
    const std::vector<bool> lost = lost_replicas(job);
    layout.data = static_cast<std::uint32_t>(std::count(lost.begin(), lost.end(), false));
  }
  const double factor = batch.learning_rate_factor;
  if (!(factor > 0 && factor <= kMostRateFactor)) {
    return fmt::format("expected a factor on the learning rate above 0 and at most {}, found {}",
                       kMostRateFactor, factor);
  }
  if (batch.micro_batches == 0) return "expected 1 micro-batch or more in a step, found 0";
  if (batch.micro_batches < layout.data) {
    return fmt::format("{} replicas need a micro-batch each, found a batch of {}", layout.data,
                       batch.micro_batches);
  }
  return lack_of_memory(job.spec, layout, batch.micro_batches);
}

std::string objection_to(const JobInfo&, const Delay& delay, const CheckedFor&) {
  if (delay.seconds >= 0 && delay.seconds <= kMostDelay) return {};
  return fmt::format("expected a delay of 0 s to {} s, found {} s", kMostDelay, delay.seconds);
}

std::string objection_to(const JobInfo&, const PowerCap& cap, const CheckedFor&) {
  if (cap.watts >= 0 && cap.watts <= kMostPowerCap) return {};
  return fmt::format("expected a limit of power of 0 W to {} W, found {} W", kMostPowerCap,
                     cap.watts);
}

std::string objection_to(const JobInfo& job, const Prefetch& prefetch, const CheckedFor&) {
  const auto limit_of = [](std::uint32_t own, std::uint32_t most) {
    return own > 0 ? std::min(own, most) : most;
  };
  const std::uint32_t workers = limit_of(job.spec.max_workers, kMostWorkers);
  const std::uint32_t depth = limit_of(job.spec.max_prefetch, kMostPrefetch);
  if (prefetch.workers == 0 || prefetch.workers > workers) {
    return fmt::format("expected 1 to {} reading processes for each rank of job {}, found {}",
                       workers, job.spec.id.value, prefetch.workers);
  }
  if (prefetch.depth > 0 && prefetch.depth <= depth) return {};
  return fmt::format("expected 1 to {} micro-batches read ahead for each rank of job {}, for which "
                     "its host has memory, found {}",
                     depth, job.spec.id.value, prefetch.depth);
}

std::string objection_to(const JobInfo&, const CodecRules& rules, const CheckedFor&) {
  for (const CodecRule& rule : rules) {
    if (rule.bucket_class >= kBucketClasses) {
      return fmt::format("there is no bucket class {}", rule.bucket_class);
    }
    if (std::string why = orrery::objection_to(rule); !why.empty()) return why;
  }
  return {};
}

template <class Any>
std::string objection_to(const JobInfo&, const Any&, const CheckedFor&) {
  return {};
}

// ---- objections to a layout ---------------------------------------------------------------

/// Returns the reason why the replicas of the job cannot have the sizes of `layout`.
std::string replica_objection(const JobSpec& job, const ParallelLayout& layout) {
  const ParallelLayout& own = job.layout;
  if (layout.has_replicas_of(own)) return {};
  if (layout.pipeline_last != own.pipeline_last) {
    return fmt::format("job {} keeps the order of its ranks: expected a layout with pipeline_last "
                       "{}, found {}", job.id.value, own.pipeline_last, layout.pipeline_last);
  }
  if (job.can_change_layout) return {};
  return fmt::format("job {}: expected replicas of {} x {} x {} ranks (tensor, context, pipeline), "
                     "found {} x {} x {}: live runs keep their pipeline depth, and so does the "
                     "simulation of a job that can run live",
                     job.id.value, own.tensor, own.context, own.pipeline, layout.tensor,
                     layout.context, layout.pipeline);
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
  if (std::string why = replica_objection(job.spec, where.layout); !why.empty()) return why;
  if (where.layout.ranks() == count) return {};
  return fmt::format("job {} has a layout of {} x {} x {} x {} (tensor, context, pipeline, data) "
                     "and needs {} GPUs, not {}",
                     job.spec.id.value, where.layout.tensor, where.layout.context,
                     where.layout.pipeline, where.layout.data, where.layout.ranks(), count);
}

/// Objections to an action.
struct World::Against {
  const World& world;
  Step at_step;  ///< step of the decision
  const Decision& decision;
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
    if (job->is_corrupted && assign.state == StateFrom::peer) {
      return fmt::format("the state of job {} is corrupted: expected the state of a checkpoint, or "
                         "none, found that of a peer",
                         assign.job.value);
    }
    if (std::string why = world.standing_objection(*job, assign, supposed); !why.empty()) {
      return why;
    }
    if (std::string why = of_batch(*job, assign.layout); !why.empty()) return why;
    const bool divides_alike = !job->spec.is_training() || job->layout == assign.layout;
    const bool stays = job->lost.empty() && job->gpus == assign.gpus && divides_alike;
    // All ranks may load a checkpoint where they are; without a state they would lose the training.
    const bool loads = job->spec.is_training() && assign.state == StateFrom::checkpoint;
    if (job->phase == JobPhase::running && stays && !loads) {
      return fmt::format("job {} is placed there already", assign.job.value);
    }
    return job->spec.is_training() ? of_state(*job, assign) : "";
  }
  /// Returns the objection to the layout for the batch with which the assignment would start.
  std::string of_batch(const JobInfo& job, const ParallelLayout& layout) const {
    if (!job.spec.is_training()) return {};
    const std::uint32_t batch = batch_with_assignment(job, layout);
    if (std::string why = lack_of_memory(job.spec, layout, batch); !why.empty()) return why;
    if (batch >= layout.data) return {};
    return fmt::format("{} replicas need a micro-batch each, found a batch of {}", layout.data,
                       batch);
  }
  /// Returns the batch with which the assignment with this layout would start: that of a possible
  /// Batch of the same call, or the present one.
  std::uint32_t batch_with_assignment(const JobInfo& job, const ParallelLayout& layout) const {
    std::uint32_t batch = job.micro_batches();
    const auto own = world.announced_.find(decision.id);
    if (own == world.announced_.end()) return batch;
    const Step from = std::max(decision.at_step, job.step);
    for (const auto& [id, announced] : world.announced_) {
      const auto* configure = std::get_if<Configure>(&announced.decision.what);
      const bool counts = announced.call == own->second.call && configure &&
                          configure->job == job.spec.id && announced.decision.at_step <= from;
      const auto* wanted = counts ? std::get_if<Batch>(&configure->what) : nullptr;
      const bool possible = wanted && job.spec.can.has(configure->what) &&
                            objection_to(job, *wanted, CheckedFor{&layout, batch}).empty();
      if (possible) batch = wanted->micro_batches;
    }
    return batch;
  }
  /// Returns the batch of the step from which the decision, a setting of the job, applies: that of
  /// the Batch with the highest precedence among those that apply up to this step, decided or
  /// announced earlier.
  std::uint32_t batch_before(const JobInfo& job) const {
    const JobId id = job.spec.id;
    const Step from = std::max(decision.at_step, job.step);
    std::uint32_t batch = job.micro_batches();
    Precedence highest;
    const auto present = world.present_.find({id, Setting(Batch()).index()});
    if (present != world.present_.end()) highest = present->second;
    const auto apply = [&](const Precedence& precedence, const Setting& setting) {
      const auto* wanted = std::get_if<Batch>(&setting);
      if (wanted == nullptr || precedence.step > from || precedence < highest) return;
      batch = wanted->micro_batches;
      highest = precedence;
    };
    const auto end = world.ahead_.upper_bound({id, from});
    for (auto each = world.ahead_.lower_bound({id, 0}); each != end; ++each) {
      for (const DecidedSetting& ahead : each->second) apply(ahead.precedence, ahead.what);
    }
    const auto coming = next != nullptr ? world.coming_.find(id) : world.coming_.end();
    if (coming != world.coming_.end()) {
      for (const auto& [step, each] : coming->second.settings) apply(each.precedence, each.what);
    }
    for (const auto& [number, announced] : world.announced_) {
      if (number >= decision.id) break;
      const auto* configure = std::get_if<Configure>(&announced.decision.what);
      if (configure && configure->job == id) apply(announced.precedence(), configure->what);
    }
    return batch;
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
    const auto* const shares = std::get_if<Shares>(&configure.what);
    const auto announced = world.announced_.find(decision.id);
    const bool divided_anew =
        announced != world.announced_.end() && is_divided_anew(world.present_, announced->second);
    const std::uint64_t batch = shares == nullptr ? 0
                                : divided_anew    ? sum(shares->per_replica)
                                                  : batch_before(*job);
    std::string why = std::visit(
        [&](const auto& setting) {
          return objection_to(*job, setting, CheckedFor{next, batch});
        },
        configure.what);
    const auto* wanted = std::get_if<Batch>(&configure.what);
    return why.empty() && wanted && next == nullptr ? of_assigned_layouts(*job, *wanted) : why;
  }
  /// Returns the objection of a pending or deferred assignment of the job to a batch that does not
  /// start with the assignment: the assigned replicas must be able to hold the batch too, because
  /// the duration of their start must not decide whether the batch applies.
  std::string of_assigned_layouts(const JobInfo& job, const Batch& batch) const {
    std::vector<ParallelLayout> layouts;
    if (job.next && !job.next->gpus.empty()) layouts.push_back(job.next->layout);
    for (const auto& [id, announced] : world.announced_) {
      if (id >= decision.id) break;
      const auto* assign = std::get_if<Assign>(&announced.decision.what);
      if (assign == nullptr || assign->job != job.spec.id || assign->is_release()) continue;
      layouts.push_back(assign->layout);
    }
    for (const ParallelLayout& layout : layouts) {
      std::string why = objection_to(job, batch, CheckedFor{&layout, 0});
      if (!why.empty()) return why;
    }
    return {};
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
  return std::visit(Against{*this, at_step, decision, supposed, next}, decision.what);
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
  const Announced& announced;

  void operator()(const Assign& assign) const {
    JobInfo& job = world.jobs_.at(assign.job);
    if (job.next) world.owners().vacate_gpus(job, job.gpus);  // replaces a pending assignment
    job.is_restarting = is_restart(job, assign);
    job.next = Standing{assign.gpus, assign.layout};
    Coming& coming = world.coming_[assign.job];
    coming.call = announced.call;
    // Shares were computed for the layout of the earlier assignment.
    std::erase_if(coming.settings, [](const auto& each) {
      return std::holds_alternative<Shares>(each.second.what);
    });
    world.owners().claim_gpus(assign.gpus, assign.job);
    if (job.phase == JobPhase::waiting) job.phase = JobPhase::starting;
  }
  void operator()(const Configure& configure) const {
    JobInfo& job = world.jobs_.at(configure.job);
    const Step at_step = announced.decision.at_step;
    DecidedSetting setting{announced.precedence(), configure.what};
    if (world.starts_with_assignment(announced.decision)) {
      world.coming_[configure.job].settings.emplace_back(at_step, std::move(setting));
      return;
    }
    world.ahead_[{configure.job, at_step}].push_back(std::move(setting));
    world.begin_step(job, job.step);
  }
  void operator()(const Save&) const {}
};

void World::take_effect(const Announced& announced) {
  std::visit(Effect{*this, announced}, announced.decision.what);
}

}  // namespace orrery
