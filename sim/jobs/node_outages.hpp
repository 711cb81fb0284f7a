// When nodes of a replay go down and come back: outages that are given, and failures drawn at a
// rate over all nodes. Asked by sim/jobs/recorded_jobs. One thread; nanoseconds of the policy
// clock.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "core/ids.hpp"
#include "core/random.hpp"
#include "traces/jobs/outage_list.hpp"

namespace orrery::sim {

class NodeOutages {
 public:
  /// Exponential gaps between failures of the cluster, the node drawn evenly.
  struct Failures {
    double per_thousand_node_days = 0;
    Nanos repair = 0;
    std::uint64_t seed = 1;
  };
  struct Change {
    std::uint32_t node = 0;
    bool down = false, planned = false;
  };

  NodeOutages() = default;
  NodeOutages(const std::vector<Outage>& given, const Failures& failures, std::uint32_t nodes);

  bool any() const { return !within_.empty(); }
  std::uint32_t down() const { return down_; }        ///< nodes, now
  std::uint64_t outages() const { return outages_; }  ///< so far
  /// The next instant at which something changes. Failures are drawn without end: they count only
  /// while there is work.
  Nanos next(bool work) const;
  /// What changes at `now`, next(): nodes that come back before those that go.
  std::vector<Change> pass(Nanos now);

 private:
  struct Edge {
    Nanos at = 0;
    bool down = false;  ///< ends before beginnings
    std::uint32_t node = 0;
    bool planned = false;
    friend auto operator<=>(const Edge&, const Edge&) = default;
  };
  void draw_gap();
  void draw_failures(Nanos now);

  std::priority_queue<Edge, std::vector<Edge>, std::greater<>> edges_;
  std::vector<std::uint32_t> within_;  ///< by node: how many outages it is in
  double per_s_ = 0;
  Nanos repair_ = 0, next_failure_ = kNever;
  Rng rng_{1};
  std::uint32_t down_ = 0;
  std::uint64_t outages_ = 0;
};

}  // namespace orrery::sim
