#include "sim/estimates/predict/collective_interval.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "sim/estimates/collectives/collective_groups.hpp"
#include "sim/estimates/collectives/protocols.hpp"
#include "topologies/catalog.hpp"

namespace orrery::estimates {
namespace {

GpuGroup first_gpus(std::uint32_t ranks) {
  GpuGroup members;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) members.push_back({rank});
  return members;
}

/// Returns a bound of the time over the time: the start is replaced, the rest multiplied.
double bound(double alone, double start, double other_start, double rest) {
  return (alone - start + other_start) * rest / alone;
}

}  // namespace

Interval collective_interval(const Cluster& cluster, const CollectiveCall& call,
                             double simulated_s) {
  const GpuModel& gpu = cluster.gpu_model();
  const KernelProfile& kernels = kernel_profile(gpu.family.empty() ? gpu.name : gpu.family);
  const CostProfile profile = cost_profile(kernels);
  const std::vector<GpuGroup> groups{first_gpus(call.ranks)};
  const CollectiveAlgorithm algorithm =
      call.algorithm == CollectiveAlgorithm::automatic
          ? choose_nccl_algorithm(cluster, profile, call.kind, groups, call.size)
          : call.algorithm;
  const double alone =
      price_protocols(cluster, profile, call.kind,
                      collective_schedule(cluster, call.kind, algorithm, groups), call.size)
          .alone.value;
  const bool far = by_domain(cluster, groups.front()).size() > 1;
  const KernelCatalog& catalog = kernel_catalog();
  const CollectiveSpread& spread = far ? catalog.far() : catalog.near();
  const double start = kernels.collective_start();
  const double low = kernels.collective_start_low() > 0 ? kernels.collective_start_low() : start;
  const double high = std::max(start, kernels.collective_start_high());
  const double below = std::max(1.0, catalog.start_below_95());
  const double above = std::max(1.0, catalog.start_above_95());
  const auto& parts = kernels.transferred();
  const bool measured = std::find(parts.begin(), parts.end(), "collectives") == parts.end();
  Interval interval;
  interval.state = measured ? PredictionState::measured : PredictionState::transferred;
  interval.distance = fmt::format("{} collectives {}", name_of(interval.state),
                                  far ? "between domains" : "in a domain");
  interval.p10_s = simulated_s * bound(alone, start, low, std::exp(-spread.below_80()));
  interval.p90_s = simulated_s * bound(alone, start, high, std::exp(spread.above_80()));
  interval.p2_5_s = simulated_s * bound(alone, start, low / below, std::exp(-spread.below_95()));
  interval.p97_5_s = simulated_s * bound(alone, start, high * above, std::exp(spread.above_95()));
  return interval;
}

}  // namespace orrery::estimates
