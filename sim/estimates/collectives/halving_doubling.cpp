#include "sim/estimates/collectives/halving_doubling.hpp"

#include <bit>

namespace orrery::estimates {

void HalvingDoubling::exchange(std::uint32_t distance, std::uint32_t ranks, double share) {
  MessageWay all;
  for (const GpuGroup& group : who_.groups()) {
    // Pairs of the first 2 x extras ranks were folded into their second members.
    const std::uint32_t extras = who_.size() - ranks;
    const auto member = [&](std::uint32_t i) { return group[i < extras ? 2 * i + 1 : i + extras]; };
    for (std::uint32_t i = 0; i < ranks; ++i) {
      const GpuId from = member(i), to = member(i ^ distance);
      phases_.flows().add_flows(from, to);
      keep_longer(all, phases_.way(from, to));
    }
  }
  phases_.close(share, 1, all);
}

void HalvingDoubling::fold_extras(bool in) {
  const std::uint32_t extras = who_.size() - std::bit_floor(who_.size());
  if (extras == 0) return;
  MessageWay all;
  for (const GpuGroup& group : who_.groups()) {
    for (std::uint32_t i = 0; i < extras; ++i) {
      const GpuId a = group[2 * i], b = group[2 * i + 1];
      phases_.flows().add_flows(in ? a : b, in ? b : a);
      keep_longer(all, phases_.way(a, b));
    }
  }
  phases_.close(1, 1, all);
}

bool HalvingDoubling::lay_out(CollectiveKind kind) {
  const std::uint32_t ranks = std::bit_floor(who_.size());
  if (kind == CollectiveKind::all_to_all || kind == CollectiveKind::send_receive ||
      kind == CollectiveKind::broadcast) {
    return false;
  }
  if (ranks != who_.size() && kind != CollectiveKind::all_reduce) return false;
  fold_extras(true);
  if (kind != CollectiveKind::all_gather) {
    for (std::uint32_t distance = 1; distance < ranks; distance *= 2) {
      exchange(distance, ranks, 0.5 / distance);
    }
  }
  if (kind != CollectiveKind::reduce_scatter) {
    for (std::uint32_t distance = ranks / 2; distance > 0; distance /= 2) {
      exchange(distance, ranks, 0.5 / distance);
    }
  }
  fold_extras(false);
  return true;
}

}  // namespace orrery::estimates
