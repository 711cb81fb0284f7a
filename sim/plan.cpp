#include "sim/plan.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "core/error.hpp"

namespace orrery {
namespace {

using Weights = std::map<std::uint32_t, std::uint32_t>;  // LinkId -> flows

/// What makes two replicas different: compared whole.
struct ReplicaKey {
  std::uint32_t micro_batches = 0;
  std::int64_t apart = -1;  ///< the replica itself, where it must stand alone
  std::vector<std::pair<std::uint32_t, double>> slow;                 ///< (stage, factor)
  std::vector<std::pair<std::uint32_t, double>> nics;                 ///< (rank in replica, factor)
  std::vector<std::uint8_t> boundaries;                               ///< kind of each crossing
  friend auto operator<=>(const ReplicaKey&, const ReplicaKey&) = default;
};

class Planner {
 public:
  explicit Planner(const PlanRequest& request) : in_(request) {}

  Plan make() {
    fold();
    plan_.stages = in_.graph.pipeline();
    plan_.tensor_hosts = in_.full_detail ? in_.graph.tensor() : 1;
    transfers();
    rings();
    reduce();
    return std::move(plan_);
  }

 private:
  GpuId gpu(std::uint32_t replica, std::uint32_t stage, std::uint32_t tensor) const {
    return in_.placement[in_.graph.rank(replica, stage, tensor).value];
  }
  double bandwidth(LinkId link) const {
    return link_rate(in_.cluster, in_.profile, link) / in_.state.link_slow_of(link);
  }

  void fold();
  ReplicaKey key_of(std::uint32_t replica) const;
  std::uint8_t crossing(GpuId from, GpuId to) const;

  void transfers();
  CommPlan transfer(const ReplicaClass& of_class, std::uint32_t from, std::uint32_t to);
  void rings();
  CommPlan ring(std::uint32_t stage);
  double add_ring(std::uint32_t stage, std::uint32_t tensor, Weights& weights, Seconds& latency);
  void add_edge(GpuId from, GpuId to, Weights& weights);
  std::size_t new_part(CommPlan& plan, double share);

  void reduce();
  void drop_slack_links();

  const PlanRequest& in_;
  Plan plan_;
  std::vector<Weights> weights_;  ///< by part, in the order the parts are made
  std::vector<LinkId> route_;     ///< scratch
  /// Flows with their weights that a link constrains, and the links that do just so.
  using Constraint = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  struct Candidate {
    Constraint constraint;
    LinkId link;
    double bandwidth = 0;
    bool pinned = false;
  };
  std::vector<Candidate> candidates_;
};

// ---- folding ------------------------------------------------------------------------------

std::uint8_t Planner::crossing(GpuId from, GpuId to) const {
  const NodeId a = in_.cluster.node_of(from), b = in_.cluster.node_of(to);
  if (a == b) return 0;
  const bool same_rail = in_.cluster.rail_of(from) == in_.cluster.rail_of(to);
  const bool same_unit = in_.cluster.unit_of(a) == in_.cluster.unit_of(b);
  return static_cast<std::uint8_t>(1 + (same_rail ? 0 : 1) + (same_unit ? 0 : 2));
}

ReplicaKey Planner::key_of(std::uint32_t replica) const {
  const StepGraph& graph = in_.graph;
  ReplicaKey key;
  key.micro_batches = in_.micro_batches[replica];
  if (in_.full_detail) key.apart = replica;
  for (const RankId rank : in_.apart) {
    if (rank.value / (graph.tensor() * graph.pipeline()) == replica) key.apart = replica;
  }
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    double slowest = 0;
    for (std::uint32_t t = 0; t < graph.tensor(); ++t) {
      slowest = std::max(slowest, in_.state.slow_of(graph.rank(replica, stage, t)));
      const GpuId here = gpu(replica, stage, t);
      const double nic = in_.state.link_slow_of(
          in_.cluster.nic_out(in_.cluster.node_of(here), in_.cluster.rail_of(here)));
      if (nic != 1) key.nics.emplace_back(stage * graph.tensor() + t, nic);
      if (stage + 1 < graph.pipeline()) {
        key.boundaries.push_back(crossing(here, gpu(replica, stage + 1, t)));
      }
    }
    if (slowest != 1) key.slow.emplace_back(stage, slowest);
  }
  return key;
}

void Planner::fold() {
  std::map<ReplicaKey, std::uint32_t> seen;
  for (std::uint32_t replica = 0; replica < in_.graph.data(); ++replica) {
    const auto next = static_cast<std::uint32_t>(plan_.classes.size());
    const auto [entry, fresh] = seen.emplace(key_of(replica), next);
    if (fresh) {
      plan_.classes.push_back({.members = {}, .micro_batches = in_.micro_batches[replica]});
    }
    plan_.classes[entry->second].members.push_back(replica);
    plan_.class_of.push_back(entry->second);
  }
}

// ---- communications -----------------------------------------------------------------------

std::size_t Planner::new_part(CommPlan& plan, double share) {
  plan.parts.push_back({.links = {}, .share = share});
  weights_.emplace_back();
  return weights_.size() - 1;
}

void Planner::add_edge(GpuId from, GpuId to, Weights& weights) {
  route_.clear();
  in_.cluster.route(from, to, route_);
  for (const LinkId link : route_) ++weights[link.value];
}

CommPlan Planner::transfer(const ReplicaClass& of_class, std::uint32_t from, std::uint32_t to) {
  CommPlan plan;
  for (std::uint32_t t = 0; t < in_.graph.tensor(); ++t) {
    if (t == 0 || in_.full_detail) new_part(plan, 1);
    for (const std::uint32_t replica : of_class.members) {
      const GpuId a = gpu(replica, from, t), b = gpu(replica, to, t);
      add_edge(a, b, weights_.back());
      plan.latency = std::max(plan.latency, in_.cluster.latency(a, b));
    }
  }
  return plan;
}

void Planner::transfers() {
  for (const ReplicaClass& of_class : plan_.classes) {
    for (std::uint32_t stage = 0; stage + 1 < plan_.stages; ++stage) {
      plan_.forward.push_back(transfer(of_class, stage, stage + 1));
      plan_.backward.push_back(transfer(of_class, stage + 1, stage));
    }
  }
}

double Planner::add_ring(std::uint32_t stage, std::uint32_t tensor, Weights& weights,
                         Seconds& latency) {
  std::vector<GpuId> members;
  for (std::uint32_t replica = 0; replica < in_.graph.data(); ++replica) {
    members.push_back(gpu(replica, stage, tensor));
  }
  const auto channels = ring_channels(in_.cluster, members);
  for (const std::vector<GpuId>& channel : channels) {
    Seconds around;
    for (std::size_t i = 0; i < channel.size(); ++i) {
      const GpuId next = channel[(i + 1) % channel.size()];
      add_edge(channel[i], next, weights);
      around += in_.cluster.latency(channel[i], next);
    }
    // A chunk goes once round per n - 1 rounds: what a round costs is the mean of the edges.
    latency = std::max(latency, around / static_cast<double>(channel.size()));
  }
  return 1.0 / static_cast<double>(channels.size());
}

CommPlan Planner::ring(std::uint32_t stage) {
  CommPlan plan;
  for (std::uint32_t t = 0; t < in_.graph.tensor(); ++t) {
    if (t == 0 || in_.full_detail) new_part(plan, 1);
    plan.parts.back().share = add_ring(stage, t, weights_.back(), plan.latency);
  }
  return plan;
}

void Planner::rings() {
  for (std::uint32_t stage = 0; stage < plan_.stages; ++stage) {
    plan_.rings.push_back(in_.graph.data() > 1 ? ring(stage) : CommPlan{});
  }
}

// ---- only the links that bind ---------------------------------------------------------------

void Planner::reduce() {
  std::map<std::uint32_t, Constraint> by_link;
  for (std::uint32_t part = 0; part < weights_.size(); ++part) {
    for (const auto& [link, weight] : weights_[part]) by_link[link].emplace_back(part, weight);
  }
  std::set<std::uint32_t> pinned;
  for (const LinkId link : in_.pinned) pinned.insert(link.value);
  pinned.insert(in_.state.down.begin(), in_.state.down.end());
  std::map<std::pair<Constraint, double>, std::uint32_t> merged;
  for (auto& [link, constraint] : by_link) {
    const bool keep = pinned.contains(link);
    const double rate = bandwidth({link});
    if (!keep && !merged.emplace(std::pair(constraint, rate), link).second) continue;
    candidates_.push_back({std::move(constraint), {link}, rate, keep});
  }
  drop_slack_links();

  std::vector<std::vector<std::uint32_t>> links(weights_.size());
  for (const Candidate& candidate : candidates_) {
    const auto slot = static_cast<std::uint32_t>(plan_.slots.size());
    plan_.slots.push_back({candidate.link, candidate.bandwidth});
    if (candidate.pinned) plan_.pinned[candidate.link.value] = slot;
    for (const auto& [part, weight] : candidate.constraint) {
      links[part].insert(links[part].end(), weight, slot);
    }
  }
  std::size_t part = 0;
  const auto hand_out = [&](std::vector<CommPlan>& plans) {
    for (CommPlan& plan : plans) {
      for (WideFlow& flow : plan.parts) flow.links = std::move(links[part++]);
    }
  };
  // The same order in which new_part() was called: both directions of a boundary in turn.
  for (std::size_t i = 0; i < plan_.forward.size(); ++i) {
    for (WideFlow& flow : plan_.forward[i].parts) flow.links = std::move(links[part++]);
    for (WideFlow& flow : plan_.backward[i].parts) flow.links = std::move(links[part++]);
  }
  hand_out(plan_.rings);
  ensure(part == links.size(), "every flow of a plan gets its links");
}

void Planner::drop_slack_links() {
  // Among links that constrain the same flows, one can never bind if another one has no more
  // room for any of them.
  std::map<std::vector<std::uint32_t>, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    std::vector<std::uint32_t> parts;
    for (const auto& [part, weight] : candidates_[i].constraint) parts.push_back(part);
    groups[std::move(parts)].push_back(i);
  }
  const auto at_least_as_tight = [&](const Candidate& a, const Candidate& b) {
    for (std::size_t i = 0; i < a.constraint.size(); ++i) {
      if (a.constraint[i].second * b.bandwidth < b.constraint[i].second * a.bandwidth) {
        return false;
      }
    }
    return true;
  };
  std::vector<bool> slack(candidates_.size());
  for (const auto& [parts, members] : groups) {
    for (const std::size_t i : members) {
      if (candidates_[i].pinned) continue;
      for (const std::size_t j : members) {
        if (i == j || slack[j] || candidates_[j].pinned) continue;
        if (!at_least_as_tight(candidates_[j], candidates_[i])) continue;
        slack[i] = true;
        break;
      }
    }
  }
  std::vector<Candidate> kept;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (!slack[i]) kept.push_back(std::move(candidates_[i]));
  }
  candidates_ = std::move(kept);
}

}  // namespace

const CommPlan& Plan::transfer(std::uint32_t of_class, std::uint32_t from,
                               std::uint32_t to) const {
  const std::uint32_t boundary = of_class * (stages - 1) + std::min(from, to);
  return from < to ? forward.at(boundary) : backward.at(boundary);
}

double link_rate(const Cluster& cluster, const CostProfile& profile, LinkId link) {
  const Link description = cluster.link(link);
  const bool inside =
      description.kind == LinkKind::nvlink_in || description.kind == LinkKind::nvlink_out;
  return description.bandwidth.value * (inside ? profile.nvlink : profile.network);
}

Plan make_plan(const PlanRequest& request) { return Planner(request).make(); }

std::vector<std::vector<GpuId>> ring_channels(const Cluster& cluster,
                                              const std::vector<GpuId>& members) {
  std::map<NodeId, std::vector<GpuId>> by_node;
  for (const GpuId gpu : members) by_node[cluster.node_of(gpu)].push_back(gpu);
  const std::size_t each = by_node.begin()->second.size();
  const bool even = std::all_of(by_node.begin(), by_node.end(), [&](const auto& entry) {
    return entry.second.size() == each;
  });
  if (!even || by_node.size() == 1) {
    std::vector<GpuId> ring;
    for (const auto& [node, gpus] : by_node) ring.insert(ring.end(), gpus.begin(), gpus.end());
    return {ring};
  }
  std::vector<std::vector<GpuId>> channels(each);
  for (std::size_t channel = 0; channel < each; ++channel) {
    for (const auto& [node, gpus] : by_node) {
      for (std::size_t i = 0; i < each; ++i) {
        channels[channel].push_back(gpus[(channel + i) % each]);
      }
    }
  }
  return channels;
}

}  // namespace orrery
