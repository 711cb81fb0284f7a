#include "sim/replay/node_outages.hpp"

#include <algorithm>
#include <cmath>

#include "core/units.hpp"

namespace orrery::sim {

NodeOutages::NodeOutages(const std::vector<Outage>& given, const Failures& failures,
                         std::uint32_t nodes)
    : per_s_(failures.per_thousand_node_days / 1000 * nodes / 86400),
      repair_(failures.repair),
      rng_(Rng(failures.seed).split_stream("node failures")) {
  if (given.empty() && per_s_ <= 0) return;
  within_.assign(nodes, 0);
  for (const Outage& each : given) {
    edges_.push({each.begin_s * kNanosPerSecond, true, each.node, each.planned});
    edges_.push({each.end_s * kNanosPerSecond, false, each.node, each.planned});
  }
  if (per_s_ <= 0) return;
  next_failure_ = 0;
  draw_gap();
}

/// Whole seconds, at least one: the clock of job logs.
void NodeOutages::draw_gap() {
  const double gap = std::ceil(-std::log(1 - rng_.uniform()) / per_s_);
  next_failure_ += static_cast<Nanos>(std::clamp(gap, 1.0, 9e8)) * kNanosPerSecond;
}

Nanos NodeOutages::next(bool work) const {
  const Nanos given = edges_.empty() ? kNever : edges_.top().at;
  return work ? std::min(given, next_failure_) : given;
}

void NodeOutages::draw_failures(Nanos now) {
  while (next_failure_ <= now) {
    const auto node = static_cast<std::uint32_t>(rng_.below(within_.size()));
    if (next_failure_ == now && within_[node] == 0) {
      edges_.push({now, true, node, false});
      edges_.push({now + repair_, false, node, false});
    }
    draw_gap();
  }
}

std::vector<NodeOutages::Change> NodeOutages::advance_to(Nanos now) {
  draw_failures(now);
  std::vector<Change> changes;
  for (; !edges_.empty() && edges_.top().at <= now; edges_.pop()) {
    const Edge& edge = edges_.top();
    std::uint32_t& within = within_[edge.node];
    within += edge.down ? 1u : ~0u;
    if (within != (edge.down ? 1u : 0u)) continue;  // another outage of it goes on
    down_ += edge.down ? 1u : ~0u;
    outages_ += edge.down ? 1 : 0;
    changes.push_back({edge.node, edge.down, edge.planned});
  }
  return changes;
}

}  // namespace orrery::sim
