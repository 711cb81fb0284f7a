#include "live/kubernetes/gang_follower.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace orrery::live {
namespace {

constexpr std::uint32_t kMostRefusals = 3;

/// Returns the layout by which the placement per-node places a gang: nodes of one rack are context
/// ranks, other nodes are pipeline ranks (see PerNodePlacer).
ParallelLayout layout_of(const KubeGang& gang) {
  ParallelLayout layout{.tensor = gang.gpus_per_node()};
  (gang.needs_rack ? layout.context : layout.pipeline) = gang.requested_nodes();
  return layout;
}

}  // namespace

// ---- one reading ----------------------------------------------------------------------------

void GangFollower::follow_gangs(std::vector<KubeGang> gangs, std::int64_t now_s) {
  now_s_ = now_s;
  std::sort(gangs.begin(), gangs.end(), [](const KubeGang& a, const KubeGang& b) {
    return std::tie(a.submitted_s, a.id) < std::tie(b.submitted_s, b.id);
  });
  end_missing(gangs);
  // Stops and ends before starts, so that the GPUs of a start are free.
  for (const bool occupies : {false, true}) {
    for (const KubeGang& gang : gangs) {
      const bool is_start = gang.state == GangState::placed || gang.state == GangState::placing;
      if (is_start == occupies) follow_gang(gang.id, gangs_[gang.id], gang);
    }
  }
}

/// Ends the gangs that are missing in a reading, or whose name belongs to another gang now.
void GangFollower::end_missing(const std::vector<KubeGang>& gangs) {
  std::map<std::string, std::string> uids;
  for (const KubeGang& gang : gangs) uids[gang.id] = gang.uid;
  for (auto known = gangs_.begin(); known != gangs_.end();) {
    const auto present = uids.find(known->first);
    const bool is_present = present != uids.end() && present->second == known->second.uid;
    if (is_present || (present == uids.end() && is_requeued(known->second))) {
      ++known;
      continue;
    }
    leave_world(known->second, Ending::cancelled);
    known = gangs_.erase(known);
  }
}

/// Returns true if the gang was stopped by an order and its owner may still be creating its pods.
bool GangFollower::is_requeued(const Tracked& known) const {
  return known.stage == Stage::leaving && now_s_ - known.since_s <= patience_s_;
}

void GangFollower::follow_gang(const std::string& id, Tracked& known, const KubeGang& gang) {
  known.uid = gang.uid;
  if (known.is_managed && !gang.is_managed && known.stage == Stage::waiting) {
    leave_world(known, Ending::cancelled);
  }
  known.is_managed = gang.is_managed;
  known.pods_per_node = gang.pods_per_node;
  known.needs_rack = gang.needs_rack;
  switch (gang.state) {
    case GangState::completed: return leave_world(known, Ending::completed);
    case GangState::failed: return leave_world(known, Ending::failed);
    case GangState::incomplete:
    case GangState::waiting: return show_waiting(known, gang);
    case GangState::placing:
      if (known.stage == Stage::ordered && now_s_ - known.since_s > patience_s_) {
        report_once(known, fmt::format("gang {}: placed {} s ago, and not all of its pods are "
                                       "bound to their nodes; see `kubectl describe pod`",
                                       id, now_s_ - known.since_s));
      }
      if (known.stage == Stage::ordered || known.stage == Stage::placed) return;
      return show_placed(known, gang);
    case GangState::placed: return show_placed(known, gang);
    case GangState::leaving:
      if (known.stage == Stage::ordered || known.stage == Stage::placed) {
        stop_gang(known);
        known.stage = Stage::leaving;
        known.since_s = now_s_;
      }
      return;
  }
}

/// Shows a gang without GPUs: the policies may place the gang if all of its pods are there.
void GangFollower::show_waiting(Tracked& known, const KubeGang& gang) {
  if (known.stage == Stage::placed || known.stage == Stage::ordered) stop_gang(known);
  if (gang.state == GangState::incomplete && is_requeued(known)) return;
  if (known.stage == Stage::leaving) known.stage = Stage::waiting;
  const bool is_ready = gang.is_managed && gang.state == GangState::waiting;
  if (!is_ready || now_s_ < known.not_before_s) return leave_world(known, Ending::cancelled);
  if (known.stage == Stage::waiting) return;
  const std::string why = misfit(gang);
  if (why.empty()) return submit_gang(known, gang);
  report_once(known, why);
}

/// Shows that the pods of a gang occupy GPUs.
void GangFollower::show_placed(Tracked& known, const KubeGang& gang) {
  if (known.stage == Stage::leaving) {
    if (now_s_ - known.since_s <= patience_s_) return;
    outlet_.report(
        fmt::format("gang {} still runs {} s after its eviction", gang.id, now_s_ - known.since_s));
    known.stage = Stage::waiting;
  }
  if (known.stage == Stage::placed) {
    if (known.nodes == gang.nodes) return;
    stop_gang(known);
  }
  const bool is_new = known.stage == Stage::unseen;
  if (is_new) submit_gang(known, gang);
  std::optional<GpuRuns> gpus = find_gpus(known, gang);
  if (!gpus || gpus->empty()) {
    report_once(known, fmt::format("gang {}: expected free GPUs on its nodes, found fewer; the "
                                   "gang is not shown to the policy",
                                   gang.id));
    return leave_world(known, Ending::cancelled);
  }
  known.stage = Stage::placed;
  known.nodes = gang.nodes;
  known.refusals = 0;
  known.is_reported = false;
  const JobInfo& info = world_.jobs()[known.job];
  outlet_.emit_event(JobStarted{.job = known.job,
                                .epoch = {info.epoch.value + 1},
                                .from = 0,
                                .where = {std::move(*gpus), info.spec.layout}});
}

void GangFollower::submit_gang(Tracked& known, const KubeGang& gang) {
  JobSpec spec;
  spec.id = known.job = {world_.jobs().submitted()};
  spec.name = gang.id;
  spec.title = gang.name;
  spec.user = gang.queue;
  spec.pool = gang.queue;
  spec.submit = gang.submitted_s * kNanosPerSecond;
  spec.estimate = gang.limit_s * kNanosPerSecond;
  spec.gpus = gang.gpus_per_pod * gang.pods;
  spec.layout = gang.is_managed ? layout_of(gang) : ParallelLayout{.tensor = spec.gpus};
  ids_[known.job] = gang.id;
  known.stage = Stage::waiting;
  outlet_.emit_event(JobSubmitted{std::move(spec)});
}

void GangFollower::stop_gang(Tracked& known) {
  outlet_.emit_event(JobStopped{known.job, 0});
  known.stage = Stage::waiting;
}

void GangFollower::leave_world(Tracked& known, Ending how) {
  if (known.stage == Stage::unseen) return;
  outlet_.emit_event(JobDone{known.job, how});
  ids_.erase(known.job);
  known.stage = Stage::unseen;
}

void GangFollower::report_once(Tracked& known, std::string text) {
  if (!std::exchange(known.is_reported, true)) outlet_.report(std::move(text));
}

/// Returns the reason why no state of the cluster has room for the gang; empty if one has.
std::string GangFollower::misfit(const KubeGang& gang) const {
  if (gang.gpus_per_node() > nodes_.gpus_per_node() ||
      gang.requested_nodes() > nodes_.known_nodes() || gang.pods % gang.pods_per_node != 0) {
    return fmt::format(
        "gang {} requests {} GPUs on each of {} nodes, and the cluster has {} nodes of at most {} "
        "GPUs",
        gang.id, gang.gpus_per_node(), gang.requested_nodes(), nodes_.known_nodes(),
        nodes_.gpus_per_node());
  }
  if (!gang.needs_rack || gang.requested_nodes() == 1) return {};
  if (!nodes_.has_racks()) {
    return fmt::format(
        "gang {} must be in one rack, and no label of the nodes names racks; name one with "
        "--rack-label",
        gang.id);
  }
  if (gang.requested_nodes() <= nodes_.largest_rack()) return {};
  return fmt::format("gang {} requests {} nodes of one rack, and the largest rack has {} nodes",
                     gang.id, gang.requested_nodes(), nodes_.largest_rack());
}

/// Returns the GPUs of the gang's order if the gang is on the nodes of the order, otherwise free
/// GPUs of its nodes; nothing if these have too few.
std::optional<GpuRuns> GangFollower::find_gpus(const Tracked& known, const KubeGang& gang) const {
  const std::set<std::string> names(gang.nodes.begin(), gang.nodes.end());
  const bool is_ordered = known.stage == Stage::ordered;
  if (is_ordered &&
      nodes_.names_of(known.assign.gpus) == std::vector<std::string>(names.begin(), names.end())) {
    return known.assign.gpus;
  }
  GpuRuns gpus;
  for (const std::string& name : names) {
    const std::optional<NodeId> node = nodes_.find(name);
    if (!node) continue;
    const auto pods =
        static_cast<std::uint32_t>(std::count(gang.nodes.begin(), gang.nodes.end(), name));
    const auto found =
        unowned_gpus(world_.state(), {*node}, pods * gang.gpus_per_pod, nodes_.gpus_per_node());
    if (!found) return {};
    for (const GpuId gpu : *found) gpus.push_back(gpu);
  }
  if (gpus.size() != world_.jobs()[known.job].spec.gpus) return {};
  return gpus;
}

// ---- decisions ------------------------------------------------------------------------------

std::size_t GangFollower::open_orders() const {
  return static_cast<std::size_t>(
      std::count_if(gangs_.begin(), gangs_.end(),
                    [](const auto& entry) { return entry.second.stage == Stage::ordered; }));
}

std::string GangFollower::id_of(JobId job) const {
  const auto id = ids_.find(job);
  return id == ids_.end() ? "" : id->second;
}

std::string GangFollower::objection(const Assign& assign) const {
  const auto id = ids_.find(assign.job);
  if (id == ids_.end()) return "the gang has left the queue";
  const Tracked& known = gangs_.at(id->second);
  if (!known.is_managed) {
    return fmt::format(
        "{} is observed only: it is of another namespace, or does not ask for a "
        "placement",
        id->second);
  }
  if (known.stage == Stage::leaving)
    return fmt::format("gang {} still leaves its nodes", id->second);
  if (assign.is_release()) {
    if (known.stage == Stage::placed) return {};
    return fmt::format("gang {} is not placed completely", id->second);
  }
  if (known.stage != Stage::waiting) return "a gang stays where it was placed until it leaves";
  const ParallelLayout& request = world_.jobs()[assign.job].spec.layout;
  const std::uint32_t nodes = request.context * request.pipeline;
  if (!nodes_.has_shape(assign.gpus, nodes, request.tensor)) {
    return fmt::format("gang {} requests {} GPUs on each of {} nodes; use the placement 'per-node'",
                       id->second, request.tensor, nodes);
  }
  if (!known.needs_rack || nodes_.is_within_rack(assign.gpus)) return {};
  return fmt::format("gang {} must be in one rack; use the placement 'per-node'", id->second);
}

GangOrder GangFollower::order(const Assign& assign, std::int64_t now_s) {
  const std::string& id = ids_.at(assign.job);
  Tracked& known = gangs_.at(id);
  known.since_s = now_s;
  if (assign.is_release()) {
    stop_gang(known);
    known.stage = Stage::leaving;
    return {id};
  }
  known.stage = Stage::ordered;
  known.assign = assign;
  GangOrder order{id};
  for (const std::string& node : nodes_.names_of(assign.gpus)) {
    order.nodes.insert(order.nodes.end(), known.pods_per_node, node);
  }
  return order;
}

void GangFollower::record_refusal(const GangOrder& refused, const std::string& why) {
  Tracked& known = gangs_.at(refused.gang);
  outlet_.report(fmt::format("gang {}: {}", refused.gang, why));
  if (known.stage == Stage::ordered) stop_gang(known);
  known.stage = Stage::waiting;
  if (++known.refusals < kMostRefusals) return;
  known.refusals = 0;
  known.not_before_s = now_s_ + patience_s_;
}

}  // namespace orrery::live
