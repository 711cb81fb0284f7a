// Outages of nodes in a replay: given outages, and failures drawn at a rate over all nodes. Called
// by sim/jobs/recorded_jobs. One thread; nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "core/ids.hpp"
#include "core/random.hpp"
#include "traces/jobs/outage_list.hpp"

namespace orrery::sim {

/// Sequence of node outages.
class NodeOutages {
 public:
  /// Failures with exponential gaps over the cluster; the node is drawn uniformly.
  struct Failures {
    double per_thousand_node_days = 0;
    Nanos repair = 0;
    std::uint64_t seed = 1;
  };
  struct Change {
    std::uint32_t node = 0;
    bool down = false, planned = false;
  };

  NodeOutages() = default;  ///< constructs a sequence without outages
  /// Constructs the sequence of the outages `given` and of the drawn failures, of a cluster with
  /// `nodes` nodes; a failure of a node that is down already is dropped.
  NodeOutages(const std::vector<Outage>& given, const Failures& failures, std::uint32_t nodes);

  /// Returns true if any outages can occur.
  bool any() const { return !within_.empty(); }
  std::uint32_t down() const { return down_; }        ///< number of nodes that are down now
  std::uint64_t outages() const { return outages_; }  ///< number of times that a node went down
  /// Returns the next instant with a begin or end of an outage; kNever if none follows. Failures
  /// are drawn without end, so they count only while work exists.
  Nanos next(bool work) const;
  /// Applies and returns the changes at `now`, which is at most next(): returning nodes before
  /// failing ones; empty if no node changes. Drops failures before `now`, which found no work.
  std::vector<Change> advance_to(Nanos now);

 private:
  struct Edge {
    Nanos at = 0;
    bool down = false;  ///< ends before begins
    std::uint32_t node = 0;
    bool planned = false;
    friend auto operator<=>(const Edge&, const Edge&) = default;
  };
  void draw_gap();
  void draw_failures(Nanos now);

  std::priority_queue<Edge, std::vector<Edge>, std::greater<>> edges_;
  std::vector<std::uint32_t> within_;  ///< indexed by node: number of current outages
  double per_s_ = 0;
  Nanos repair_ = 0, next_failure_ = kNever;
  Rng rng_{1};
  std::uint32_t down_ = 0;
  std::uint64_t outages_ = 0;
};

}  // namespace orrery::sim
