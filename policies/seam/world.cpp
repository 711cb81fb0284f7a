#include "policies/seam/world.hpp"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

#include "core/error.hpp"

namespace orrery {
namespace {

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
  const std::uint32_t most = job.spec.max_micro_batches > 0 ? job.spec.max_micro_batches : ~0u;
  deal(sum(shares) - sum(dealt), most, lost, dealt);
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
void drop_shares(std::map<std::pair<JobId, Step>, std::vector<Setting>>& ahead, JobId job) {
  const auto end = ahead.upper_bound({job, ~Step{0}});
  for (auto each = ahead.lower_bound({job, 0}); each != end; ++each) {
    std::erase_if(each->second,
                  [](const Setting& what) { return std::holds_alternative<Shares>(what); });
  }
}

/// Removes the entries of the job.
void forget_job(std::map<std::pair<JobId, std::size_t>, Step>& since, JobId job) {
  since.erase(since.lower_bound({job, 0}), since.upper_bound({job, ~std::size_t{0}}));
}

}  // namespace

bool ClusterState::is_healthy(GpuId gpu, NodeId node) const {
  if (parts.empty()) return true;
  return !is_lost({PartKind::gpu, gpu.value}) && !is_lost({PartKind::node, node.value});
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
  const JobInfo* job = jobs_.find(job_of(decision.what));
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
  job.lost.clear();
  job.suspected.clear();
  job.now = {};
  ahead_.erase(ahead_.lower_bound({job.spec.id, 0}), ahead_.upper_bound({job.spec.id, ~Step{0}}));
  coming_.erase(job.spec.id);
  forget_job(since_, job.spec.id);
}

void World::begin_step(JobInfo& job, Step step) {
  job.step = step;
  for (auto next = ahead_.lower_bound({job.spec.id, 0});
       next != ahead_.end() && next->first.first == job.spec.id && next->first.second <= step;
       next = ahead_.erase(next)) {
    for (Setting& setting : next->second) {
      since_[{job.spec.id, setting.index()}] = next->first.second;
      job.now.set_setting(std::move(setting));
    }
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
  const bool replaces = job.now.get<OnLoss>().response == LossResponse::replace;
  if (replaces && !job.next && has_healthy_lost_gpus(job))
    job.next = Standing{job.gpus, job.layout};
}

void World::start(JobInfo& job, const JobStarted& event, Nanos now) {
  account_time(job, now);
  const bool fresh = !job.is_placed();
  const bool resized = event.where.layout != job.layout;
  std::vector<std::uint32_t> shares = job.shares();
  const std::vector<bool> back = fresh || resized ? std::vector<bool>() : lost_replicas(job);
  owners().vacate_gpus(job, event.where.gpus);
  const bool announced = job.next && job.next->gpus == event.where.gpus;
  if (!announced) owners().claim_gpus(event.where.gpus, job.spec.id);
  job.gpus = event.where.gpus;
  job.layout = event.where.layout;
  job.next.reset();
  job.is_restarting = false;
  job.lost.clear();
  job.suspected.clear();
  job.epoch = event.epoch;
  job.phase = JobPhase::running;
  if (fresh) {
    job.started = now;
    for (const Setting& setting : job.spec.settings) job.now.set_setting(setting);
  }
  drop_shares(ahead_, job.spec.id);
  if (job.spec.is_training()) {
    if (fresh || resized) shares = even_split(job.spec.micro_batches, job.layout.data);
    for (std::size_t replica = 0; replica < back.size(); ++replica) {
      if (back[replica]) take_even_share(replica, shares);
    }
    job.now.set_setting(Shares{std::move(shares)});
  }
  // It began anew: a checkpoint of later steps is of a past that is not its own any more.
  if (event.from < job.saved) job.saved = 0, job.saved_at = 0;
  // Settings that were decided with the assignment. Shares for another number of replicas are
  // dropped: the job may start on fewer GPUs than it was assigned.
  forget_job(since_, job.spec.id);  // the job may have returned to an earlier step
  auto coming = coming_.extract(job.spec.id);
  Coming started = coming ? std::move(coming.mapped()) : Coming();
  for (auto& [step, setting] : started.settings) {
    const auto* split = std::get_if<Shares>(&setting);
    if (split != nullptr && split->per_replica.size() != job.layout.data) continue;
    ahead_[{job.spec.id, step}].push_back(std::move(setting));
  }
  begin_step(job, event.from);
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
}

void World::begin_batch() {
  for (const JobId job : over_) jobs_.remove_job(job);
  over_.clear();
  ++calls_;
}

void World::apply(const Event& event, Nanos now) {
  const std::string why = objection(event);
  ensure(why.empty(), why);
  apply_change(event, now);
  if (!std::holds_alternative<Tick>(event)) ++state_.version;
}

/// Returns true if the GPUs of all lost ranks work, so that replacements can use the same GPUs.
bool World::has_healthy_lost_gpus(const JobInfo& job) const {
  if (lost_hosts_ == 0) return true;
  auto lost = job.lost.begin();
  std::uint32_t rank = 0;
  for (const GpuId gpu : job.gpus) {
    if (lost == job.lost.end()) break;
    if (rank++ != lost->value) continue;
    if (!is_healthy(gpu)) return false;
    ++lost;
  }
  return true;
}

}  // namespace orrery
