#include "sim/estimates/plan/plan.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "sim/estimates/collectives/collective_groups.hpp"
#include "sim/estimates/collectives/collectives.hpp"
#include "sim/estimates/plan/plan_base.hpp"
#include "sim/estimates/plan/plan_flows.hpp"

namespace orrery::estimates {
namespace {

/// Collective that the programs of a stage request from a communicator.
struct Demand {
  OpCollective collective{};
  double bytes = 0;
  friend auto operator<=>(const Demand&, const Demand&) = default;
};
using Demands = std::map<Communicator, std::set<Demand>>;

using Loads = PlanFlows::Loads;

/// Subtracts the flows of a part of `loads`; both ascend by link.
void subtract(Loads& loads, const Loads& part) {
  auto less = part.begin();
  for (LinkLoad& load : loads) {
    if (less != part.end() && less->link == load.link) load.flows -= (less++)->flows;
  }
  std::erase_if(loads, [](const LinkLoad& load) { return load.flows == 0; });
}

/// Returns true if the flows of a schedule cross a link that is slower, or changes in the step.
bool is_slower(const PlanRequest& in, const CollectiveSchedule& schedule) {
  const auto is_other = [&in](const LinkLoad& load) {
    return in.state.link_slow_of(load.link) != 1 ||
           std::find(in.pinned.begin(), in.pinned.end(), load.link) != in.pinned.end();
  };
  return std::any_of(schedule.phases.begin(), schedule.phases.end(), [&](const auto& phase) {
    return std::any_of(phase.links.begin(), phase.links.end(), is_other);
  });
}

/// Returns the links, by phase, of the communicators that are flows of their own: a slower one
/// takes less of the links that transfers between stages share with the others, which go on at
/// their rate. One communicator remains, if all are slower. `shares`: those of the phases of all.
std::vector<std::vector<Loads>> slower_parts(const PlanRequest& in, CollectiveKind kind,
                                             CollectiveAlgorithm algorithm,
                                             const std::vector<GpuGroup>& all,
                                             const std::vector<double>& shares) {
  std::vector<std::vector<Loads>> parts;
  const bool differ = !in.state.link_slow.empty() || !in.pinned.empty();
  if (!differ || in.graph.pipeline() == 1) return parts;
  for (const GpuGroup& group : all) {
    if (parts.size() + 1 == all.size()) break;
    CollectiveSchedule own = collective_schedule(in.cluster, kind, algorithm, {group});
    if (!is_slower(in, own)) continue;
    if (own.phases.size() != shares.size()) return {};
    std::vector<Loads>& links = parts.emplace_back();
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (own.phases[i].share != shares[i]) return {};
      links.push_back(std::move(own.phases[i].links));
    }
  }
  return parts;
}

class Planner {
 public:
  explicit Planner(const PlanRequest& request)
      : in_(request), base_(request.full_detail ? nullptr : request.base), flows_(request, base_) {}

  Plan make() {
    lay_out();
    flows_.bind_flows(plan_);
    return std::move(plan_);
  }

  std::vector<LinkId> crossed() {
    std::vector<LinkId> links;
    lay_out();
    flows_.for_each_flow([&links](const Loads& loads) {
      for (const LinkLoad& load : loads) links.push_back(load.link);
    });
    std::sort(links.begin(), links.end());
    links.erase(std::unique(links.begin(), links.end()), links.end());
    return links;
  }

  std::map<std::uint32_t, LinkNeed> needs() {
    std::map<std::uint32_t, LinkNeed> needs;
    lay_out();
    flows_.for_each_flow([&](const Loads& loads) {
      if (loads.empty() || !is_between_leaves(loads.back().link)) return;
      double most = std::numeric_limits<double>::infinity();
      for (const LinkLoad& load : loads) {
        most = std::min(most, link_rate(in_.cluster, in_.profile, load.link) / load.flows);
      }
      for (const LinkLoad& load : loads) {
        if (!is_between_leaves(load.link)) continue;
        LinkNeed& need = needs[load.link.value];
        need.flows += load.flows;
        need.bandwidth += load.flows * most;
      }
    });
    return needs;
  }

 private:
  void lay_out() {
    find_demands();
    Folding folding = fold_replicas(in_, traffic_shapes());
    plan_.classes = std::move(folding.classes);
    plan_.class_of = std::move(folding.class_of);
    plan_.stages = in_.graph.pipeline();
    plan_.members = in_.graph.members();
    plan_.member_hosts = in_.full_detail ? plan_.members : 1;
    const auto largest = std::max_element(
        plan_.classes.begin(), plan_.classes.end(),
        [](const auto& a, const auto& b) { return a.members.size() < b.members.size(); });
    rest_class_ = static_cast<std::uint32_t>(largest - plan_.classes.begin());
    transfers();
    plan_.groups_of.resize(plan_.workers());
    for (std::uint32_t stage = 0; stage < plan_.stages; ++stage) groups(stage);
  }
  /// Ids of links between switches are the highest.
  bool is_between_leaves(LinkId link) const {
    return in_.cluster.link(link).kind >= LinkKind::leaf_up;
  }
  GpuId gpu(RankId rank) const { return in_.placement[rank.value]; }

  void transfers();
  std::uint32_t transfer(std::uint32_t of_class, std::uint32_t from, std::uint32_t to, bool back);

  void find_demands();
  std::vector<std::uint32_t> traffic_shapes() const;
  void groups(std::uint32_t stage);
  void group(std::uint32_t stage, Communicator which, const std::set<Demand>& asked);
  void group_of_all(std::uint32_t stage, Communicator which, const std::set<Demand>& asked);
  /// Execution of a demand: bytes on the wire, and the collective and algorithm of the schedule.
  struct Choice {
    Travel travel;
    CollectiveAlgorithm algorithm{};
    OpCollective as{};
  };
  /// `fastest`: function of the kind and the bytes, for automatic algorithms.
  template <class Fastest>
  Choice choose(Communicator which, const Demand& demand, std::uint32_t nodes,
                const Fastest& fastest) const;
  /// Returns the execution of a demand of communicators that the cache knows.
  Choice choose_known(PlanBase& base, std::uint32_t stage, Communicator which,
                      const Demand& demand) const;
  /// `real`: communicators of the group; null if the cache knows them.
  void ways(GroupPlan& group, const std::vector<GpuGroup>* real, const std::set<Demand>& asked);
  std::uint32_t carry_out(OpCollective collective, CollectiveAlgorithm algorithm,
                          const std::vector<GpuGroup>& real);
  std::uint32_t carry_out_known(const GroupPlan& group, OpCollective collective,
                                CollectiveAlgorithm algorithm);

  const PlanRequest& in_;
  PlanBase* const base_;
  PlanFlows flows_;
  Plan plan_;
  std::vector<Demands> demands_;  ///< demands by stage
  /// The largest class, whose flows are remainders of the known flows.
  std::uint32_t rest_class_ = 0;
};

// ---- transfers between stages ---------------------------------------------------------------

std::uint32_t Planner::transfer(std::uint32_t of_class, std::uint32_t from, std::uint32_t to,
                                bool back) {
  const std::vector<std::uint32_t>& replicas = plan_.classes[of_class].members;
  CommPhase phase;
  const std::uint32_t of_all = base_ != nullptr ? base_->transfer(from, to, back) : 0;
  if (base_ != nullptr && of_class == rest_class_) {
    phase.latency = base_->latency(from, to, back, replicas) + in_.profile.transfer_gap;
    phase.parts.emplace_back();
    flows_.add_rest_of(of_all);
    plan_.comms.push_back({{std::move(phase)}});
    return static_cast<std::uint32_t>(plan_.comms.size() - 1);
  }
  const std::uint32_t members = in_.graph.members();
  for (std::uint32_t member = 0; member < members; ++member) {
    for (const std::uint32_t replica : replicas) {
      const GpuId a = gpu(in_.graph.rank(replica, from, member));
      const GpuId b = gpu(in_.graph.rank(replica, to, member));
      flows_.counter().add_flows(a, b);
      phase.latency = std::max(phase.latency, in_.cluster.latency(a, b));
    }
    if (!in_.full_detail && member + 1 < members) continue;
    phase.parts.emplace_back();
    flows_.add_counted(of_all);
  }
  phase.latency += in_.profile.transfer_gap;
  plan_.comms.push_back({{std::move(phase)}});
  return static_cast<std::uint32_t>(plan_.comms.size() - 1);
}

void Planner::transfers() {
  const std::uint32_t stages = plan_.stages;
  if (stages == 1) return;
  const bool around = in_.graph.chunks() > 1;
  for (std::uint32_t of_class = 0; of_class < plan_.classes.size(); ++of_class) {
    for (std::uint32_t stage = 0; stage < stages; ++stage) {
      const bool onward = around || stage + 1 < stages, back = around || stage > 0;
      const std::uint32_t next = (stage + 1) % stages, before = (stage + stages - 1) % stages;
      plan_.onward.push_back(onward ? transfer(of_class, stage, next, false)
                                    : Plan::kNoTransfer);
      plan_.back.push_back(back ? transfer(of_class, stage, before, true) : Plan::kNoTransfer);
    }
  }
}

// ---- collectives --------------------------------------------------------------------------

void Planner::find_demands() {
  const std::set<std::uint32_t> counts(in_.micro_batches.begin(), in_.micro_batches.end());
  demands_.resize(in_.graph.pipeline());
  for (std::uint32_t stage = 0; stage < in_.graph.pipeline(); ++stage) {
    for (const std::uint32_t count : counts) {
      for (const Op& op : in_.graph.program(stage, count, *counts.rbegin()).ops) {
        if (op.kind != OpKind::collective) continue;
        demands_[stage][op.communicator].insert({op.collective, op.bytes.value});
      }
    }
  }
}

/// Replicas whose transfers meet more traffic of the collectives end their passes later.
/// Communicators with one member in each NVLink domain form rings in which all ranks are alike;
/// collectives of parts of the replicas do not count.
std::vector<std::uint32_t> Planner::traffic_shapes() const {
  if (in_.full_detail || !in_.shares_links || in_.graph.pipeline() == 1) return {};
  std::optional<PlanBase> own;
  if (base_ == nullptr) own.emplace(in_.cluster, in_.graph, in_.profile, in_.placement);
  PlanBase& base = base_ == nullptr ? *own : *base_;
  std::set<std::uint32_t> flows;
  for (std::uint32_t stage = 0; stage < in_.graph.pipeline(); ++stage) {
    for (const auto& [which, asked] : demands_[stage]) {
      if (!base.of_all(which)) continue;
      const bool apart = base.domains(stage, which) == in_.graph.communicator_size(which);
      for (const Demand& demand : asked) {
        const Choice choice = choose_known(base, stage, which, demand);
        if (apart && choice.algorithm == CollectiveAlgorithm::ring) continue;
        for (const PlanBase::Phase& phase :
             base.collective(stage, which, kind_of(choice.as), choice.algorithm)) {
          flows.insert(phase.flow);
        }
      }
    }
  }
  if (flows.empty()) return {};
  return base.traffic_shapes({flows.begin(), flows.end()});
}

void Planner::groups(std::uint32_t stage) {
  for (const auto& [which, asked] : demands_[stage]) group(stage, which, asked);
}

/// Communicators of the same classes form one group; if folded, also those of classes that are
/// alike member by member.
void Planner::group(std::uint32_t stage, Communicator which, const std::set<Demand>& asked) {
  const StepGraph& graph = in_.graph;
  if (base_ != nullptr && base_->of_all(which)) return group_of_all(stage, which, asked);
  std::vector<bool> done(graph.data() * graph.members());
  // Key: classes of the members, ascending.
  std::map<std::vector<std::uint32_t>, std::vector<GpuGroup>> alike;
  for (std::uint32_t replica = 0; replica < graph.data(); ++replica) {
    for (std::uint32_t member = 0; member < graph.members(); ++member) {
      if (done[replica * graph.members() + member]) continue;
      std::vector<std::uint32_t> classes;
      GpuGroup gpus;
      for (const RankId peer : graph.communicator(which, graph.rank(replica, stage, member))) {
        const StepGraph::Position at = graph.position(peer);
        done[at.replica * graph.members() + at.member] = true;
        classes.push_back(plan_.class_of[at.replica]);
        gpus.push_back(gpu(peer));
      }
      std::sort(classes.begin(), classes.end());
      alike[std::move(classes)].push_back(std::move(gpus));
    }
  }
  for (const auto& [classes, real] : alike) {
    const auto number = static_cast<std::uint32_t>(plan_.groups.size());
    GroupPlan& made = plan_.groups.emplace_back();
    made.stage = stage;
    made.communicator = which;
    made.classes = classes;
    made.classes.erase(std::unique(made.classes.begin(), made.classes.end()), made.classes.end());
    for (const std::uint32_t of_class : made.classes) {
      plan_.groups_of[of_class * plan_.stages + stage].push_back(number);
    }
    ways(made, &real, asked);
  }
}

void Planner::group_of_all(std::uint32_t stage, Communicator which, const std::set<Demand>& asked) {
  const auto number = static_cast<std::uint32_t>(plan_.groups.size());
  GroupPlan& made = plan_.groups.emplace_back();
  made.stage = stage;
  made.communicator = which;
  for (std::uint32_t of_class = 0; of_class < plan_.classes.size(); ++of_class) {
    made.classes.push_back(of_class);
    plan_.groups_of[of_class * plan_.stages + stage].push_back(number);
  }
  ways(made, nullptr, asked);
}

template <class Fastest>
Planner::Choice Planner::choose(Communicator which, const Demand& demand, std::uint32_t nodes,
                                const Fastest& fastest) const {
  using enum CollectiveAlgorithm;
  const std::uint32_t size = in_.graph.communicator_size(which);
  const CollectiveKind kind = kind_of(demand.collective);
  Travel travel{.bytes = demand.bytes};
  if (in_.codes != nullptr && which == Communicator::gradient &&
      demand.collective == OpCollective::all_reduce) {
    travel = in_.codes->coded_all_reduce(demand.bytes, size);
  }
  CollectiveAlgorithm algorithm =
      look_up(in_.collectives, kind, travel.bytes, size, nodes, in_.algorithm);
  if (travel.in_two_steps) algorithm = direct;
  if (algorithm == automatic) algorithm = fastest(kind, Bytes{travel.bytes});
  // A ring's reduce-scatter and all-gather have the same schedule.
  const bool halved = algorithm == ring && demand.collective == OpCollective::all_gather;
  return {travel, algorithm, halved ? OpCollective::reduce_scatter : demand.collective};
}

Planner::Choice Planner::choose_known(PlanBase& base, std::uint32_t stage, Communicator which,
                                      const Demand& demand) const {
  return choose(which, demand, base.domains(stage, which), [&](CollectiveKind kind, Bytes size) {
    return base.fastest(stage, which, kind, size);
  });
}

void Planner::ways(GroupPlan& group, const std::vector<GpuGroup>* real,
                   const std::set<Demand>& asked) {
  std::map<std::pair<OpCollective, CollectiveAlgorithm>, std::uint32_t> known;
  const auto nodes = real == nullptr
                         ? 0
                         : static_cast<std::uint32_t>(by_domain(in_.cluster, real->front()).size());
  for (const Demand& demand : asked) {
    const Choice choice =
        real == nullptr
            ? choose_known(*base_, group.stage, group.communicator, demand)
            : choose(group.communicator, demand, nodes, [&](CollectiveKind kind, Bytes size) {
                return choose_algorithm(in_.cluster, in_.profile, kind, *real, size);
              });
    const auto [travel, algorithm, as] = choice;
    auto found = known.find({as, algorithm});
    if (found == known.end()) {
      const std::uint32_t made =
          real == nullptr ? carry_out_known(group, as, algorithm) : carry_out(as, algorithm, *real);
      found = known.emplace(std::pair(as, algorithm), made).first;
    }
    group.ways.push_back(
        {demand.collective, demand.bytes, found->second, travel.bytes, travel.coding, algorithm});
  }
}

std::uint32_t Planner::carry_out(OpCollective collective, CollectiveAlgorithm algorithm,
                                 const std::vector<GpuGroup>& real) {
  CommPlan plan;
  // Each communicator has its own flow in full detail. Flows are added in the order in which
  // bind_links() distributes links.
  std::vector<CollectiveSchedule> schedules;
  std::vector<std::vector<Loads>> slower;
  if (in_.full_detail) {
    for (const GpuGroup& group : real) {
      schedules.push_back(
          collective_schedule(in_.cluster, kind_of(collective), algorithm, {group}));
    }
  } else {
    schedules.push_back(collective_schedule(in_.cluster, kind_of(collective), algorithm, real));
    std::vector<double> shares;
    for (const CollectivePhase& phase : schedules[0].phases) shares.push_back(phase.share);
    slower = slower_parts(in_, kind_of(collective), algorithm, real, shares);
  }
  for (std::size_t i = 0; i < schedules.front().phases.size(); ++i) {
    CommPhase& phase = plan.phases.emplace_back();
    for (CollectiveSchedule& schedule : schedules) {
      if (i >= schedule.phases.size()) continue;
      CollectivePhase& part = schedule.phases[i];
      phase.latency = std::max(phase.latency, part.latency);
      phase.parts.push_back({{}, part.share});
      for (const std::vector<Loads>& own : slower) subtract(part.links, own[i]);
      flows_.add(std::move(part.links));
    }
    for (std::vector<Loads>& own : slower) {
      phase.parts.push_back({{}, schedules[0].phases[i].share});
      flows_.add(std::move(own[i]));
    }
  }
  plan_.comms.push_back(std::move(plan));
  return static_cast<std::uint32_t>(plan_.comms.size() - 1);
}

std::uint32_t Planner::carry_out_known(const GroupPlan& group, OpCollective collective,
                                       CollectiveAlgorithm algorithm) {
  CommPlan plan;
  const std::vector<PlanBase::Phase>& phases =
      base_->collective(group.stage, group.communicator, kind_of(collective), algorithm);
  std::vector<double> shares;
  for (const PlanBase::Phase& phase : phases) shares.push_back(phase.share);
  std::vector<std::vector<Loads>> slower =
      slower_parts(in_, kind_of(collective), algorithm,
                   base_->groups(group.stage, group.communicator), shares);
  for (std::size_t i = 0; i < phases.size(); ++i) {
    CommPhase& phase = plan.phases.emplace_back();
    phase.latency = phases[i].latency;
    phase.parts.push_back({{}, phases[i].share});
    flows_.add_rest_of(phases[i].flow);
    for (std::vector<Loads>& own : slower) {
      phase.parts.push_back({{}, phases[i].share});
      flows_.add_part(std::move(own[i]), phases[i].flow);
    }
  }
  plan_.comms.push_back(std::move(plan));
  return static_cast<std::uint32_t>(plan_.comms.size() - 1);
}

}  // namespace

std::uint32_t Plan::most_micro_batches() const {
  std::uint32_t most = 0;
  for (const ReplicaClass& each : classes) most = std::max(most, each.micro_batches);
  return most;
}

std::uint32_t Plan::transfer(std::uint32_t of_class, std::uint32_t from, std::uint32_t to) const {
  const std::uint32_t at = of_class * stages + from;
  // Both stages of a pair are each other's next and previous one, over the same links.
  const bool goes_on = to == from + 1 || (stages > 2 && from + 1 == stages && to == 0);
  return goes_on ? onward.at(at) : back.at(at);
}

const GroupPlan::Way& Plan::collective(std::uint32_t group, OpCollective kind, Bytes bytes) const {
  for (const GroupPlan::Way& way : groups[group].ways) {
    if (way.collective == kind && way.bytes == bytes.value) return way;
  }
  throw Error(ErrorKind::internal, "a plan contains every collective of its programs");
}

Plan make_plan(const PlanRequest& request) { return Planner(request).make(); }

std::vector<LinkId> crossed_links(const PlanRequest& request) { return Planner(request).crossed(); }

std::map<std::uint32_t, LinkNeed> link_needs(const PlanRequest& request) {
  return Planner(request).needs();
}

}  // namespace orrery::estimates
