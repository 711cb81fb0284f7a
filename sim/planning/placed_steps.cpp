#include "sim/planning/placed_steps.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/estimates/engine/free_engine.hpp"
#include "sim/estimates/step/stepper.hpp"

namespace orrery::sim {
namespace {

/// Placements of a class that are priced, and nodes of a cluster whose routes are kept.
constexpr std::uint32_t kPriced = 3, kSmall = 256;

/// Returns the rings of each stage over nodes, by ranks on the first GPU of their node.
std::vector<std::vector<std::vector<std::uint32_t>>> rings_of(const StepGraph& graph,
                                                              std::uint32_t gpus_per_node) {
  std::vector<std::vector<std::vector<std::uint32_t>>> stages(graph.pipeline());
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    for (std::uint32_t member = 0; member < graph.members(); ++member) {
      std::vector<std::uint32_t> ring;
      for (std::uint32_t replica = 0; replica < graph.data(); ++replica) {
        const std::uint32_t rank = graph.rank(replica, stage, member).value;
        if (rank % gpus_per_node == 0) ring.push_back(rank / gpus_per_node);
      }
      if (ring.size() > 1) stages[stage].push_back(std::move(ring));
    }
  }
  return stages;
}

}  // namespace

PlacedSteps::PlacedSteps(const Job& job, const Cluster& cluster)
    : cluster_(cluster),
      graph_(job),
      rings_(rings_of(graph_, cluster.shape().gpus_per_node)),
      flows_(cluster.links(), 0),
      routes_(cluster.nodes() <= kSmall ? std::size_t{cluster.nodes()} * cluster.nodes() : 1) {
  std::vector<std::uint32_t> first(graph_.ranks() / cluster.shape().gpus_per_node);
  std::iota(first.begin(), first.end(), 0);
  first_s_ = step_on(first);
  known_[first] = 1;
}

double PlacedSteps::slowdown(std::vector<std::uint32_t> nodes) {
  // Recovery keeps the GPUs of a job without model parallelism in ascending order.
  if (graph_.members() * graph_.pipeline() == 1) std::sort(nodes.begin(), nodes.end());
  const auto known = known_.find(nodes);
  if (known != known_.end()) return known->second;
  Class& like = classes_[most_flows(nodes)];
  if (like.priced >= kPriced) return like.sum_s / like.priced / first_s_;
  const double step_s = step_on(nodes);
  like.sum_s += step_s;
  ++like.priced;
  return known_[std::move(nodes)] = step_s / first_s_;
}

const std::vector<LinkId>& PlacedSteps::route_of(std::uint32_t from, std::uint32_t to) {
  const std::uint32_t nodes = cluster_.nodes(), each = cluster_.shape().gpus_per_node;
  const bool kept = nodes <= kSmall;
  std::vector<LinkId>& route = routes_[kept ? std::size_t{from} * nodes + to : 0];
  if (kept && !route.empty()) return route;
  route.clear();
  cluster_.route({from * each}, {to * each}, route);
  return route;
}

std::uint32_t PlacedSteps::most_flows(const std::vector<std::uint32_t>& nodes) {
  std::uint32_t most = 0;
  for (const auto& rings : rings_) {
    for (const std::vector<std::uint32_t>& ring : rings) {
      for (std::size_t i = 0; i < ring.size(); ++i) {
        for (const LinkId link : route_of(nodes[ring[i]], nodes[ring[(i + 1) % ring.size()]])) {
          touched_.push_back(link.value);
          most = std::max(most, ++flows_[link.value]);
        }
      }
    }
    for (const std::uint32_t link : touched_) flows_[link] = 0;
    touched_.clear();
  }
  return most;
}

double PlacedSteps::step_on(const std::vector<std::uint32_t>& nodes) {
  const std::uint32_t each = cluster_.shape().gpus_per_node;
  std::vector<GpuId> placement;
  placement.reserve(graph_.ranks());
  for (std::uint32_t rank = 0; rank < graph_.ranks(); ++rank) {
    placement.push_back({nodes[rank / each] * each + rank % each});
  }
  estimates::Stepper stepper(cluster_, graph_, placement, {}, estimates::free_engine);
  const std::uint32_t share = graph_.micro_batches() / graph_.data();
  return stepper.step({}, std::vector<std::uint32_t>(graph_.data(), share))->run.duration;
}

Slowdown slowdown_of(const Job& job, const Cluster& cluster, std::uint32_t job_nodes) {
  const bool has_spares = job_nodes < cluster.nodes();
  const bool shares_links = cluster.units() > 1 || cluster.is_direct();
  if (!has_spares || !shares_links) return {};
  const auto steps = std::make_shared<PlacedSteps>(job, cluster);
  return [steps](const std::vector<std::uint32_t>& nodes) { return steps->slowdown(nodes); };
}

}  // namespace orrery::sim
