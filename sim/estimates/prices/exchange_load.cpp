#include "sim/estimates/prices/exchange_load.hpp"

#include <algorithm>

#include "traces/workload/precision.hpp"
#include "traces/workload/sharding.hpp"

namespace orrery::estimates {
namespace {

/// Returns the seconds for each byte of a reduce-scatter or an all-gather of a communicator: a ring
/// uses the NICs of all its ranks in a domain.
double seconds_per_byte(const StepGraph& graph, Communicator which, const Cluster& cluster,
                        const CostProfile& profile) {
  const StepGraph::Lie lie = graph.lie_of(which);
  if (lie.size < 2) return 0;
  const std::uint32_t apart = lie.stride * (graph.is_pipeline_last() ? 1 : graph.pipeline());
  const std::uint32_t inside =
      std::clamp(cluster.gpus_per_domain() / std::max(1u, apart), 1u, lie.size);
  const Cluster::Shape& shape = cluster.shape();
  const GpuModel& gpu = cluster.gpu_model();
  const BytesPerSecond near =
      (gpu.nvlink.value > 0 ? gpu.nvlink : gpu.pcie) * std::max(0.01, profile.nvlink);
  const BytesPerSecond nics = shape.nic_bandwidth * double(shape.nics_per_node) /
                              double(shape.gpus_per_node) * profile.network * double(inside);
  const double share = ring_half(lie.size).share;
  if (inside == lie.size) return share / near.value;
  return share / (inside == 1 ? nics : std::min(near, nics)).value;
}

/// Bytes of a step that a rank exchanges for each of its parameters.
double bytes_per_parameter(const StepGraph& graph) {
  const Job& job = graph.job();
  const Sharding sharded = sharding_of(job.layout());
  const double element = value_bytes(job);
  const double gradient = job.gradient_bytes() > 0 ? job.gradient_bytes() : element;
  const double passes = std::max(1.0, double(graph.micro_batches()) / graph.data());
  const double gathered = job.overlaps().parameters() ? element : 0;
  switch (sharded) {
    case Sharding::nothing: return 2 * gradient;
    case Sharding::optimizer: return gradient + gathered;
    case Sharding::gradients: return passes * gradient + gathered;
    case Sharding::parameters: return passes * (gradient + 2 * gathered);
  }
  return 0;
}

/// Returns the seconds of a stage's computation beside which a step exchanges: the first forward
/// pass and the last backward pass, or every pass if each has exchanges.
double computation_beside(const StepGraph& graph, std::uint32_t stage,
                          const std::vector<BlockPrice>& prices) {
  double once = 0;
  for (const std::uint32_t block : graph.pass_blocks(stage)) {
    once += prices[block].compute.value + prices[block].tensor.value;
  }
  const bool each = sharding_of(graph.job().layout()) >= Sharding::gradients;
  return once * (each ? std::max(1.0, double(graph.micro_batches()) / graph.data()) : 1);
}

}  // namespace

Seconds exchange_beside(const StepGraph& graph, std::uint32_t stage, const Cluster& cluster,
                        const CostProfile& profile) {
  if (!graph.job().overlap() || graph.job().has_program() || graph.job().has_pace()) return {};
  const StepGraph::Share held = graph.parameters(stage);
  const double dense = seconds_per_byte(graph, Communicator::shard, cluster, profile);
  const double expert = seconds_per_byte(graph, Communicator::expert_gradient, cluster, profile);
  return Seconds{(held.dense * dense + held.expert * expert) * bytes_per_parameter(graph)};
}

Seconds exchange_load(const StepGraph& graph, const Cluster& cluster, const CostProfile& profile,
                      const std::vector<BlockPrice>& prices) {
  double most = 0;
  for (std::uint32_t stage = 0; profile.beside > 0 && stage < graph.pipeline(); ++stage) {
    const double exchange = exchange_beside(graph, stage, cluster, profile).value;
    if (exchange <= 0) continue;
    const double lengthened = profile.beside * exchange;
    const double computed = computation_beside(graph, stage, prices);
    most = std::max(most, std::min(lengthened, computed + lengthened - exchange));
  }
  return Seconds{most};
}

}  // namespace orrery::estimates
