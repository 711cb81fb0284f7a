#include "sim/estimates/predict/operator_prices.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "core/error.hpp"
#include "sim/estimates/collectives/protocols.hpp"

namespace orrery::estimates {
namespace {

/// Returns the profile of a GPU under a software stack; without one if it is null.
CostProfile profile_under(const SoftwareStack* stack, const GpuModel& gpu) {
  if (stack == nullptr) return cost_profile(gpu);
  return software_profile(gpu, Attention::flash, *stack, false);
}

}  // namespace

std::vector<std::vector<std::uint32_t>> sibling_groups(const std::vector<std::uint32_t>& members,
                                                       std::uint32_t ranks) {
  std::vector<std::vector<std::uint32_t>> groups{members};
  if (members.size() < 2 || members[1] <= members[0]) return groups;
  const std::uint32_t size = static_cast<std::uint32_t>(members.size());
  const std::uint32_t stride = members[1] - members[0], block = stride * size;
  for (std::uint32_t i = 1; i < size; ++i) {
    if (members[i] != members[0] + i * stride) return groups;
  }
  const std::uint32_t offset = members[0] % block;
  if (ranks % block != 0 || offset >= stride) return groups;
  for (std::uint32_t base = 0; base < ranks; base += block) {
    for (std::uint32_t first = base; first < base + stride; ++first) {
      if (first == members[0]) continue;
      groups.emplace_back();
      for (std::uint32_t i = 0; i < size; ++i) groups.back().push_back(first + i * stride);
    }
  }
  return groups;
}

OperatorPrices::OperatorPrices(const Cluster& cluster, std::uint32_t ranks,
                               const SoftwareStack* stack)
    : cluster_(cluster),
      ranks_(ranks),
      profile_(over_links(profile_under(stack, cluster.gpu_model()), cluster)),
      nvlink_share_(profile_.nvlink /
                    over_links(cost_profile(cluster.gpu_model()), cluster).nvlink),
      network_share_(profile_.network /
                     over_links(cost_profile(cluster.gpu_model()), cluster).network) {
  ensure(ranks <= cluster.gpus(), "a rank has a GPU");
}

Seconds OperatorPrices::kernel(const Kernel& kernel, Precision precision) const {
  Block block;
  block.kernels.push_back(kernel);
  const Precision used = supported_precision(cluster_.gpu_model(), precision);
  block.kernels.back().low_precision = used == Precision::fp8 || used == Precision::fp4;
  return price(block, cluster_.gpu_model(), used, {}, profile_).compute;
}

std::vector<GpuGroup> OperatorPrices::groups_of(const std::vector<std::uint32_t>& members) const {
  std::vector<GpuGroup> groups;
  for (const std::vector<std::uint32_t>& each : sibling_groups(members, ranks_)) {
    groups.emplace_back();
    for (const std::uint32_t rank : each) {
      if (rank >= ranks_) {
        throw Error(ErrorKind::bad_input,
                    fmt::format("a collective: expected ranks below {}, got {}", ranks_, rank));
      }
      groups.back().push_back({rank});
    }
  }
  return groups;
}

Seconds OperatorPrices::collective(CollectiveKind kind, const std::vector<std::uint32_t>& members,
                                   Bytes size) {
  if (members.size() < 2) return {};
  Seconds best{std::numeric_limits<double>::infinity()};
  std::vector<GpuGroup> groups;
  for (const CollectiveAlgorithm algorithm : nccl_algorithms(kind)) {
    const std::pair key(Pattern{kind, members}, algorithm);
    auto found = schedules_.find(key);
    if (found == schedules_.end()) {
      if (groups.empty()) groups = groups_of(members);
      CollectiveSchedule made = collective_schedule(cluster_, kind, algorithm, groups);
      found = schedules_.emplace(key, std::move(made)).first;
    }
    const bool is_first = algorithm == nccl_algorithms(kind).front();
    if (found->second.algorithm != algorithm && !is_first) continue;
    best = std::min(best, price_protocols(cluster_, profile_, kind, found->second, size).alone);
  }
  return best / link_share(members);
}

double OperatorPrices::link_share(const std::vector<std::uint32_t>& members) const {
  const auto [least, most] = std::minmax_element(members.begin(), members.end());
  const std::uint32_t gpus_per_node = cluster_.shape().gpus_per_node;
  return *least / gpus_per_node == *most / gpus_per_node ? nvlink_share_ : network_share_;
}

}  // namespace orrery::estimates
