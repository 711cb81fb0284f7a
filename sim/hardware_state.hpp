// How the hardware under the job deviates from its data sheet, and how faults change that over
// time. Plain values, compared whole: equal states give equal iterations. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Only deviations are held: no entry means nominal.
struct HardwareState {
  std::map<std::uint32_t, double> slow;       ///< by rank: takes this many times as long
  std::map<std::uint32_t, double> link_slow;  ///< by LinkId: has 1/x of its bandwidth
  std::set<std::uint32_t> down;               ///< LinkIds over which nothing goes

  double slow_of(RankId rank) const;
  double link_slow_of(LinkId link) const;
  friend auto operator<=>(const HardwareState&, const HardwareState&) = default;
};

/// What ends a run.
struct FatalFault {
  RankId rank;
  std::string cause;    ///< "rank 3 killed"
  bool killed = false;  ///< the rank itself is gone
  bool silent = false;  ///< it only stands still: nothing but its silence tells
  Nanos at = 0;
  std::size_t fault = 0;  ///< index in the scenario
};

/// The scenario's faults in their order of time. Ranks stand on the GPUs of `placement`.
class FaultPlan {
 public:
  FaultPlan(const Scenario& scenario, const Cluster& cluster, std::vector<GpuId> placement);

  /// State during `step`, with the time faults that began up to `now`.
  HardwareState state(Step step, Nanos now) const;
  /// The first step after `step` whose state or fate may differ; nothing if none does.
  std::optional<Step> next_change(Step step) const;
  /// The first rank to be killed or stopped at `step`, which begins at `from`, or before `until`.
  std::optional<FatalFault> kill(Step step, Nanos from, Nanos until) const;
  /// A kill has happened: it will not again.
  void spend(const FatalFault& killed) { spent_.insert(killed.fault); }
  /// The fault that took `link`, one of those that are down during `step` at `now`.
  FatalFault cause_of(LinkId link, Step step, Nanos now) const;
  /// Instants after `from` and before `until` at which something happens, ascending.
  std::vector<Nanos> instants(Nanos from, Nanos until) const;
  std::optional<Nanos> next_instant(Nanos after) const;
  /// Ranks and links that a fault at exactly `instant` touches.
  struct Touched {
    std::vector<RankId> ranks;
    std::vector<LinkId> links;
  };
  Touched touched(Nanos instant) const;
  /// Faults that have begun by `step` (its beginning) and `now`.
  std::uint64_t begun(Step step, Nanos now) const;
  bool empty() const { return faults_.empty(); }

 private:
  std::vector<LinkId> nic_links(std::uint32_t rank) const;

  const Cluster& cluster_;
  std::vector<Fault> faults_;
  std::vector<GpuId> placement_;
  std::set<std::size_t> spent_;  ///< kills that have happened
};

}  // namespace orrery
