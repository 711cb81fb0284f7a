#include "sim/estimates/collectives/nvls_schedule.hpp"

#include <bit>
#include <map>

#include "sim/estimates/collectives/tree_schedule.hpp"

namespace orrery::estimates {

/// NVLink's switches reduce the parts of all GPUs of a domain and send the sum to one GPU each;
/// they also multiply a part that one GPU sends. A flow carries 1 / (2 x members per domain) of the
/// buffer, because a tree carries half of a rail's part.
bool NvlsSchedule::lay_out(CollectiveKind kind) {
  if (!who_.cluster().gpu_model().nvls || !who_.is_even() || who_.members_per_domain() < 2)
    return false;
  const bool reduces = kind == CollectiveKind::all_reduce;
  std::uint32_t out = 0, in = 0;  // parts of 1 / each that pass a GPU's links
  switch (kind) {
    case CollectiveKind::all_reduce: out = in = who_.members_per_domain() + 1; break;
    case CollectiveKind::reduce_scatter: out = who_.members_per_domain(), in = 1; break;
    case CollectiveKind::all_gather: out = 1, in = who_.members_per_domain(); break;
    case CollectiveKind::broadcast:
    case CollectiveKind::all_to_all:
    case CollectiveKind::send_receive: return false;
  }
  if (who_.spans() > 1 && !reduces) return false;
  const bool in_fabric = who_.cluster().shape().in_network_reduction;
  TreeSchedule trees(who_, phases_);
  MessageWay up;
  for (const auto& domains : who_.domains()) {
    for (const GpuGroup& domain : domains) {
      for (const GpuId gpu : domain) {
        phases_.flows().add_link(who_.cluster().nvlink_out(gpu), 2 * out);
        phases_.flows().add_link(who_.cluster().nvlink_in(gpu), 2 * in);
      }
    }
    for (std::uint32_t k = 0; k < who_.members_per_domain() && who_.spans() > 1; ++k) {
      const GpuGroup peers = CollectiveGroups::rail(domains, k);
      keep_longer(up, in_fabric ? add_switch_tree(peers) : trees.add_trees(peers, true));
    }
  }
  const double passes = reduces ? 2 : 1;
  const std::uint32_t height = who_.spans() < 2 ? 0
                               : in_fabric      ? 1
                                                : std::bit_width(who_.spans() - 1);
  phases_.close(
      0.5 / who_.members_per_domain(), passes * (1 + height),
      {passes * up.far, passes * (who_.cluster().shape().nvlink_latency.value + up.latency)});
  return true;
}

/// Each NIC sends its part once and receives the sum once; between units one spine switch reduces.
MessageWay NvlsSchedule::add_switch_tree(const GpuGroup& rail) {
  std::map<std::uint32_t, std::uint32_t> leaves;  // unit -> rail
  for (const GpuId gpu : rail) {
    const NodeId node = who_.cluster().node_of(gpu);
    phases_.flows().add_link(who_.cluster().nic_out(node, who_.cluster().rail_of(gpu)), 2);
    phases_.flows().add_link(who_.cluster().nic_in(node, who_.cluster().rail_of(gpu)), 2);
    leaves.emplace(who_.cluster().unit_of(node), who_.cluster().rail_of(gpu));
  }
  if (leaves.size() > 1) {
    const std::uint32_t spine = rail.front().value % who_.cluster().shape().spines;
    for (const auto& [unit, of_rail] : leaves) {
      phases_.flows().add_link(who_.cluster().leaf_up(unit, of_rail, spine), 2);
      phases_.flows().add_link(who_.cluster().leaf_down(unit, of_rail, spine), 2);
    }
  }
  return {1, phases_.worst_way(rail).latency / 2};  // way to the switch in the middle
}

}  // namespace orrery::estimates
