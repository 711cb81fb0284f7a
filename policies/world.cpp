#include "policies/world.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/policy.hpp"

namespace orrery {
namespace {

bool counts_as_free(const GpuState& gpu) { return gpu.health == Health::ok && !gpu.taken; }

std::uint64_t sum(const std::vector<std::uint32_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

std::string no_such_job(JobId job) { return fmt::format("there is no job {}", job.value); }

std::string shift_objection(const JobInfo& job, const ShiftMicrobatches& shift, Step effective) {
  if (job.phase != JobPhase::running) {
    return fmt::format("job {} is not running", job.spec.id.value);
  }
  if (shift.per_replica.size() != job.per_replica.size()) {
    return fmt::format("job {} has {} replicas, not {}", job.spec.id.value,
                       job.per_replica.size(), shift.per_replica.size());
  }
  if (sum(shift.per_replica) != sum(job.per_replica)) {
    return fmt::format("the step has {} micro-batches, not {}", sum(job.per_replica),
                       sum(shift.per_replica));
  }
  const auto most = std::max_element(shift.per_replica.begin(), shift.per_replica.end());
  if (job.spec.max_micro_batches > 0 && most != shift.per_replica.end() &&
      *most > job.spec.max_micro_batches) {
    return fmt::format("replica {} has memory for {} micro-batches, not {}",
                       most - shift.per_replica.begin(), job.spec.max_micro_batches, *most);
  }
  for (std::uint32_t replica = 0; replica < shift.per_replica.size(); ++replica) {
    if (shift.per_replica[replica] > 0 && replica_lost(job, replica)) {
      return fmt::format("replica {} has lost a rank", replica);
    }
  }
  if (effective != 0 && effective < job.step) {
    return fmt::format("step {} is past: job {} works on step {}", effective,
                       job.spec.id.value, job.step);
  }
  return {};
}

}  // namespace

std::vector<std::uint32_t> even_split(std::uint32_t total, std::uint32_t parts) {
  std::vector<std::uint32_t> shares(parts);
  for (std::uint32_t i = 0; i < parts; ++i) shares[i] = total / parts + (i < total % parts ? 1 : 0);
  return shares;
}

bool replica_lost(const JobInfo& job, std::uint32_t replica) {
  for (std::uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
    if (job.ranks[rank] != Health::lost) continue;
    if (job.spec.replica_of({rank}) == replica) return true;
  }
  return false;
}

bool can_go_on(const JobInfo& job) {
  for (std::uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
    if (job.ranks[rank] != Health::lost || job.per_replica.empty()) continue;
    if (job.per_replica[job.spec.replica_of({rank})] > 0) return false;
  }
  return job.phase == JobPhase::running;
}

World::World(const Cluster& cluster) : cluster_(cluster) {
  state_.gpus.resize(cluster.gpus());
  state_.free_per_node.assign(cluster.nodes(), cluster.shape().gpus_per_node);
  state_.free = cluster.gpus();
}

// ---- may it be? ---------------------------------------------------------------------------

std::string World::placement_objection(const JobSpec& job, const std::vector<GpuId>& gpus) const {
  if (gpus.size() != job.gpus) {
    return fmt::format("job {} wants {} GPUs, not {}", job.id.value, job.gpus, gpus.size());
  }
  for (const GpuId gpu : gpus) {
    if (gpu.value >= state_.gpus.size()) return fmt::format("there is no GPU {}", gpu.value);
    const GpuState& now = state_.gpus[gpu.value];
    if (now.taken) return fmt::format("GPU {} is taken by job {}", gpu.value, now.owner.value);
    if (now.health == Health::lost) return fmt::format("GPU {} is lost", gpu.value);
  }
  std::vector<GpuId> sorted = gpus;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  return twice == sorted.end() ? "" : fmt::format("GPU {} is named twice", twice->value);
}

/// What stands against an action; `effective` is the decision's step.
struct World::JobObjection {
  const World& world;
  Step effective;

  std::string operator()(const PlaceJob& place) const {
    if (!world.known(place.job)) return no_such_job(place.job);
    const JobInfo& job = world.jobs_[place.job.value];
    if (job.phase != JobPhase::waiting) {
      return fmt::format("job {} is not waiting", place.job.value);
    }
    return world.placement_objection(job.spec, place.gpus);
  }
  std::string operator()(const Preempt& preempt) const {
    if (!world.known(preempt.job)) return no_such_job(preempt.job);
    const bool running = world.jobs_[preempt.job.value].phase == JobPhase::running;
    return running ? "" : fmt::format("job {} is not running", preempt.job.value);
  }
  std::string operator()(const ShiftMicrobatches& shift) const {
    if (!world.known(shift.job)) return no_such_job(shift.job);
    return shift_objection(world.jobs_[shift.job.value], shift, effective);
  }
  std::string operator()(const SetPowerCap& cap) const {
    const bool known = cap.gpu.value < world.state_.gpus.size();
    return known ? "" : fmt::format("there is no GPU {}", cap.gpu.value);
  }
  std::string operator()(const WakeMe&) const { return {}; }
  /// Of what holds from a step on.
  std::string of_step(JobId id) const {
    if (!world.known(id)) return no_such_job(id);
    const JobInfo& job = world.jobs_[id.value];
    if (job.phase == JobPhase::done) return fmt::format("job {} is done", id.value);
    if (effective == 0 || effective >= job.step) return {};
    return fmt::format("step {} is past: job {} works on step {}", effective, id.value, job.step);
  }
  std::string operator()(const SetCollectiveTable& table) const { return of_step(table.job); }
  std::string operator()(const SetCodec& set) const {
    for (const CodecRule& rule : set.rules) {
      if (rule.bucket_class >= kBucketClasses) {
        return fmt::format("there is no bucket class {}", rule.bucket_class);
      }
      if (const std::string why = objection_to(rule); !why.empty()) return why;
    }
    return of_step(set.job);
  }
  template <class OfJob>
  std::string operator()(const OfJob& action) const {
    if (!world.known(action.job)) return no_such_job(action.job);
    const bool done = world.jobs_[action.job.value].phase == JobPhase::done;
    return done ? fmt::format("job {} is done", action.job.value) : "";
  }
};

std::string World::objection(const Decision& decision) const {
  return std::visit(JobObjection{*this, decision.effective_at_step}, decision.what);
}

struct World::Check {
  const World& world;

  std::string operator()(const JobSubmitted& event) const {
    const JobSpec& job = event.job;
    if (job.id.value != world.jobs_.size()) {
      return fmt::format("job {} is submitted where job {} is due", job.id.value,
                         world.jobs_.size());
    }
    const std::uint64_t size = std::uint64_t{job.tensor} * job.context * job.pipeline;
    const bool fits =
        job.gpus > 0 && size > 0 && job.gpus % size == 0 && job.gpus / size == job.data;
    // A job without micro-batches has no layout to speak of: it is only a number of GPUs.
    if (size == 0 || job.data == 0 || (job.micro_batches > 0 && !fits)) {
      return fmt::format("job {} has {} GPUs for a layout of {} x {} x {} x {}", job.id.value,
                         job.gpus, job.tensor, job.context, job.pipeline, job.data);
    }
    return event.placed.empty() ? "" : world.placement_objection(job, event.placed);
  }
  std::string operator()(const JobDone& event) const {
    if (!world.known(event.job)) return no_such_job(event.job);
    const bool done = world.jobs_[event.job.value].phase == JobPhase::done;
    return done ? fmt::format("job {} ends twice", event.job.value) : "";
  }
  std::string operator()(const DecisionOutcome& event) const {
    const auto found = world.announced_.find(event.decision);
    if (found == world.announced_.end()) {
      return fmt::format("nobody announced decision {}", event.decision);
    }
    if (event.status != Outcome::applied) return {};
    // A backend may report the outcome later than the step: only the rest is checked.
    return std::visit(JobObjection{world, 0}, found->second.what);
  }
  std::string operator()(const LinkDown& event) const { return of_link(event.link); }
  std::string operator()(const LinkUp& event) const { return of_link(event.link); }
  std::string operator()(const RankSuspected& event) const {
    return of_rank(event.job, event.rank);
  }
  std::string operator()(const RankLost& event) const { return of_rank(event.job, event.rank); }
  std::string operator()(const RankBack& event) const { return of_rank(event.job, event.rank); }
  std::string operator()(const Tick&) const { return {}; }
  template <class OfJob>
  std::string operator()(const OfJob& event) const {
    return world.known(event.job) ? "" : no_such_job(event.job);
  }

  std::string of_link(LinkId link) const {
    const bool known = link.value < world.cluster_.links();
    return known ? "" : fmt::format("there is no link {}", link.value);
  }
  std::string of_rank(JobId job, RankId rank) const {
    if (!world.known(job)) return no_such_job(job);
    const bool known = rank.value < world.jobs_[job.value].spec.gpus;
    return known ? "" : fmt::format("job {} has no rank {}", job.value, rank.value);
  }
};

std::string World::objection(const Event& event) const { return std::visit(Check{*this}, event); }

// ---- it is --------------------------------------------------------------------------------

void World::announce(const Decision& decision) {
  ensure(announced_.emplace(decision.number, decision).second, "a decision is announced once");
}

void World::change(GpuId gpu, const GpuState& to) {
  GpuState& now = state_.gpus[gpu.value];
  const int gained = int(counts_as_free(to)) - int(counts_as_free(now));
  now = to;
  state_.free += static_cast<std::uint32_t>(gained);
  state_.free_per_node[cluster_.node_of(gpu).value] += static_cast<std::uint32_t>(gained);
}

void World::take(JobInfo& job, const std::vector<GpuId>& gpus) {
  job.phase = JobPhase::running;
  job.gpus = gpus;
  job.ranks.clear();
  for (const GpuId gpu : gpus) {
    const Health health = state_.gpus[gpu.value].health;
    job.ranks.push_back(health);
    change(gpu, {.health = health, .taken = true, .owner = job.spec.id});
  }
  if (job.spec.micro_batches > 0) {
    job.per_replica = even_split(job.spec.micro_batches, job.spec.data);
  }
}

namespace {

/// What was decided for this step or an earlier one; the latest holds.
template <class Value>
void take_due(std::map<std::pair<JobId, Step>, Value>& ahead, JobId id, Step step, Value& now) {
  for (auto next = ahead.lower_bound({id, 0});
       next != ahead.end() && next->first.first == id && next->first.second <= step;
       next = ahead.erase(next)) {
    now = std::move(next->second);
  }
}

template <class Value>
void forget(std::map<std::pair<JobId, Step>, Value>& ahead, JobId id) {
  ahead.erase(ahead.lower_bound({id, 0}), ahead.upper_bound({id, ~Step{0}}));
}

}  // namespace

void World::release(JobInfo& job) {
  for (const GpuId gpu : job.gpus) {
    change(gpu, {.health = state_.gpus[gpu.value].health, .taken = false, .owner = {}});
  }
  job.gpus.clear();
  job.ranks.clear();
  job.per_replica.clear();
  job.collectives.clear();
  job.codecs.clear();
  drop_shifts(job.spec.id);
  forget(tables_ahead_, job.spec.id);
  forget(codecs_ahead_, job.spec.id);
}

void World::drop_shifts(JobId job) {
  forget(shifts_ahead_, job);
}

/// Deals the micro-batches anew after a loss or a return: lost replicas give theirs away one by
/// one to whoever has fewest, one that has come back takes from whoever has most until it is even.
void World::spread(JobInfo& job, std::uint32_t changed) {
  drop_shifts(job.spec.id);
  const auto most = job.spec.max_micro_batches > 0 ? job.spec.max_micro_batches : ~0u;
  std::vector<std::uint32_t> shares = job.per_replica;
  std::vector<std::uint32_t> live;
  std::uint32_t loose = 0;
  for (std::uint32_t replica = 0; replica < shares.size(); ++replica) {
    if (!replica_lost(job, replica)) {
      live.push_back(replica);
    } else {
      loose += std::exchange(shares[replica], 0);
    }
  }
  const auto fewer = [&](std::uint32_t a, std::uint32_t b) { return shares[a] < shares[b]; };
  for (; loose > 0 && !live.empty(); --loose) {
    std::uint32_t& least = shares[*std::min_element(live.begin(), live.end(), fewer)];
    if (least == most) return;  // they do not fit; see can_go_on
    ++least;
  }
  if (live.empty()) return;
  const auto even = static_cast<std::uint32_t>(sum(shares) / live.size());
  while (!replica_lost(job, changed) && shares[changed] < even) {
    --shares[*std::max_element(live.begin(), live.end(), fewer)];
    ++shares[changed];
  }
  job.per_replica = std::move(shares);
}

void World::set_health(JobId id, RankId rank, Health health) {
  JobInfo& job = jobs_[id.value];
  if (job.phase != JobPhase::running) return;  // it left its GPUs before the news came
  const std::uint32_t replica = job.spec.replica_of(rank);
  const bool trains = job.spec.micro_batches > 0;
  const bool was_lost = trains && replica_lost(job, replica);
  job.ranks[rank.value] = health;
  const GpuId gpu = job.gpus[rank.value];
  GpuState to = state_.gpus[gpu.value];
  to.health = health;
  change(gpu, to);
  if (trains && replica_lost(job, replica) != was_lost) spread(job, replica);
}

void World::begin_step(JobInfo& job, Step step) {
  job.step = step;
  take_due(shifts_ahead_, job.spec.id, step, job.per_replica);
  take_due(tables_ahead_, job.spec.id, step, job.collectives);
  take_due(codecs_ahead_, job.spec.id, step, job.codecs);
}

struct World::Effect {
  World& world;
  Step effective;

  void operator()(const PlaceJob& place) const {
    world.take(world.jobs_[place.job.value], place.gpus);
  }
  void operator()(const Preempt& preempt) const {
    JobInfo& job = world.jobs_[preempt.job.value];
    world.release(job);
    job.phase = JobPhase::waiting;
  }
  void operator()(const ShiftMicrobatches& shift) const {
    JobInfo& job = world.jobs_[shift.job.value];
    world.shifts_ahead_[{shift.job, effective}] = shift.per_replica;
    world.begin_step(job, job.step);
  }
  void operator()(const SetCollectiveTable& table) const {
    JobInfo& job = world.jobs_[table.job.value];
    world.tables_ahead_[{table.job, effective}] = table.rules;
    world.begin_step(job, job.step);
  }
  void operator()(const SetCodec& set) const {
    JobInfo& job = world.jobs_[set.job.value];
    world.codecs_ahead_[{set.job, effective}] = set.rules;
    world.begin_step(job, job.step);
  }
  template <class NoState>
  void operator()(const NoState&) const {}
};

struct World::Change {
  World& world;

  void operator()(const JobSubmitted& event) const {
    world.jobs_.emplace_back().spec = event.job;
    if (!event.placed.empty()) world.take(world.jobs_.back(), event.placed);
  }
  void operator()(const JobDone& event) const {
    JobInfo& job = world.jobs_[event.job.value];
    world.release(job);
    job.phase = JobPhase::done;
  }
  void operator()(const StepDone& event) const {
    world.begin_step(world.jobs_[event.job.value], event.step + 1);
  }
  void operator()(const RankSuspected& event) const {
    world.set_health(event.job, event.rank, Health::suspected);
  }
  void operator()(const RankLost& event) const {
    world.set_health(event.job, event.rank, Health::lost);
  }
  void operator()(const RankBack& event) const {
    world.set_health(event.job, event.rank, Health::ok);
  }
  void operator()(const LinkDown& event) const {
    auto& down = world.state_.links_down;
    if (std::find(down.begin(), down.end(), event.link) == down.end()) down.push_back(event.link);
  }
  void operator()(const LinkUp& event) const { std::erase(world.state_.links_down, event.link); }
  void operator()(const DecisionOutcome& event) const {
    const auto found = world.announced_.extract(event.decision);
    if (event.status != Outcome::applied) return;
    const Decision& decision = found.mapped();
    std::visit(Effect{world, decision.effective_at_step}, decision.what);
  }
  void operator()(const CheckpointDone&) const {}
  void operator()(const Tick&) const {}
};

void World::apply(const Event& event) {
  const std::string against = objection(event);
  ensure(against.empty(), against);
  std::visit(Change{*this}, event);
  if (!std::holds_alternative<Tick>(event)) ++state_.version;
}

}  // namespace orrery
