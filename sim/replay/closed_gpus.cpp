#include "sim/replay/closed_gpus.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

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

ClosedGpus::ClosedGpus(const World& world) : world_(world) {}

/// Returns the GPUs without a job by node; 0 for nodes that are down.
std::vector<std::uint32_t> ClosedGpus::idle_by_node() const {
  const ClusterState& state = world_.state();
  std::vector<std::uint32_t> idle = state.free_per_node;
  for (std::uint32_t node = 0; node < idle.size() && count_ > 0; ++node) {
    if (closed_by_node_[node] == 0) continue;
    const bool is_down = facts_.down > 0 && state.is_lost({PartKind::node, node});
    if (!is_down) idle[node] += closed_by_node_[node];
  }
  return idle;
}

/// Stops jobs until at least `idle` GPUs of nodes that are up have no job.
void ClosedGpus::stop_newest(std::uint32_t idle, const Stop& stop) const {
  std::uint32_t closed = 0;
  for (const std::uint32_t each : idle_by_node()) closed += each;
  closed -= world_.state().free;
  if (world_.state().free + closed >= idle) return;
  std::vector<std::tuple<Nanos, JobId>> placed;
  for (const JobInfo& job : world_.jobs()) {
    if (job.is_placed()) placed.emplace_back(job.started, job.spec.id);
  }
  std::sort(placed.rbegin(), placed.rend());
  for (const auto& [started, job] : placed) {
    stop(job);
    if (world_.state().free + closed >= idle) return;
  }
}

/// Returns the number of GPUs to close by node, `count` in all.
std::vector<std::uint32_t> ClosedGpus::quotas(std::uint32_t count) const {
  const std::vector<std::uint32_t> idle = idle_by_node();
  std::vector<std::vector<std::uint32_t>> nodes(world_.cluster().shape().gpus_per_node + 1);
  for (std::uint32_t node = 0; node < idle.size(); ++node) nodes[idle[node]].push_back(node);
  std::vector<std::uint32_t> quotas(idle.size(), 0);
  for (std::uint32_t size = 1; size < nodes.size(); ++size) {
    for (auto node = nodes[size].rbegin(); node != nodes[size].rend() && count > 0; ++node) {
      quotas[*node] = std::min(size, count);
      count -= quotas[*node];
    }
  }
  return quotas;
}

/// Closes the last free GPUs of a node, or opens its first closed ones.
void ClosedGpus::change_node(std::uint32_t node, std::uint32_t quota,
                             const JobModel::Happen& happen) {
  const std::uint32_t size = world_.cluster().shape().gpus_per_node;
  std::uint32_t& closed = closed_by_node_[node];
  for (std::uint32_t i = 0; i < size && closed > quota; ++i) {
    if (!is_closed_[node * size + i]) continue;
    is_closed_[node * size + i] = false;
    --closed;
    happen(gpu_change(node * size + i, false));
  }
  for (std::uint32_t i = size; i > 0 && closed < quota; --i) {
    if (!is_free(world_.state(), node, i - 1)) continue;
    is_closed_[node * size + i - 1] = true;
    ++closed;
    happen(gpu_change(node * size + i - 1, true));
  }
}

void ClosedGpus::choose_gpus(const Facts& facts, const Stop& stop, const JobModel::Happen& happen) {
  due_ = kNever;
  if (facts == facts_) return;
  facts_ = facts;
  const Cluster& cluster = world_.cluster();
  const std::uint32_t usable = cluster.gpus() - facts.down * cluster.shape().gpus_per_node;
  const std::uint32_t target = usable > facts.most ? usable - facts.most : 0;
  if (target == 0 && count_ == 0) return;
  if (is_closed_.empty()) {
    is_closed_.assign(cluster.gpus(), false);
    closed_by_node_.assign(cluster.nodes(), 0);
  }
  stop_newest(target, stop);
  const std::vector<std::uint32_t> wanted = quotas(target);
  for (std::uint32_t node = 0; node < wanted.size(); ++node) {
    if (wanted[node] != closed_by_node_[node]) change_node(node, wanted[node], happen);
  }
  count_ = target;
}

}  // namespace orrery::sim
