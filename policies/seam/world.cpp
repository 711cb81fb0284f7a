#include "policies/seam/world.hpp"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

std::uint64_t sum(const std::vector<std::uint32_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

constexpr const char* kNoRanks = "a layout of no ranks";

std::string no_such_job(JobId job) { return fmt::format("there is no job {}", job.value); }
std::string no_such_gpu(GpuId gpu) { return fmt::format("there is no GPU {}", gpu.value); }

// ---- sets of GPUs --------------------------------------------------------------------------

constexpr auto starts_before = [](const GpuRuns::Run& a, const GpuRuns::Run& b) {
  return a.first < b.first;
};

std::vector<GpuRuns::Run> sorted(std::span<const GpuRuns::Run> runs) {
  std::vector<GpuRuns::Run> out(runs.begin(), runs.end());
  std::sort(out.begin(), out.end(), starts_before);
  return out;
}

/// Calls `use` with the runs in ascending order; they are copied only where they are not.
template <class Use>
auto with_ascending(const GpuRuns& gpus, const Use& use) {
  const std::span<const GpuRuns::Run> runs = gpus.runs();
  if (std::is_sorted(runs.begin(), runs.end(), starts_before)) return use(runs);
  const std::vector<GpuRuns::Run> in_order = sorted(runs);
  return use(std::span<const GpuRuns::Run>(in_order));
}

std::string named_twice(const GpuRuns& gpus) {
  return with_ascending(gpus, [](std::span<const GpuRuns::Run> runs) -> std::string {
    for (std::size_t i = 1; i < runs.size(); ++i) {
      if (runs[i].first >= runs[i - 1].first + runs[i - 1].count) continue;
      return fmt::format("GPU {} is named twice", runs[i].first);
    }
    return {};
  });
}

/// Those of `run` that are not among `kept` (ascending), as runs.
template <class Each>
void for_each_without(const GpuRuns::Run& run, std::span<const GpuRuns::Run>& kept,
                      const Each& each) {
  const std::uint32_t end = run.first + run.count;
  for (std::uint32_t gpu = run.first; gpu < end;) {
    while (!kept.empty() && kept.front().first + kept.front().count <= gpu) kept = kept.subspan(1);
    const bool within = !kept.empty() && kept.front().first <= gpu;
    const std::uint32_t next = kept.empty() ? end
                               : within     ? kept.front().first + kept.front().count
                                            : kept.front().first;
    const std::uint32_t stop = std::min(end, next);
    if (!within) each(GpuRuns::Run{gpu, stop - gpu});
    gpu = stop;
  }
}

/// Those of `gpus` that are not among `kept`, as runs, ascending; O(runs) when both are in order.
template <class Each>
void for_each_without(const GpuRuns& gpus, const GpuRuns& kept, const Each& each) {
  with_ascending(gpus, [&](std::span<const GpuRuns::Run> runs) {
    return with_ascending(kept, [&](std::span<const GpuRuns::Run> not_these) {
      for (const GpuRuns::Run& run : runs) for_each_without(run, not_these, each);
    });
  });
}

// ---- what stands against a setting --------------------------------------------------------

std::string objection_to(const JobInfo& job, const Shares& shares) {
  const std::vector<std::uint32_t>& wanted = shares.per_replica;
  if (wanted.size() != job.shares().size()) {
    return fmt::format("job {} has {} replicas, not {}", job.spec.id.value, job.shares().size(),
                       wanted.size());
  }
  if (sum(wanted) != sum(job.shares())) {
    return fmt::format("the step has {} micro-batches, not {}", sum(job.shares()), sum(wanted));
  }
  const auto most = std::max_element(wanted.begin(), wanted.end());
  if (job.spec.max_micro_batches > 0 && most != wanted.end() &&
      *most > job.spec.max_micro_batches) {
    return fmt::format("replica {} has memory for {} micro-batches, not {}", most - wanted.begin(),
                       job.spec.max_micro_batches, *most);
  }
  const std::vector<bool> lost = lost_replicas(job);
  for (std::size_t replica = 0; replica < wanted.size(); ++replica) {
    if (wanted[replica] > 0 && lost[replica]) {
      return fmt::format("replica {} has lost a rank", replica);
    }
  }
  return {};
}

std::string objection_to(const JobInfo&, const CodecRules& rules) {
  for (const CodecRule& rule : rules) {
    if (rule.bucket_class >= kBucketClasses) {
      return fmt::format("there is no bucket class {}", rule.bucket_class);
    }
    if (std::string why = orrery::objection_to(rule); !why.empty()) return why;
  }
  return {};
}

template <class Any>
std::string objection_to(const JobInfo&, const Any&) {
  return {};
}

// ---- dealing out micro-batches --------------------------------------------------------------

/// One by one to whoever has fewest, the first of equals. What does not fit stays undealt.
void deal(std::uint64_t loose, std::uint32_t most, const std::vector<bool>& lost,
          std::vector<std::uint32_t>& shares) {
  using Least = std::pair<std::uint32_t, std::uint32_t>;  // share, replica
  std::priority_queue<Least, std::vector<Least>, std::greater<>> least;
  for (std::uint32_t replica = 0; replica < shares.size(); ++replica) {
    if (!lost[replica]) least.emplace(shares[replica], replica);
  }
  for (; loose > 0 && !least.empty() && least.top().first < most; --loose) {
    const std::uint32_t replica = least.top().second;
    least.pop();
    least.emplace(++shares[replica], replica);
  }
}

/// Lost replicas give theirs away. Unchanged if the others lack the memory for them.
void deal_out_lost(const JobInfo& job, std::vector<std::uint32_t>& shares) {
  const std::vector<bool> lost = lost_replicas(job);
  std::vector<std::uint32_t> dealt = shares;
  for (std::size_t i = 0; i < dealt.size(); ++i) {
    if (lost[i]) dealt[i] = 0;
  }
  const std::uint32_t most = job.spec.max_micro_batches > 0 ? job.spec.max_micro_batches : ~0u;
  deal(sum(shares) - sum(dealt), most, lost, dealt);
  if (sum(dealt) == sum(shares)) shares = std::move(dealt);
}

/// One that has come back takes from whoever has most until it has an even share.
void take_even_share(std::size_t replica, std::vector<std::uint32_t>& shares) {
  const std::uint64_t even = sum(shares) / shares.size();
  while (shares[replica] < even) {
    --*std::max_element(shares.begin(), shares.end());
    ++shares[replica];
  }
}

/// Shares that were announced for a later step were dealt to another membership.
void drop_shares(std::map<std::pair<JobId, Step>, std::vector<Setting>>& ahead, JobId job) {
  const auto end = ahead.upper_bound({job, ~Step{0}});
  for (auto each = ahead.lower_bound({job, 0}); each != end; ++each) {
    std::erase_if(each->second,
                  [](const Setting& what) { return std::holds_alternative<Shares>(what); });
  }
}

}  // namespace

bool ClusterState::well(GpuId gpu, NodeId node) const {
  if (parts.empty()) return true;
  return !lost({PartKind::gpu, gpu.value}) && !lost({PartKind::node, node.value});
}

World::World(const Cluster& cluster) : cluster_(&cluster) {
  state_.owner.assign(cluster.gpus(), ClusterState::kNobody);
  state_.free_per_node.assign(cluster.nodes(), cluster.shape().gpus_per_node);
  state_.free = cluster.gpus();
}

// ---- may it be? ---------------------------------------------------------------------------

std::string World::gpu_objection(const JobInfo& job, GpuId gpu, const Supposed& supposed) const {
  if (gpu.value >= state_.owner.size()) return no_such_gpu(gpu);
  if (!well(gpu)) return fmt::format("GPU {} is lost", gpu.value);
  for (const auto& [other, gpus] : supposed) {
    if (other != job.spec.id && gpus.contains(gpu)) {
      return fmt::format("GPU {} is taken by job {}", gpu.value, other.value);
    }
  }
  if (unclaimed({gpu.value, 1}, job.spec.id)) return {};
  const JobId owner = state_.owner[gpu.value];
  const bool given_up = std::any_of(supposed.begin(), supposed.end(), [&](const auto& each) {
    return each.first == owner;  // and it does not contain it, as seen above
  });
  const JobInfo* of = jobs_.find(owner);
  const bool to_be_free = of != nullptr && of->next && !of->next->gpus.contains(gpu);
  if (given_up || to_be_free) return {};
  return fmt::format("GPU {} is taken by job {}", gpu.value, owner.value);
}

/// All of them are there, and nobody's or its own.
bool World::unclaimed(GpuRuns::Run run, JobId job) const {
  if (std::uint64_t{run.first} + run.count > state_.owner.size()) return false;
  const auto first = state_.owner.begin() + run.first;
  return std::all_of(first, first + run.count, [job](JobId owner) {
    return owner == ClusterState::kNobody || owner == job;
  });
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
    if (simple && unclaimed(run, job.spec.id)) continue;
    for (std::uint32_t gpu = run.first; gpu < run.first + run.count; ++gpu) {
      if (std::string why = gpu_objection(job, {gpu}, supposed); !why.empty()) return why;
    }
  }
  if (std::string why = named_twice(where.gpus); !why.empty()) return why;
  if (where.layout.ranks() == 0) return kNoRanks;
  if (!job.spec.trains()) return {};
  const ParallelLayout& shape = job.spec.layout;
  ParallelLayout same = where.layout;
  same.data = shape.data;
  if (same != shape || where.layout.ranks() != count) {
    return fmt::format("job {} has replicas of {} x {} x {} ranks: {} GPUs are no {} x {} x {} x "
                       "{}",
                       job.spec.id.value, shape.tensor, shape.context, shape.pipeline, count,
                       where.layout.tensor, where.layout.context, where.layout.pipeline,
                       where.layout.data);
  }
  const std::uint64_t room = std::uint64_t{job.spec.max_micro_batches} * where.layout.data;
  if (room > 0 && room < job.spec.micro_batches) {
    return fmt::format("{} replicas have memory for {} micro-batches, not {}", where.layout.data,
                       room, job.spec.micro_batches);
  }
  return {};
}

/// What stands against an action; `at_step` is the decision's.
struct World::Against {
  const World& world;
  Step at_step;
  const Supposed& supposed;

  std::string operator()(const Assign& assign) const {
    const JobInfo* job = world.jobs_.find(assign.job);
    if (job == nullptr) return no_such_job(assign.job);
    if (std::string why = of_step(*job); !why.empty()) return why;
    if (assign.leaves()) {
      const bool there = job->placed() || job->phase == JobPhase::starting;
      return there ? "" : fmt::format("job {} is not running", assign.job.value);
    }
    // Who stands still after a loss may be assigned otherwise than before it.
    if (job->next && job->phase != JobPhase::held) {
      return fmt::format("job {} is being assigned already", assign.job.value);
    }
    if (std::string why = world.standing_objection(*job, assign, supposed); !why.empty()) {
      return why;
    }
    if (job->phase == JobPhase::running && job->lost.empty() && job->gpus == assign.gpus) {
      return fmt::format("job {} stands there already", assign.job.value);
    }
    return job->spec.trains() ? of_state(*job, assign) : "";
  }
  std::string of_state(const JobInfo& job, const Assign& assign) const {
    if (assign.state == StateFrom::checkpoint && job.saved_at == 0) {
      return fmt::format("job {} has no checkpoint yet", assign.job.value);
    }
    if (assign.state != StateFrom::peer) return {};
    const std::vector<bool> lost = lost_replicas(job);
    const bool left = job.placed() && std::find(lost.begin(), lost.end(), false) != lost.end();
    return left ? "" : fmt::format("job {} has no replica left to take its state from",
                                   assign.job.value);
  }
  std::string operator()(const Configure& configure) const {
    const JobInfo* job = world.jobs_.find(configure.job);
    if (job == nullptr) return no_such_job(configure.job);
    if (!job->spec.can.has(configure.what)) {
      return fmt::format("job {} does not let its {} be set", configure.job.value,
                         setting_name(configure.what));
    }
    if (!job->placed()) return fmt::format("job {} is not running", configure.job.value);
    if (std::string why = of_step(*job); !why.empty()) return why;
    return std::visit([&](const auto& setting) { return objection_to(*job, setting); },
                      configure.what);
  }
  std::string operator()(const Save& save) const {
    const JobInfo* job = world.jobs_.find(save.job);
    if (job == nullptr) return no_such_job(save.job);
    const bool running = job->phase == JobPhase::running;
    return running ? of_step(*job) : fmt::format("job {} is not running", save.job.value);
  }
  std::string of_step(const JobInfo& job) const {
    if (job.phase == JobPhase::done) return fmt::format("job {} is done", job.spec.id.value);
    if (at_step == 0 || at_step >= job.step) return {};
    return fmt::format("step {} is past: job {} works on step {}", at_step, job.spec.id.value,
                       job.step);
  }
};

std::string World::against(const Decision& decision, Step at_step,
                           const Supposed& supposed) const {
  return std::visit(Against{*this, at_step, supposed}, decision.what);
}

std::string World::objection(const Decision& decision) const {
  return against(decision, decision.at_step, {});
}

std::pair<std::size_t, std::string> World::objection(std::span<const Decision> group) const {
  Supposed supposed;
  for (std::size_t i = 0; i < group.size(); ++i) {
    std::string why = against(group[i], group[i].at_step, supposed);
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

struct World::Check {
  const World& world;

  std::string operator()(const JobSubmitted& event) const {
    const JobSpec& job = event.job;
    if (job.id.value != world.jobs_.submitted()) {
      return fmt::format("job {} is submitted where job {} is due", job.id.value,
                         world.jobs_.submitted());
    }
    if (job.layout.ranks() == 0) return kNoRanks;
    // A job without micro-batches has no layout to speak of: it is only a number of GPUs.
    const bool fits = job.gpus > 0 && job.layout.ranks() == job.gpus;
    if (!job.trains() || fits) return {};
    return fmt::format("job {} has {} GPUs for a layout of {} x {} x {} x {}", job.id.value,
                       job.gpus, job.layout.tensor, job.layout.context, job.layout.pipeline,
                       job.layout.data);
  }
  std::string operator()(const Decided& event) const {
    const auto found = world.announced_.find(event.decision);
    if (found == world.announced_.end()) {
      return fmt::format("nobody announced decision {}", event.decision);
    }
    if (event.status != Outcome::applied) return {};
    // A backend may tell the outcome later than the step: only the rest is checked.
    return world.against(found->second, 0, {});
  }
  std::string operator()(const JobStarted& event) const {
    const JobInfo* job = world.jobs_.find(event.job);
    if (job == nullptr || job->phase == JobPhase::done) return no_such_job(event.job);
    if (event.where.gpus.empty()) return fmt::format("job {} starts nowhere", event.job.value);
    if (std::string why = newer(*job, event.epoch); !why.empty()) return why;
    // What it was assigned is its own already.
    if (!job->next || job->next->gpus != event.where.gpus) {
      for (const GpuRuns::Run& run : event.where.gpus.runs()) {
        if (!world.unclaimed(run, event.job)) return taken(run, event.job);
      }
      if (std::string why = named_twice(event.where.gpus); !why.empty()) return why;
    }
    if (event.where.layout.ranks() == 0) return kNoRanks;
    const bool fits = !job->spec.trains() || event.where.layout.ranks() == event.where.gpus.size();
    return fits ? "" : fmt::format("job {} starts with a layout of {} ranks on {} GPUs",
                                   event.job.value, event.where.layout.ranks(),
                                   event.where.gpus.size());
  }
  std::string taken(GpuRuns::Run run, JobId job) const {
    std::uint32_t gpu = run.first;
    while (gpu < world.state_.owner.size() && world.unclaimed({gpu, 1}, job)) ++gpu;
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
      return fmt::format("job {} works on step {}: steps {} to {} are not the next",
                         event.job.value, job.step, event.last + 1 - event.count, event.last);
    });
  }
  std::string operator()(const SaveDone& event) const {
    return with_job(event.job, [&](const JobInfo& job) -> std::string {
      return event.step <= job.step
                 ? ""
                 : fmt::format("a checkpoint of step {}: job {} works on step {}", event.step,
                               event.job.value, job.step);
    });
  }
  std::string operator()(const PartChanged& event) const {
    const bool known = event.part.index < count_of(world.cluster(), event.part.kind);
    return known ? "" : fmt::format("there is no {}", part_name(event.part));
  }
  std::string operator()(const RanksSuspected& event) const { return of_ranks(event); }
  std::string operator()(const RanksLost& event) const {
    if (std::string why = of_ranks(event); !why.empty()) return why;
    return newer(world.jobs_[event.job], event.epoch);
  }
  std::string operator()(const JobHeld& event) const {
    return with_job(event.job, [&event](const JobInfo& job) {
      return job.placed() ? "" : fmt::format("job {} is not running", event.job.value);
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

// ---- it is --------------------------------------------------------------------------------

void World::announce(const Decision& decision) {
  ensure(announced_.emplace(decision.id, decision).second, "a decision is announced once");
}

void World::count_free(NodeId node, std::uint32_t free) {
  std::uint32_t& now = state_.free_per_node[node.value];
  if (now == free) return;
  state_.free += free - now;
  now = free;
  state_.changed_nodes[state_.changes++ % state_.changed_nodes.size()] = node.value;
}

void World::own(GpuRuns::Run run, JobId owner) {
  const std::uint32_t end = run.first + run.count;
  for (std::uint32_t gpu = run.first; gpu < end;) {
    const NodeId node = cluster_->node_of({gpu});
    const std::uint32_t stop = std::min(end, (node.value + 1) * cluster_->shape().gpus_per_node);
    const auto first = state_.owner.begin() + gpu, last = state_.owner.begin() + stop;
    if (!state_.parts.empty()) {
      std::fill(first, last, owner);
      recount(node);
    } else {
      const auto were_free =
          static_cast<std::uint32_t>(std::count(first, last, ClusterState::kNobody));
      std::fill(first, last, owner);
      const std::uint32_t now_free = owner == ClusterState::kNobody ? stop - gpu : 0;
      count_free(node, state_.free_per_node[node.value] + now_free - were_free);
    }
    gpu = stop;
  }
}

void World::claim(const GpuRuns& gpus, JobId job) {
  for (const GpuRuns::Run& run : gpus.runs()) own(run, job);
}

void World::recount(NodeId node) {
  const std::uint32_t size = cluster_->shape().gpus_per_node;
  std::uint32_t free = 0;
  for (std::uint32_t gpu = node.value * size; gpu < (node.value + 1) * size; ++gpu) {
    free += state_.owner[gpu] == ClusterState::kNobody && well({gpu}) ? 1 : 0;
  }
  count_free(node, free);
}

/// Those that are still the job's are nobody's.
void World::give_up(GpuRuns::Run run, JobId job) {
  const auto first = state_.owner.begin() + run.first;
  const bool all = std::all_of(first, first + run.count, [job](JobId of) { return of == job; });
  if (all) return own(run, ClusterState::kNobody);
  for (std::uint32_t gpu = run.first; gpu < run.first + run.count; ++gpu) {
    if (state_.owner[gpu] == job) own({gpu, 1}, ClusterState::kNobody);
  }
}

/// Its GPUs that are not among `kept` are nobody's, or whose they are to be.
void World::vacate(const JobInfo& job, const GpuRuns& kept) {
  const auto free = [&](const GpuRuns& gpus) {
    for_each_without(gpus, kept, [&](GpuRuns::Run run) { give_up(run, job.spec.id); });
  };
  if (job.gpus != kept) free(job.gpus);
  if (job.next && job.next->gpus != kept) free(job.next->gpus);
}

void World::account(JobInfo& job, Nanos now) {
  job.gpu_seconds += static_cast<double>(job.gpus.size()) * to_seconds(now - job.standing_since);
  job.standing_since = now;
}

void World::leave(JobInfo& job, Nanos now) {
  account(job, now);
  vacate(job, {});
  job.gpus.clear();
  job.next.reset();
  job.lost.clear();
  job.suspected.clear();
  job.now = {};
  ahead_.erase(ahead_.lower_bound({job.spec.id, 0}), ahead_.upper_bound({job.spec.id, ~Step{0}}));
}

void World::begin_step(JobInfo& job, Step step) {
  job.step = step;
  for (auto next = ahead_.lower_bound({job.spec.id, 0});
       next != ahead_.end() && next->first.first == job.spec.id && next->first.second <= step;
       next = ahead_.erase(next)) {
    for (Setting& setting : next->second) job.now.set(std::move(setting));
  }
}

void World::lose(JobInfo& job, const RanksLost& event) {
  job.epoch = event.epoch;
  job.lost.insert(job.lost.end(), event.ranks.begin(), event.ranks.end());
  std::sort(job.lost.begin(), job.lost.end());
  job.lost.erase(std::unique(job.lost.begin(), job.lost.end()), job.lost.end());
  std::erase_if(job.suspected, [&job](RankId rank) { return job.is_lost(rank); });
  drop_shares(ahead_, job.spec.id);
  std::vector<std::uint32_t> shares = job.shares();
  deal_out_lost(job, shares);
  job.now.set(Shares{std::move(shares)});
  const bool replaces = job.now.get<OnLoss>().response == LossResponse::replace;
  if (replaces && !job.next && lost_stand_well(job)) job.next = Standing{job.gpus, job.layout};
}

/// Every lost rank's GPU is well: it can be replaced where it stood.
bool World::lost_stand_well(const JobInfo& job) const {
  if (lost_hosts_ == 0) return true;
  auto lost = job.lost.begin();
  std::uint32_t rank = 0;
  for (const GpuId gpu : job.gpus) {
    if (lost == job.lost.end()) break;
    if (rank++ != lost->value) continue;
    if (!well(gpu)) return false;
    ++lost;
  }
  return true;
}

void World::start(JobInfo& job, const JobStarted& event, Nanos now) {
  account(job, now);
  const bool fresh = !job.placed();
  const bool resized = event.where.layout != job.layout;
  std::vector<std::uint32_t> shares = job.shares();
  const std::vector<bool> back = fresh || resized ? std::vector<bool>() : lost_replicas(job);
  vacate(job, event.where.gpus);
  if (!job.next || job.next->gpus != event.where.gpus) claim(event.where.gpus, job.spec.id);
  job.gpus = event.where.gpus;
  job.layout = event.where.layout;
  job.next.reset();
  job.lost.clear();
  job.suspected.clear();
  job.epoch = event.epoch;
  job.phase = JobPhase::running;
  if (fresh) {
    job.started = now;
    for (const Setting& setting : job.spec.settings) job.now.set(setting);
  }
  drop_shares(ahead_, job.spec.id);
  if (job.spec.trains()) {
    if (fresh || resized) shares = even_split(job.spec.micro_batches, job.layout.data);
    for (std::size_t replica = 0; replica < back.size(); ++replica) {
      if (back[replica]) take_even_share(replica, shares);
    }
    job.now.set(Shares{std::move(shares)});
  }
  // It began anew: a checkpoint of later steps is of a past that is not its own any more.
  if (event.from < job.saved) job.saved = 0, job.saved_at = 0;
  begin_step(job, event.from);
}

void World::change_part(const PartChanged& event, Nanos now) {
  PartState to = event.to;
  to.since = now;
  const bool holds_gpus = event.part.kind == PartKind::gpu || event.part.kind == PartKind::node;
  const bool was_lost = state_.lost(event.part), is_lost = to.health == Health::lost;
  if (holds_gpus && was_lost) --lost_hosts_;
  if (holds_gpus && is_lost) ++lost_hosts_;
  if (to.nominal()) {
    state_.parts.erase(event.part);
  } else {
    state_.parts[event.part] = to;
  }
  if (event.part.kind == PartKind::gpu) recount(cluster_->node_of({event.part.index}));
  if (event.part.kind == PartKind::node) recount({event.part.index});
}

struct World::Effect {
  World& world;
  Step at_step;

  void operator()(const Assign& assign) const {
    JobInfo& job = world.jobs_.at(assign.job);
    if (job.next) world.vacate(job, job.gpus);  // it leaves before that has come true
    job.next = Standing{assign.gpus, assign.layout};
    world.claim(assign.gpus, assign.job);
    if (job.phase == JobPhase::waiting) job.phase = JobPhase::starting;
  }
  void operator()(const Configure& configure) const {
    JobInfo& job = world.jobs_.at(configure.job);
    world.ahead_[{configure.job, at_step}].push_back(configure.what);
    world.begin_step(job, job.step);
  }
  void operator()(const Save&) const {}
};

struct World::Change {
  World& world;
  Nanos now;

  void operator()(const JobSubmitted& event) const {
    JobInfo& job = world.jobs_.add(event.job);
    job.layout = event.job.layout;
  }
  void operator()(const JobDone& event) const {
    JobInfo& job = world.jobs_.at(event.job);
    world.leave(job, now);
    job.phase = JobPhase::done;
    world.over_.push_back(event.job);
  }
  void operator()(const StepsDone& event) const {
    world.begin_step(world.jobs_.at(event.job), event.last + 1);
  }
  void operator()(const SaveDone& event) const {
    JobInfo& job = world.jobs_.at(event.job);
    if (!event.durable || event.step < job.saved) return;
    job.saved = event.step;
    job.saved_at = now;
  }
  void operator()(const PartChanged& event) const { world.change_part(event, now); }
  void operator()(const RanksSuspected& event) const {
    JobInfo& job = world.jobs_.at(event.job);
    job.suspected = event.ranks;
    std::sort(job.suspected.begin(), job.suspected.end());
  }
  void operator()(const RanksLost& event) const {
    world.lose(world.jobs_.at(event.job), event);
  }
  void operator()(const JobHeld& event) const {
    world.jobs_.at(event.job).phase = JobPhase::held;
  }
  void operator()(const JobStopped& event) const {
    JobInfo& job = world.jobs_.at(event.job);
    world.leave(job, now);
    job.phase = JobPhase::waiting;
    job.step = event.kept;
  }
  void operator()(const JobStarted& event) const {
    world.start(world.jobs_.at(event.job), event, now);
  }
  void operator()(const Decided& event) const {
    const auto found = world.announced_.extract(event.decision);
    if (event.status != Outcome::applied) return;
    std::visit(Effect{world, found.mapped().at_step}, found.mapped().what);
  }
  void operator()(const ParameterSet&) const {}
  void operator()(const Tick&) const {}
};

void World::begin_batch() {
  for (const JobId job : over_) jobs_.remove(job);
  over_.clear();
}

void World::apply(const Event& event, Nanos now) {
  const std::string why = objection(event);
  ensure(why.empty(), why);
  std::visit(Change{*this, now}, event);
  if (!std::holds_alternative<Tick>(event)) ++state_.version;
}

}  // namespace orrery
