// Outages of nodes in a replay: given outages, and failures drawn at a rate over all nodes. Called
// by sim/replay/recorded_jobs. One thread; nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "core/ids.hpp"
#include "core/random.hpp"
#include "traces/jobs/outage_list.hpp"

namespace orrery::sim {

/// Sequence of node outages, and the nodes that are down. For example, two overlapping outages of a
/// node, from 10 s to 20 s and from 15 s to 30 s, are one from 10 s to 30 s.
class NodeOutages {
 public:
  /// Failures with exponential gaps over the cluster, in whole seconds; the node is drawn
  /// uniformly.
  struct Failures {
    double per_thousand_node_days = 0;
    Nanos repair = 0;
    std::uint64_t seed = 1;
  };
  /// Node that goes down or returns.
  struct Change {
    std::uint32_t node = 0;
    bool down = false;     ///< true: goes down; false: returns
    bool planned = false;  ///< whether the outage that caused the change was planned
  };

  NodeOutages() = default;  ///< constructs a sequence without outages
  /// Constructs the sequence of the outages `given` and of the drawn failures, of a cluster with
  /// `nodes` nodes; a failure of a node that is down already is dropped. The nodes of `given` must
  /// be below `nodes` (not checked).
  NodeOutages(const std::vector<Outage>& given, const Failures& failures, std::uint32_t nodes);

  /// Returns true if the sequence was constructed with outages or a failure rate > 0, also once all
  /// outages are over.
  bool any() const { return !within_.empty(); }
  std::uint32_t down() const { return down_; }        ///< number of nodes that are down now
  std::uint64_t outages() const { return outages_; }  ///< number of times that a node went down
  /// Returns the next instant with a begin or end of an outage; kNever if none follows. Failures
  /// are drawn without end, so they count only while work exists (`work`).
  Nanos next(bool work) const;
  /// Applies and returns the changes at `now`, which is at most next(): returning nodes before
  /// failing ones; empty if no node changes. A node within several outages changes at the first
  /// begin and the last end. Updates down() and outages(), and draws the next failure. Drops
  /// failures before `now`, which found no work, and a failure at `now` of a node that is down.
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
