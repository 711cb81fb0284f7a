#include "sim/replay/closed_gpus.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

namespace orrery::sim {
namespace {

PartChanged gpu_change(std::uint32_t gpu, bool closes) {
  return {{PartKind::gpu, gpu},
          {.health = closes ? Health::lost : Health::ok, .rate = closes ? 0.0 : 1.0}};
}

bool is_free(const ClusterState& state, std::uint32_t node, std::uint32_t index) {
  const std::uint64_t word = state.free_bits[node * std::size_t{state.words_per_node} + index / 64];
  return (word >> (index % 64) & 1u) != 0;
}

}  // namespace

bool ClosedGpus::is_up(std::uint32_t gpu) const {
  const NodeId node = world_.cluster().node_of({gpu});
  return !world_.state().is_lost({PartKind::node, node.value});
}

/// Stops jobs until at least `idle` GPUs of nodes that are up have no job.
void ClosedGpus::stop_newest(std::uint32_t idle, const Stop& stop) const {
  const auto closed = std::count_if(closed_.begin(), closed_.end(),
                                    [this](std::uint32_t gpu) { return is_up(gpu); });
  const auto has_enough = [this, idle, closed] {
    return world_.state().free + static_cast<std::uint32_t>(closed) >= idle;
  };
  if (has_enough()) return;
  std::vector<std::tuple<Nanos, JobId>> placed;
  for (const JobInfo& job : world_.jobs()) {
    if (job.is_placed()) placed.emplace_back(job.started, job.spec.id);
  }
  std::sort(placed.rbegin(), placed.rend());
  for (const auto& [started, job] : placed) {
    stop(job);
    if (has_enough()) return;
  }
}

std::set<std::uint32_t> ClosedGpus::idle_of_fullest(std::uint32_t count) const {
  const ClusterState& state = world_.state();
  const std::uint32_t size = world_.cluster().shape().gpus_per_node;
  std::vector<std::uint32_t> idle = state.free_per_node;  // indexed by node
  for (const std::uint32_t gpu : closed_) {
    if (is_up(gpu)) ++idle[gpu / size];
  }
  std::vector<std::uint32_t> nodes;
  for (std::uint32_t node = 0; node < idle.size(); ++node) {
    if (idle[node] > 0) nodes.push_back(node);
  }
  std::sort(nodes.begin(), nodes.end(), [&idle](std::uint32_t a, std::uint32_t b) {
    return std::tuple(idle[a], b) < std::tuple(idle[b], a);
  });
  std::set<std::uint32_t> gpus;
  for (const std::uint32_t node : nodes) {
    for (std::uint32_t i = size; i > 0 && gpus.size() < count; --i) {
      const std::uint32_t gpu = node * size + i - 1;
      if (is_free(state, node, i - 1) || closed_.contains(gpu)) gpus.insert(gpu);
    }
    if (gpus.size() == count) break;
  }
  return gpus;
}

void ClosedGpus::choose_gpus(const Facts& facts, const Stop& stop, const JobModel::Happen& happen) {
  due_ = kNever;
  if (facts == facts_) return;
  facts_ = facts;
  const Cluster& cluster = world_.cluster();
  const std::uint32_t usable = cluster.gpus() - facts.down * cluster.shape().gpus_per_node;
  const std::uint32_t target = usable > facts.most ? usable - facts.most : 0;
  if (target == 0 && closed_.empty()) return;
  stop_newest(target, stop);
  const std::set<std::uint32_t> closed = idle_of_fullest(target);
  for (const std::uint32_t gpu : closed_) {
    if (!closed.contains(gpu)) happen(gpu_change(gpu, false));
  }
  for (const std::uint32_t gpu : closed) {
    if (!closed_.contains(gpu)) happen(gpu_change(gpu, true));
  }
  closed_ = closed;
}

}  // namespace orrery::sim
