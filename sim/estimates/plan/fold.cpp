#include "sim/estimates/plan/fold.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "sim/estimates/plan/plan_base.hpp"

namespace orrery::estimates {
namespace {

/// Properties by which replicas differ on their own, before their partners are compared.
struct ReplicaKey {
  std::uint32_t micro_batches = 0;
  std::int64_t apart = -1;  ///< the replica itself if it must be a class of its own, else -1
  std::vector<std::pair<std::uint32_t, double>> slow;  ///< (stage, factor)
  std::vector<std::pair<std::uint32_t, double>> nics;  ///< (rank in replica, factor)
  /// Largest factors of links between stages, by pair of stages, direction and kind of link.
  std::map<std::tuple<std::uint32_t, bool, LinkKind>, double> paths = {};
  std::set<std::uint32_t> pinned = {};  ///< links between its stages that change during the step
  std::uint32_t shape = 0;                             ///< shape of its paths between stages
  std::uint32_t traffic = 0;                           ///< traffic on these paths
  friend auto operator<=>(const ReplicaKey&, const ReplicaKey&) = default;
};

/// Members of each communicator: replicas, one entry per rank.
using Groups = std::vector<std::vector<std::uint32_t>>;

class Folder {
 public:
  explicit Folder(const PlanRequest& request) : in_(request), graph_(request.graph) {
    for (const RankId rank : in_.apart) apart_.insert(graph_.position(rank).replica);
    for (const LinkId link : in_.pinned) pinned_.insert(link.value);
    if (in_.base == nullptr) own_shapes_ = replica_shapes(in_.cluster, graph_, in_.placement);
    find_slow();
  }

  Folding make(const std::vector<std::uint32_t>& traffic) {
    const std::vector<std::uint32_t>& shapes = in_.base ? in_.base->shapes() : own_shapes_;
    std::map<ReplicaKey, std::uint32_t> seen;
    ReplicaKey last;
    for (std::uint32_t replica = 0; replica < graph_.data(); ++replica) {
      ReplicaKey key = key_of(replica);
      key.shape = shapes[replica];
      if (!traffic.empty()) key.traffic = traffic[replica];
      if (replica > 0 && key == last) {
        class_of_.push_back(class_of_.back());
        continue;
      }
      const auto next = static_cast<std::uint32_t>(seen.size());
      class_of_.push_back(seen.emplace(key, next).first->second);
      last = std::move(key);
    }
    classes_ = static_cast<std::uint32_t>(seen.size());
    refine();
    Folding out;
    out.classes.resize(classes_);
    for (std::uint32_t replica = 0; replica < graph_.data(); ++replica) {
      ReplicaClass& of_class = out.classes[class_of_[replica]];
      of_class.members.push_back(replica);
      of_class.micro_batches = in_.micro_batches[replica];
    }
    out.class_of = std::move(class_of_);
    return out;
  }

 private:
  GpuId gpu(std::uint32_t replica, std::uint32_t stage, std::uint32_t member) const {
    return in_.placement[graph_.rank(replica, stage, member).value];
  }
  ReplicaKey key_of(std::uint32_t replica) const;
  void add_paths(std::uint32_t replica, ReplicaKey& key) const;
  void find_slow();
  void refine();
  Groups groups(Communicator which) const;

  const PlanRequest& in_;
  const StepGraph& graph_;
  std::set<std::uint32_t> apart_, pinned_;
  std::vector<std::uint32_t> own_shapes_;
  std::map<std::uint32_t, std::map<std::uint32_t, double>> slow_;  ///< replica, stage -> factor
  std::vector<std::uint32_t> class_of_;
  std::uint32_t classes_ = 0;
};

/// The slowest member sets the pace of a stage.
void Folder::find_slow() {
  for (const auto& [rank, factor] : in_.state.slow) {
    const StepGraph::Position at = graph_.position({rank});
    const auto [entry, fresh] = slow_[at.replica].try_emplace(at.stage);
    if (!fresh) continue;
    for (std::uint32_t member = 0; member < graph_.members(); ++member) {
      entry->second = std::max(
          entry->second, in_.state.slow_of(graph_.rank(at.replica, at.stage, member)));
    }
  }
}

ReplicaKey Folder::key_of(std::uint32_t replica) const {
  ReplicaKey key;
  key.micro_batches = in_.micro_batches[replica];
  if (in_.full_detail || apart_.contains(replica)) key.apart = replica;
  const auto slow = slow_.find(replica);
  if (slow != slow_.end()) {
    for (const auto& [stage, factor] : slow->second) {
      if (factor != 1) key.slow.emplace_back(stage, factor);
    }
  }
  add_paths(replica, key);
  if (in_.state.link_slow.empty()) return key;
  for (std::uint32_t stage = 0; stage < graph_.pipeline(); ++stage) {
    for (std::uint32_t member = 0; member < graph_.members(); ++member) {
      const GpuId here = gpu(replica, stage, member);
      const double nic = in_.state.link_slow_of(
          in_.cluster.nic_out(in_.cluster.node_of(here), in_.cluster.rail_of(here)));
      if (nic != 1) key.nics.emplace_back(stage * graph_.members() + member, nic);
    }
  }
  return key;
}

/// A transfer of all members of a stage ends with the slowest one.
void Folder::add_paths(std::uint32_t replica, ReplicaKey& key) const {
  if (in_.state.link_slow.empty() && pinned_.empty()) return;
  std::vector<LinkId> path;
  for (std::uint32_t stage = 0; stage < stage_borders(graph_); ++stage) {
    const std::uint32_t next = (stage + 1) % graph_.pipeline();
    for (std::uint32_t member = 0; member < graph_.members(); ++member) {
      const GpuId a = gpu(replica, stage, member), b = gpu(replica, next, member);
      for (const bool back : {false, true}) {
        path.clear();
        in_.cluster.route(back ? b : a, back ? a : b, path);
        for (const LinkId link : path) {
          if (pinned_.contains(link.value)) key.pinned.insert(link.value);
          const double slow = in_.state.link_slow_of(link);
          if (slow == 1) continue;
          double& most = key.paths[{stage, back, in_.cluster.link(link).kind}];
          most = std::max(most, slow);
        }
      }
    }
  }
}

/// Communicators of the first stage suffice: those of other stages have the same replicas. One
/// tensor rank per place suffices too: its partners belong to the same replicas.
Groups Folder::groups(Communicator which) const {
  Groups out;
  std::set<std::uint32_t> done;
  for (std::uint32_t replica = 0; replica < graph_.data(); ++replica) {
    for (std::uint32_t member = 0; member < graph_.members(); member += graph_.tensor()) {
      const RankId rank = graph_.rank(replica, 0, member);
      if (done.contains(rank.value)) continue;
      out.emplace_back();
      for (const RankId peer : graph_.communicator(which, rank)) {
        done.insert(peer.value);
        out.back().push_back(graph_.position(peer).replica);
      }
    }
  }
  return out;
}

/// Splits classes until all replicas of a class have partners of the same classes (colour
/// refinement). Communicators of all replicas distinguish no replica.
void Folder::refine() {
  std::vector<Groups> all;
  for (const Communicator which : {Communicator::shard, Communicator::replicate,
                                   Communicator::expert, Communicator::expert_gradient}) {
    const std::uint32_t size = graph_.communicator_size(which);
    if (size > 1 && size < graph_.data() * graph_.context()) all.push_back(groups(which));
  }
  using Colour = std::vector<std::uint32_t>;  // classes of a group, ascending
  while (!all.empty() && classes_ > 1 && classes_ < graph_.data()) {
    std::map<std::pair<std::size_t, Colour>, std::uint32_t> colours;
    // Colours of each replica's groups.
    std::vector<std::vector<std::uint32_t>> seen(graph_.data());
    for (std::size_t kind = 0; kind < all.size(); ++kind) {
      for (const std::vector<std::uint32_t>& group : all[kind]) {
        Colour colour;
        for (const std::uint32_t replica : group) colour.push_back(class_of_[replica]);
        std::sort(colour.begin(), colour.end());
        const auto next = static_cast<std::uint32_t>(colours.size());
        const std::uint32_t number = colours.emplace(std::pair(kind, colour), next).first->second;
        for (const std::uint32_t replica : group) seen[replica].push_back(number);
      }
    }
    std::map<std::pair<std::uint32_t, std::vector<std::uint32_t>>, std::uint32_t> finer;
    std::vector<std::uint32_t> next_class(graph_.data());
    for (std::uint32_t replica = 0; replica < graph_.data(); ++replica) {
      std::sort(seen[replica].begin(), seen[replica].end());
      const auto next = static_cast<std::uint32_t>(finer.size());
      next_class[replica] =
          finer.emplace(std::pair(class_of_[replica], seen[replica]), next).first->second;
    }
    if (finer.size() == classes_) return;
    classes_ = static_cast<std::uint32_t>(finer.size());
    class_of_ = std::move(next_class);
  }
}

}  // namespace

Folding fold_replicas(const PlanRequest& request, const std::vector<std::uint32_t>& traffic) {
  return Folder(request).make(traffic);
}

double slowest_beside(const StepGraph& graph, const HardwareState& state, RankId rank) {
  if (state.slow.empty()) return 1;
  const StepGraph::Position at = graph.position(rank);
  double slowest = 0;
  for (std::uint32_t member = 0; member < graph.members(); ++member) {
    const RankId beside = graph.rank(at.replica, at.stage, member);
    slowest = std::max(slowest, state.slow_of(beside));
    if (graph.communicator_size(Communicator::expert) == 1) continue;
    for (const RankId peer : graph.communicator(Communicator::expert, beside)) {
      slowest = std::max(slowest, state.slow_of(peer));
    }
  }
  return slowest;
}

}  // namespace orrery::estimates
