#include "policies/seam/world.hpp"

#include "policies/seam/job_lifecycle.hpp"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

#include "core/error.hpp"

namespace orrery {
namespace {

/// Returns true if the GPUs of all lost ranks work, so that replacements can use the same GPUs.
bool can_replace_lost(const JobInfo& job, const ClusterState& state, const Cluster& cluster) {
  return std::ranges::all_of(lost_gpus(job), [&state, &cluster](GpuId gpu) {
    return state.is_healthy(gpu, cluster.node_of(gpu));
  });
}

std::uint64_t sum(const std::vector<std::uint32_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

// ---- distribution of micro-batches ----------------------------------------------------------

/// Distributes `loose` micro-batches one by one to the remaining replica with the fewest, the first
/// of equals. Micro-batches that exceed the limit of every replica stay undistributed.
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

/// Moves the micro-batches of lost replicas to the remaining replicas. Changes nothing if the
/// remaining replicas lack the memory for all of them.
void deal_out_lost(const JobInfo& job, std::vector<std::uint32_t>& shares) {
  const std::vector<bool> lost = lost_replicas(job);
  std::vector<std::uint32_t> dealt = shares;
  for (std::size_t i = 0; i < dealt.size(); ++i) {
    if (lost[i]) dealt[i] = 0;
  }
  const std::uint32_t most = most_micro_batches(job.spec, job.layout);
  deal(sum(shares) - sum(dealt), most > 0 ? most : ~0u, lost, dealt);
  if (sum(dealt) == sum(shares)) shares = std::move(dealt);
}

/// Gives a returned replica an even share; each micro-batch comes from the replica with the most.
void take_even_share(std::size_t replica, std::vector<std::uint32_t>& shares) {
  const std::uint64_t even = sum(shares) / shares.size();
  while (shares[replica] < even) {
    --*std::max_element(shares.begin(), shares.end());
    ++shares[replica];
  }
}

/// Removes the shares of later steps, because they were computed for another membership.
template <class Ahead>
void drop_shares(Ahead& ahead, JobId job) {
  const auto end = ahead.upper_bound({job, ~Step{0}});
  for (auto each = ahead.lower_bound({job, 0}); each != end; ++each) {
    std::erase_if(each->second,
                  [](const auto& item) { return std::holds_alternative<Shares>(item.what); });
  }
}

/// Divides the micro-batches of the job's batch evenly among the working replicas. Returns false,
/// without a change, if the replicas lack the memory.
bool deal_out_batch(JobInfo& job) {
  const std::vector<bool> lost = lost_replicas(job);
  ParallelLayout working = job.layout;
  working.data = static_cast<std::uint32_t>(std::count(lost.begin(), lost.end(), false));
  if (!fits_replicas(job.spec, job.micro_batches(), working)) return false;
  std::vector<std::uint32_t> shares(lost.size(), 0);
  deal(job.micro_batches(), ~0u, lost, shares);
  job.now.set_setting(Shares{std::move(shares)});
  return true;
}

/// Sets a value from the job's current step on. Returns false, without a change, for shares that do
/// not divide its batch and for a batch that its working replicas cannot hold: both were decided
/// for another state.
bool set_from_now(JobInfo& job, Setting&& setting) {
  const auto* shares = std::get_if<Shares>(&setting);
  if (shares && sum(shares->per_replica) != job.micro_batches()) return false;
  const bool is_batch = std::holds_alternative<Batch>(setting);
  const Batch before = job.now.get<Batch>();
  job.now.set_setting(std::move(setting));
  if (!is_batch || deal_out_batch(job)) return true;
  job.now.set_setting(before);
  return false;
}

/// Returns true if a Batch of the job with a lower precedence than that of shares has no outcome
/// yet: the shares may be those of that Batch.
template <class AnnouncedDecisions, class Precedence>
bool is_batch_awaited(const AnnouncedDecisions& announced, JobId job, const Precedence& shares) {
  return std::any_of(announced.begin(), announced.end(), [&](const auto& each) {
    const auto* configure = std::get_if<Configure>(&each.second.decision.what);
    return configure != nullptr && configure->job == job &&
           std::holds_alternative<Batch>(configure->what) && each.second.precedence() < shares;
  });
}

}  // namespace

bool ClusterState::is_healthy(GpuId gpu, NodeId node) const {
  if (parts.empty()) return true;
  return !is_lost({PartKind::gpu, gpu.value}) && !is_lost({PartKind::node, node.value});
}

bool ClusterState::is_to_be_removed(GpuId gpu, NodeId node) const {
  const auto announced = [this](Part part) {
    const auto found = parts.find(part);
    return found != parts.end() && found->second.removal.has_value();
  };
  return !parts.empty() &&
         (announced({PartKind::gpu, gpu.value}) || announced({PartKind::node, node.value}));
}

World::World(const Cluster& cluster) : cluster_(&cluster) {
  state_.owner.assign(cluster.gpus(), ClusterState::kNobody);
  state_.free_per_node.assign(cluster.nodes(), cluster.shape().gpus_per_node);
  state_.free = cluster.gpus();
  state_.words_per_node = (cluster.shape().gpus_per_node + 63) / 64;
  state_.free_bits.assign(std::size_t{cluster.nodes()} * state_.words_per_node, 0);
  for (std::uint32_t node = 0; node < cluster.nodes(); ++node) owners().recount_free({node});
}

void World::announce_decision(const Decision& decision) {
  const JobInfo* const job = jobs_.find(job_of(decision.what));
  const Step step = job != nullptr ? job->step : 0;
  const bool added = announced_.emplace(decision.id, Announced{decision, calls_, step}).second;
  ensure(added, "a decision is announced once");
}

// ---- jobs ---------------------------------------------------------------------------------

void World::account_time(JobInfo& job, Nanos now) {
  job.gpu_seconds += static_cast<double>(job.gpus.size()) * to_seconds(now - job.standing_since);
  job.standing_since = now;
}

void World::release_job(JobInfo& job, Nanos now) {
  account_time(job, now);
  owners().vacate_gpus(job, {});
  job.gpus.clear();
  job.next.reset();
  job.is_restarting = false;
  job.is_corrupted = false;
  job.lost.clear();
  job.suspected.clear();
  job.now = {};
  ahead_.erase(ahead_.lower_bound({job.spec.id, 0}), ahead_.upper_bound({job.spec.id, ~Step{0}}));
  coming_.erase(job.spec.id);
  present_.erase(present_.lower_bound({job.spec.id, 0}),
                 present_.upper_bound({job.spec.id, ~std::size_t{0}}));
}

void World::begin_step(JobInfo& job, Step step) {
  if (std::exchange(job.step, step) != step) job.now.set_setting(Delay{});
  const JobId id = job.spec.id;
  const auto first = ahead_.lower_bound({id, 0}), end = ahead_.upper_bound({id, step});
  std::vector<std::pair<Step, DecidedSetting>> due;
  for (auto each = first; each != end; ++each) {
    for (DecidedSetting& setting : each->second) {
      due.emplace_back(each->first.second, std::move(setting));
    }
  }
  ahead_.erase(first, end);
  std::stable_sort(due.begin(), due.end(), [](const auto& a, const auto& b) {
    return a.second.precedence < b.second.precedence;
  });
  for (auto& [at_step, setting] : due) {
    const bool is_shares = std::holds_alternative<Shares>(setting.what);
    const Precedence batch = present_[{id, Setting(Batch()).index()}];
    Precedence& present = present_[{id, setting.what.index()}];
    // A Batch divides its micro-batches anew.
    if (setting.precedence < present || (is_shares && setting.precedence < batch)) continue;
    // The time until ranks agree on a Batch makes no difference: shares that were decided for it or
    // after it apply again once the Batch is in effect.
    if (is_shares && is_batch_awaited(announced_, id, setting.precedence)) {
      ahead_[{id, at_step}].push_back(setting);
    }
    if (set_from_now(job, std::move(setting.what))) present = setting.precedence;
  }
}

void World::lose_ranks(JobInfo& job, const RanksLost& event) {
  job.epoch = event.epoch;
  job.lost.insert(job.lost.end(), event.ranks.begin(), event.ranks.end());
  std::sort(job.lost.begin(), job.lost.end());
  job.lost.erase(std::unique(job.lost.begin(), job.lost.end()), job.lost.end());
  std::erase_if(job.suspected, [&job](RankId rank) { return job.is_lost(rank); });
  drop_shares(ahead_, job.spec.id);
  std::vector<std::uint32_t> shares = job.shares();
  deal_out_lost(job, shares);
  job.now.set_setting(Shares{std::move(shares)});
  drop_void_assignment(job);
  const bool replaces = job.now.get<OnLoss>().response == LossResponse::replace;
  if (replaces && !job.next && can_replace_lost(job, state_, *cluster_))
    job.next = Standing{job.gpus, job.layout};
}

void World::drop_void_assignment(JobInfo& job) {
  if (!is_assignment_void(job, [this](GpuId gpu) { return is_healthy(gpu); })) return;
  owners().vacate_gpus(job, job.gpus);
  job.next.reset();
  coming_.erase(job.spec.id);
}

void World::start(JobInfo& job, const JobStarted& event, Nanos now) {
  account_time(job, now);
  const bool fresh = !job.is_placed();
  const bool resized = event.where.layout != job.layout;
  std::vector<std::uint32_t> shares = job.shares();
  std::vector<bool> back = fresh || resized ? std::vector<bool>() : lost_replicas(job);
  owners().vacate_gpus(job, event.where.gpus);
  const bool announced = job.next && job.next->gpus == event.where.gpus;
  if (!announced) owners().claim_gpus(event.where.gpus, job.spec.id);
  job.gpus = event.where.gpus;
  job.layout = event.where.layout;
  job.next.reset();
  job.is_restarting = false;
  job.is_corrupted = false;
  job.lost = event.lost;
  job.suspected.clear();
  job.epoch = event.epoch;
  job.phase = JobPhase::running;
  const std::vector<bool> gone = lost_replicas(job);
  for (std::size_t replica = 0; replica < back.size(); ++replica) {
    back[replica] = back[replica] && !gone[replica];
  }
  if (fresh) {
    job.started = now;
    if (job.spec.is_training()) job.now.set_setting(Batch{job.spec.micro_batches, 1});
    for (const Setting& setting : job.spec.settings) job.now.set_setting(setting);
  }
  drop_shares(ahead_, job.spec.id);
  if (job.spec.is_training()) {
    // The job may start on fewer GPUs than it was assigned, too few for its batch.
    const bool fits = fits_replicas(job.spec, job.micro_batches(), job.layout) &&
                      job.micro_batches() >= job.layout.data;
    if (resized && !fits) job.now.set_setting(Batch{job.spec.micro_batches, 1});
    if (fresh || resized) shares = even_split(job.micro_batches(), job.layout.data);
    for (std::size_t replica = 0; replica < back.size(); ++replica) {
      if (back[replica]) take_even_share(replica, shares);
    }
    if (!job.lost.empty()) deal_out_lost(job, shares);
    job.now.set_setting(Shares{std::move(shares)});
  }
  // It began anew: a checkpoint of later steps is of a past that is not its own any more.
  forget_checkpoints_after(job, event.from);
  // Settings that were decided with the assignment. Shares for another number of replicas are
  // dropped: the job may start on fewer GPUs than it was assigned.
  const JobId id = job.spec.id;
  auto coming = coming_.extract(id);
  Coming started = coming ? std::move(coming.mapped()) : Coming();
  for (auto& [step, setting] : started.settings) {
    const auto* split = std::get_if<Shares>(&setting.what);
    if (split != nullptr && split->per_replica.size() != job.layout.data) continue;
    ahead_[{id, step}].push_back(std::move(setting));
  }
  begin_step(job, event.from);
  // If the job repeats steps, later decisions of these steps count.
  const auto end = present_.upper_bound({id, ~std::size_t{0}});
  for (auto each = present_.lower_bound({id, 0}); each != end; ++each) {
    each->second.step = std::min(each->second.step, event.from);
  }
}

void World::change_part(const PartChanged& event, Nanos now) {
  PartState to = event.to;
  to.since = now;
  const bool holds_gpus = event.part.kind == PartKind::gpu || event.part.kind == PartKind::node;
  const bool was_lost = state_.is_lost(event.part), is_lost = to.health == Health::lost;
  if (holds_gpus && was_lost) --lost_hosts_;
  if (holds_gpus && is_lost) ++lost_hosts_;
  if (to.is_nominal()) {
    state_.parts.erase(event.part);
  } else {
    state_.parts[event.part] = to;
  }
  if (event.part.kind == PartKind::gpu)
    owners().recount_free(cluster_->node_of({event.part.index}));
  if (event.part.kind == PartKind::node) owners().recount_free({event.part.index});
  if (!holds_gpus || !is_lost || was_lost) return;
  for (const JobInfo& job : jobs_) {
    if (job.next) drop_void_assignment(jobs_.at(job.spec.id));
  }
  if (!has_copies_ || event.part.kind != PartKind::node) return;
  for (const JobInfo& job : jobs_) lose_copies(jobs_.at(job.spec.id), {event.part.index});
}

void World::restore_state(const World& earlier) {
  cluster_ = earlier.cluster_;
  state_ = earlier.state_;
  jobs_.restore_jobs(earlier.jobs_);
  lost_hosts_ = earlier.lost_hosts_;
  has_copies_ = earlier.has_copies_;
  over_ = earlier.over_;
  calls_ = earlier.calls_;
  announced_ = earlier.announced_;
  coming_ = earlier.coming_;
  ahead_ = earlier.ahead_;
  present_ = earlier.present_;
}

void World::begin_batch() {
  for (const JobId job : over_) jobs_.remove_job(job);
  over_.clear();
  ++calls_;
}

void World::apply(const Event& event, Nanos now) {
  const std::string why = objection(event);
  ensure(why.empty(), why);
  apply_possible(event, now);
}

void World::apply_possible(const Event& event, Nanos now) {
  apply_change(event, now);
  if (!std::holds_alternative<Tick>(event)) ++state_.version;
}

}  // namespace orrery
