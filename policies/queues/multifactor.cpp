#include "policies/queues/multifactor.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <numeric>
#include <tuple>
#include <utility>

#include "policies/parameters.pb.h"
#include "policies/queues/granted_gpus.hpp"
#include "policies/seam/byte_archive.hpp"

namespace orrery {
namespace {

/// Returns the instant at which a job is expected to end. A job that outlives its estimate is
/// expected to run as long again as it has run.
Nanos expected_end(Nanos estimate, Nanos served, Nanos now) {
  return served <= estimate ? now + estimate - served : now + served;
}

/// `slices`: of a GPU; jobs and limits count slices.
QosTable qos_of(const MultifactorParameters& given, std::uint64_t slices) {
  std::vector<Qos> all;
  for (const auto& each : given.qos()) {
    Qos qos{.name = each.name(), .priority = each.priority()};
    if (each.has_gpus()) qos.gpus = each.gpus() * slices;
    if (each.has_gpus_per_user()) qos.gpus_per_user = each.gpus_per_user() * slices;
    qos.preempts.assign(each.preempts().begin(), each.preempts().end());
    all.push_back(std::move(qos));
  }
  return QosTable(std::move(all));
}

ReservationWindows reservations_of(const MultifactorParameters& given, const Cluster& cluster) {
  std::vector<ReservationWindow> all;
  for (const auto& each : given.reservations()) {
    all.push_back({.name = each.name(),
                   .begin = each.begin(),
                   .end = each.end(),
                   .nodes = {each.nodes().begin(), each.nodes().end()},
                   .gpus = each.gpus(),
                   .users = {each.users().begin(), each.users().end()},
                   .vcs = {each.vcs().begin(), each.vcs().end()}});
  }
  return ReservationWindows(std::move(all), cluster.nodes(),
                            cluster.shape().gpus_per_node / cluster.shape().slices_per_gpu);
}

/// Returns the number of GPUs outside of the nodes `closed`, which are ascending.
std::uint64_t gpus_outside(const GpuRuns& gpus, const std::vector<std::uint32_t>& closed,
                           std::uint32_t gpus_per_node) {
  return static_cast<std::uint64_t>(std::count_if(gpus.begin(), gpus.end(), [&](GpuId gpu) {
    return !std::binary_search(closed.begin(), closed.end(), gpu.value / gpus_per_node);
  }));
}

/// Returns the nodes of `nodes` without those of `others`; both are ascending.
std::vector<std::uint32_t> without(const std::vector<std::uint32_t>& nodes,
                                   const std::vector<std::uint32_t>& others) {
  std::vector<std::uint32_t> left;
  std::set_difference(nodes.begin(), nodes.end(), others.begin(), others.end(),
                      std::back_inserter(left));
  return left;
}

/// Returns the nodes of all kinds but one, for each kind of a cluster with several.
std::vector<std::vector<std::uint32_t>> nodes_of_others(const Cluster& cluster) {
  std::vector<std::vector<std::uint32_t>> all;
  if (cluster.gpu_kinds().size() < 2) return all;
  for (const std::string& kind : cluster.gpu_kinds()) {
    std::vector<std::uint32_t>& others = all.emplace_back();
    for (std::uint32_t node = 0; node < cluster.nodes(); ++node) {
      if (cluster.gpu_kind(NodeId{node}) != kind) others.push_back(node);
    }
  }
  return all;
}

/// Returns the kinds of GPUs that a job may use, in its order; one nothing on a cluster with one.
std::vector<std::optional<std::size_t>> kinds_for(const JobSpec& spec, const FreeKinds& kinds) {
  if (kinds.empty()) return {std::optional<std::size_t>{}};
  const std::vector<std::size_t> order = kinds.order_for(spec);
  return {order.begin(), order.end()};
}

}  // namespace

struct MultifactorPolicy::Pass {
  const Observation& seen;
  DecisionList& decisions;
  QosUse use;
  Jobs selected;                         ///< jobs that run after the pass, as far as it is known
  std::uint64_t left = 0;                ///< free GPUs without those of selected jobs
  Track* blocked = nullptr;              ///< first job that does not fit
  std::optional<HeadStart> head = {};    ///< start that `blocked` expects
  std::map<JobId, GpuRuns> placed = {};  ///< GPUs of the jobs that this pass has started
  /// Sizes that could not be placed at any node: less and less is free.
  std::set<std::uint32_t> too_scattered = {};
};

void MultifactorPolicy::start(Context& context, const Cluster& cluster,
                              const google::protobuf::Message* parameters) {
  TrackedQueue::start(context, cluster, parameters);
  const auto& given = dynamic_cast<const MultifactorParameters&>(*parameters);
  for (const auto& share : given.shares()) shares_[share.vc()] = share.shares();
  half_life_s_ = to_seconds(given.half_life());
  max_age_s_ = to_seconds(given.max_age());
  fair_share_weight_ = given.fair_share_weight();
  age_weight_ = given.age_weight();
  size_weight_ = given.size_weight();
  qos_weight_ = given.qos_weight();
  qos_ = qos_of(given, cluster.shape().slices_per_gpu);
  reservations_ = reservations_of(given, cluster);
  all_gpus_ = cluster.gpus();
  node_size_ = cluster.shape().gpus_per_node;
  other_kinds_ = nodes_of_others(cluster);
}

Needs MultifactorPolicy::needs() const {
  Needs needs = QueuePolicy::needs();
  needs.gpu_kinds = true;
  return needs;
}

std::vector<std::uint32_t> MultifactorPolicy::closed_nodes(const JobSpec& spec, Nanos at,
                                                           Kind kind) const {
  const std::vector<std::uint32_t> reserved = reservations_.closed_nodes(spec, at);
  if (!kind) return reserved;
  std::vector<std::uint32_t> closed;
  std::set_union(reserved.begin(), reserved.end(), other_kinds_[*kind].begin(),
                 other_kinds_[*kind].end(), std::back_inserter(closed));
  return closed;
}

bool MultifactorPolicy::is_due(Nanos now) {
  now_ = now;
  return now >= next_edge_;
}

double MultifactorPolicy::counted(double seconds, std::uint32_t gpus) const {
  const double life = half_life_s_ / std::numbers::ln2;
  return gpus * life * (1 - std::exp2(-seconds / half_life_s_));
}

/// A job counts as one run up to its end, also if it was preempted meanwhile.
void MultifactorPolicy::on_job_end(const JobInfo& job) {
  const std::uint32_t gpus = std::max(1u, job.spec.gpus);
  Usage& used = used_[job.spec.pool];
  used.gpu_s *= std::exp2(-to_seconds(now_ - used.at) / half_life_s_);
  used.gpu_s += counted(job.gpu_seconds / gpus, gpus);
  used.at = now_;
}

std::vector<double> MultifactorPolicy::fair_shares(Nanos now) const {
  std::vector<double> used(pools().size()), shares(pools().size());
  double all_used = 0, all_shares = 0;
  for (const auto& [name, number] : pools()) {
    const auto given = shares_.find(name);
    all_shares += shares[number] = given == shares_.end() ? 1 : given->second;
    const auto known = used_.find(name);
    if (known == used_.end()) continue;
    used[number] =
        known->second.gpu_s * std::exp2(-to_seconds(now - known->second.at) / half_life_s_);
  }
  for (const Track* const job : running()) {
    used[job->pool] += counted(to_seconds(job->service_at(now)), job->gpus);
  }
  for (const double each : used) all_used += each;
  std::vector<double> factors(used.size(), 1);
  for (std::size_t i = 0; i < used.size() && all_used > 0; ++i) {
    factors[i] = shares[i] > 0 ? std::exp2(-(used[i] / all_used) / (shares[i] / all_shares)) : 0;
  }
  return factors;
}

std::uint64_t MultifactorPolicy::free_in(const std::vector<std::uint32_t>& nodes) const {
  std::uint64_t sum = 0;
  for (const std::uint32_t node : nodes) sum += free_gpus().total_in_node(node);
  return sum;
}

MultifactorPolicy::HeadStart MultifactorPolicy::head_start(const Pass& pass,
                                                           const Track& job) const {
  HeadStart first;
  for (const Kind kind : kinds_for(pass.seen.jobs[job.id].spec, free_kinds())) {
    HeadStart here = head_start_on(pass, job, kind);
    if (here.shadow < first.shadow) first = std::move(here);
  }
  return first;
}

MultifactorPolicy::HeadStart MultifactorPolicy::head_start_on(const Pass& pass, const Track& job,
                                                              Kind kind) const {
  const Nanos now = pass.seen.now;
  std::vector<std::tuple<Nanos, std::uint32_t, std::size_t>> ends;  // last: index in `selected`
  for (std::size_t i = 0; i < pass.selected.size(); ++i) {
    const Track& each = *pass.selected[i];
    ends.emplace_back(expected_end(each.estimate, each.service_at(now), now), each.gpus, i);
  }
  for (const Nanos end : reservations_.ends_after(now)) ends.emplace_back(end, 0, 0);
  std::sort(ends.begin(), ends.end());
  const JobSpec& spec = pass.seen.jobs[job.id].spec;
  std::uint64_t all = pass.left;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    all += std::get<1>(ends[i]);
    if (all < job.gpus) continue;
    const Nanos at = std::get<0>(ends[i]);
    HeadStart start{at, 0, closed_nodes(spec, at, kind), kind};
    const std::uint64_t shut = free_in(start.closed);
    std::uint64_t open = pass.left - std::min(pass.left, shut);
    for (std::size_t before = 0; before <= i; ++before) {
      if (std::get<1>(ends[before]) == 0) continue;  // the end of a reservation
      const Track& each = *pass.selected[std::get<2>(ends[before])];
      const auto placed = pass.placed.find(each.id);
      const GpuRuns& gpus =
          placed == pass.placed.end() ? granted_gpus(pass.seen.jobs[each.id]) : placed->second;
      const bool everywhere = start.closed.empty() || gpus.empty();
      open += everywhere ? each.gpus : gpus_outside(gpus, start.closed, node_size_);
    }
    if (open < job.gpus) continue;
    start.extra = open - job.gpus;
    return start;
  }
  return {};
}

std::vector<TrackedQueue::Ranked> MultifactorPolicy::by_priority(const Observation& seen) const {
  const std::vector<double> factors = fair_shares(seen.now);
  std::vector<Ranked> order;
  for (Track* const job : waiting()) {
    const double age = std::min(1.0, to_seconds(seen.now - job->submit) / max_age_s_);
    const double priority = std::round(fair_share_weight_ * factors[job->pool]) +
                            std::round(age_weight_ * age) +
                            std::round(size_weight_ * job->gpus / all_gpus_) +
                            std::round(qos_weight_ * qos_.factor(seen.jobs[job->id].spec.qos));
    order.push_back({priority, job});
  }
  std::sort(order.begin(), order.end(), [](const Ranked& a, const Ranked& b) {
    return std::tuple(-a.key, a.job->submit, a.job->id) <
           std::tuple(-b.key, b.job->submit, b.job->id);
  });
  return order;
}

void MultifactorPolicy::dispatch_jobs(const Observation& seen, DecisionList& decisions) {
  next_edge_ = reservations_.next_edge(seen.now);
  if (waiting().empty()) return;
  if (next_edge_ < kNever) decisions.wake(next_edge_);
  if (free_gpus().total() == 0 && !qos_.has_preemption()) return;
  Pass pass{.seen = seen,
            .decisions = decisions,
            .use = QosUse(qos_),
            .selected = running(),
            .left = free_gpus().total()};
  for (const Track* const job : pass.selected) {
    const JobSpec& spec = seen.jobs[job->id].spec;
    pass.use.add(spec.qos, spec.user, job->gpus);
  }
  for (const Ranked& each : by_priority(seen)) try_job(pass, *each.job);
}

void MultifactorPolicy::try_job(Pass& pass, Track& job) {
  if (pass.left == 0 && !qos_.has_preemption()) return;
  const JobSpec& spec = pass.seen.jobs[job.id].spec;
  if (!pass.use.fits(spec.qos, spec.user, job.gpus)) return;
  const Kind* scattered = nullptr;
  const std::vector<Kind> kinds = kinds_for(spec, free_kinds());
  for (const Kind& kind : kinds) {
    const std::vector<std::uint32_t> closed = closed_nodes(spec, pass.seen.now, kind);
    const std::uint64_t shut = free_in(closed);
    if (job.gpus > pass.left - std::min(pass.left, shut)) continue;
    if (start_on(pass, job, kind, closed)) return;
    if (scattered == nullptr) scattered = &kind;
  }
  if (scattered == nullptr) return make_room_or_block(pass, job);
  // Only on several kinds a job is left over for which enough GPUs are free: in places that do not
  // fit, which it keeps if it is first.
  if (!*scattered || pass.blocked != nullptr) return;
  pass.blocked = &job;
  const auto closed = closed_nodes(spec, pass.seen.now, *scattered);
  pass.head = HeadStart{pass.seen.now, pass.left - free_in(closed) - job.gpus, closed, *scattered};
}

void MultifactorPolicy::make_room_or_block(Pass& pass, Track& job) {
  const JobSpec& spec = pass.seen.jobs[job.id].spec;
  bool started = false;
  for (const Kind kind : kinds_for(spec, free_kinds())) {
    if (started || !qos_.has_preemption()) break;
    started = make_room(pass, job, closed_nodes(spec, pass.seen.now, kind));
  }
  if (!started && pass.blocked == nullptr) pass.blocked = &job;
  if (pass.blocked != nullptr && (started || !pass.head)) {
    pass.head = head_start(pass, *pass.blocked);
  }
}

bool MultifactorPolicy::start_on(Pass& pass, Track& job, Kind kind,
                                 const std::vector<std::uint32_t>& closed) {
  const JobSpec& spec = pass.seen.jobs[job.id].spec;
  const auto own = without(reservations_.own_nodes(spec, pass.seen.now), closed);
  // On its own reservations alone, or on another kind, the job delays no first job that cannot use
  // them.
  const bool is_other_kind = pass.head && pass.head->kind != kind;
  const bool is_on_own =
      pass.head && !own.empty() && job.gpus <= free_in(own) &&
      std::includes(pass.head->closed.begin(), pass.head->closed.end(), own.begin(), own.end());
  const bool is_short = !pass.head || job.estimate <= pass.head->shadow - pass.seen.now;
  const bool only_own = !is_short && !is_other_kind && is_on_own;
  const bool needs_extra = !is_short && !is_other_kind && !is_on_own;
  if (needs_extra && job.gpus > pass.head->extra) return !kind;
  std::optional<GpuRuns> gpus = find_gpus(pass, spec, closed, own, only_own);
  if (!gpus && (kind || only_own)) return !kind;
  if (needs_extra) pass.head->extra -= job.gpus;
  pass.left -= job.gpus;
  pass.selected.push_back(&job);
  if (!gpus) return true;
  pass.use.add(spec.qos, spec.user, job.gpus);
  pass.placed[job.id] = *gpus;
  start_job(pass.seen, job, std::move(*gpus), "highest priority, or fits behind it",
            pass.decisions);
  return true;
}

std::optional<GpuRuns> MultifactorPolicy::find_gpus(Pass& pass, const JobSpec& spec,
                                                    const std::vector<std::uint32_t>& closed,
                                                    const std::vector<std::uint32_t>& own,
                                                    bool only_own) {
  if (!own.empty() && spec.gpus <= free_in(own)) {
    std::vector<std::uint32_t> all(free_gpus().nodes());
    std::iota(all.begin(), all.end(), 0u);
    if (std::optional<GpuRuns> gpus = place_outside(spec, without(all, own))) return gpus;
  }
  if (only_own || pass.too_scattered.contains(spec.gpus)) return {};
  std::optional<GpuRuns> gpus = place_outside(spec, closed);
  if (!gpus && closed.empty()) pass.too_scattered.insert(spec.gpus);
  return gpus;
}

bool MultifactorPolicy::make_room(Pass& pass, Track& job,
                                  const std::vector<std::uint32_t>& closed) {
  const JobSpec& spec = pass.seen.jobs[job.id].spec;
  std::vector<Track*> candidates;
  for (Track* const each : running()) {
    const JobInfo& info = pass.seen.jobs[each->id];
    if (info.phase != JobPhase::running || !qos_.can_preempt(spec.qos, info.spec.qos)) continue;
    const bool helps = gpus_outside(info.gpus, closed, node_size_) > 0;
    if (helps) candidates.push_back(each);
  }
  std::sort(candidates.begin(), candidates.end(), [&](const Track* a, const Track* b) {
    const double low = qos_.factor(pass.seen.jobs[a->id].spec.qos);
    const double high = qos_.factor(pass.seen.jobs[b->id].spec.qos);
    return std::tuple(low, b->since, b->id) < std::tuple(high, a->since, a->id);
  });
  const FreeGpus before = free_gpus();
  std::size_t leaving = 0;
  std::optional<GpuRuns> gpus;
  for (; !gpus && leaving < candidates.size(); ++leaving) {
    free_gpus().return_gpus(pass.seen.jobs[candidates[leaving]->id].gpus);
    if (job.gpus <= free_gpus().total() - free_in(closed)) gpus = place_outside(spec, closed);
  }
  free_gpus() = before;
  if (!gpus) return false;
  candidates.resize(leaving);
  for (Track* const each : candidates) {
    const JobSpec& other = pass.seen.jobs[each->id].spec;
    pass.use.remove_gpus(other.qos, other.user, each->gpus);
    std::erase(pass.selected, each);
    preempt_job(pass.seen, *each, pass.decisions);
  }
  gpus = place_outside(spec, closed);
  const std::uint64_t after = pass.left + free_gpus().total();
  pass.left = after - std::min<std::uint64_t>(after, before.total());
  pass.too_scattered.clear();
  pass.use.add(spec.qos, spec.user, job.gpus);
  pass.selected.push_back(&job);
  pass.placed[job.id] = *gpus;
  start_job(pass.seen, job, std::move(*gpus), "its QOS preempts others", pass.decisions);
  return true;
}

void MultifactorPolicy::save(Archive& archive) const {
  ByteWriter write(archive);
  write(static_cast<std::uint64_t>(used_.size()));
  for (const auto& [name, used] : used_) {
    write(name);
    write(used.gpu_s, used.at);
  }
  TrackedQueue::save(archive);
}

void MultifactorPolicy::load(const Archive& archive) {
  ByteReader read(archive);
  std::uint64_t count = 0;
  read(count);
  for (used_.clear(); count > 0; --count) {
    std::string name;
    read(name);
    Usage& used = used_[name];
    read(used.gpu_s, used.at);
  }
  TrackedQueue::load(archive);
}

}  // namespace orrery
