#include "sim/estimates/prices/exchange_load.hpp"

#include <algorithm>

#include "traces/workload/precision.hpp"
#include "traces/workload/sharding.hpp"

namespace orrery::estimates {
namespace {

/// Returns the micro-batches of each replica, at least 1.
double passes_of(const StepGraph& graph) {
  return std::max(1.0, double(graph.micro_batches()) / graph.data());
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
  return once * (each ? passes_of(graph) : 1);
}

}  // namespace

std::vector<Exchange> exchanges_beside(const StepGraph& graph, std::uint32_t stage) {
  using enum OpCollective;
  const Job& job = graph.job();
  if (!job.overlap() || job.has_program() || job.has_pace()) return {};
  const Sharding sharded = sharding_of(job.layout());
  const double element = value_bytes(job);
  const double gradient = job.gradient_bytes() > 0 ? job.gradient_bytes() : element;
  const double reductions = sharded >= Sharding::gradients ? passes_of(graph) : 1;
  const double gathers = sharded == Sharding::parameters ? 2 * passes_of(graph) : 1;
  const StepGraph::Share held = graph.parameters(stage);
  std::vector<Exchange> found;
  const auto add = [&](Communicator which, OpCollective kind, double bytes) {
    if (bytes > 0 && graph.communicator_size(which) > 1) found.push_back({which, kind, {bytes}});
  };
  if (sharded == Sharding::nothing) {
    add(Communicator::gradient, all_reduce, held.dense * gradient);
    add(Communicator::expert_gradient, all_reduce, held.expert * gradient);
    return found;
  }
  add(Communicator::shard, reduce_scatter, held.dense * gradient * reductions);
  add(Communicator::expert_gradient, reduce_scatter, held.expert * gradient * reductions);
  add(Communicator::replicate, all_reduce,
      held.dense * gradient / graph.communicator_size(Communicator::shard));
  if (!job.overlaps().parameters()) return found;
  add(Communicator::shard, all_gather, held.dense * element * gathers);
  add(Communicator::expert_gradient, all_gather, held.expert * element * gathers);
  return found;
}

Seconds exchange_time(const StepGraph& graph, std::uint32_t stage, const ExchangePrice& price) {
  double sum = 0;
  for (const Exchange& each : exchanges_beside(graph, stage)) {
    sum += each.bytes.value * price(stage, each.communicator, each.collective);
  }
  return Seconds{sum};
}

Seconds exchange_load(const StepGraph& graph, double beside, const std::vector<BlockPrice>& prices,
                      const ExchangePrice& price) {
  double most = 0;
  for (std::uint32_t stage = 0; beside > 0 && stage < graph.pipeline(); ++stage) {
    const double exchange = exchange_time(graph, stage, price).value;
    if (exchange <= 0) continue;
    const double lengthened = beside * exchange;
    const double computed = computation_beside(graph, stage, prices);
    most = std::max(most, std::min(lengthened, computed + lengthened - exchange));
  }
  return Seconds{most};
}

}  // namespace orrery::estimates
