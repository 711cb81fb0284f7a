#include "sim/planning/operator_list.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/estimates/prices/cost_model.hpp"
#include "sim/estimates/step/stepper.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::sim {
namespace {

using estimates::CostProfile;

/// Prices of kernels on one GPU model.
struct Prices {
  const GpuModel& gpu;
  Precision precision;  ///< precision of low-precision products
  bool wide;            ///< the job computes in fp32 throughout
  CostProfile profile;

  double seconds(const Kernel& kernel) const {
    Block block;
    block.kernels.push_back(kernel);
    return estimates::price(block, gpu, precision, {}, profile).compute.value;
  }
  double peak(const Kernel& kernel) const {
    const Precision wanted = kernel.precision       ? *kernel.precision
                             : kernel.low_precision ? precision
                             : wide                 ? Precision::fp32
                                                    : Precision::bf16;
    return gpu.peak(estimates::supported_precision(gpu, wanted)).value;
  }
};

/// Returns the operators of one stage by name.
std::map<KernelName, OperatorUse> operators_of_stage(StepGraph& graph, std::uint32_t stage,
                                                     const Prices& prices) {
  std::map<std::uint32_t, double> executions;  // key: block
  const Program& program = graph.program(stage, graph.micro_batches() / graph.data());
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::compute) ++executions[op.block];
  }
  std::map<KernelName, OperatorUse> all;
  for (const auto& [block, times] : executions) {
    for (const Kernel& kernel : graph.blocks()[block].kernels) {
      OperatorUse& use = all[kernel.name];
      use.flop += times * kernel.repeat * kernel.flop.value;
      use.bytes += times * kernel.repeat * kernel.bytes.value;
      use.seconds += times * prices.seconds(kernel);
      use.count += times * kernel.repeat;
      use.peak = std::max(use.peak, prices.peak(kernel));
    }
  }
  return all;
}

double seconds_of(const std::map<KernelName, OperatorUse>& all) {
  double sum = 0;
  for (const auto& [name, use] : all) sum += use.seconds;
  return sum;
}

}  // namespace

std::vector<OperatorUse> operators_of(const Job& job, const Cluster& cluster) {
  StepGraph graph(job);
  const JobPrecision precision = precision_of(graph.job());
  const Prices prices{cluster.gpu_model(), estimates::product_precision(precision),
                      precision == JobPrecision::fp32,
                      estimates::job_profile(graph.job(), cluster)};
  std::map<KernelName, OperatorUse> longest;
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    std::map<KernelName, OperatorUse> of_stage = operators_of_stage(graph, stage, prices);
    if (seconds_of(of_stage) > seconds_of(longest)) longest = std::move(of_stage);
  }
  std::vector<OperatorUse> operators;
  for (auto& [name, use] : longest) {
    use.name = name == KernelName::plain ? "plain" : std::string(name_of(name));
    operators.push_back(std::move(use));
  }
  std::stable_sort(operators.begin(), operators.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return operators;
}

}  // namespace orrery::sim
