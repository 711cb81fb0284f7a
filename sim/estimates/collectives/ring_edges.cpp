#include "sim/estimates/collectives/ring_edges.hpp"

#include <algorithm>

namespace orrery::estimates {

void RingEdges::add(MessageWay edge, std::int64_t count) {
  count_ += count;
  const auto before = [](const auto& kind, MessageWay way) { return kind.first < way; };
  const auto at = std::lower_bound(kinds_.begin(), kinds_.end(), edge, before);
  if (at != kinds_.end() && at->first == edge) {
    at->second += count;
  } else {
    kinds_.insert(at, {edge, count});
  }
}

MessageWay RingEdges::mean() const {
  MessageWay around;
  for (const auto& [way, count] : kinds_) {
    around.far += way.far * static_cast<double>(count);
    around.latency += way.latency * static_cast<double>(count);
  }
  const auto count = static_cast<double>(count_);
  return {around.far / count, around.latency / count};
}

double ring_passes(CollectiveKind kind) { return kind == CollectiveKind::all_reduce ? 2 : 1; }

}  // namespace orrery::estimates
