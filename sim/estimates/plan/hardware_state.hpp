// How the hardware under the job deviates from its data sheet, and how faults change that over
// time. Plain values, compared whole: equal states give equal iterations. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "topologies/cluster.hpp"
#include "topologies/part.hpp"
#include "traces/report.pb.h"
#include "traces/scenario/fault_script.hpp"

namespace orrery::estimates {

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

/// The scenario's faults (FaultScript) on the ranks and links of one job. Ranks stand on the GPUs
/// of `placement`.
class FaultPlan {
 public:
  /// Throws bad_input for what the simulator cannot inject.
  FaultPlan(const Scenario& scenario, const Cluster& cluster, std::vector<GpuId> placement);

  /// The ranks stand there from now on.
  void place(std::vector<GpuId> placement);

  /// State during `step`, with the time faults that began up to `now`.
  HardwareState state(Step step, Nanos now) const;
  /// The first step after `step` whose state or fate may differ; nothing if none does.
  std::optional<Step> next_change(Step step) const { return script_.next_step(step); }
  /// The ranks that are killed or stopped first, at one instant: at `step`, which begins at `from`,
  /// or before `until`. By rank. Without a step only those of instants.
  std::vector<FatalFault> losses(std::optional<Step> step, Nanos from, Nanos until) const;
  /// The first of them.
  std::optional<FatalFault> kill(Step step, Nanos from, Nanos until) const;
  /// A kill has happened: it will not again.
  void spend(const FatalFault& killed);
  /// The fault that took `link`, one of those that are down during `step` at `now`.
  FatalFault cause_of(LinkId link, Step step, Nanos now) const;
  /// The share of the storage's rate that is there at `now`; 0: it takes nothing.
  double storage(Step step, Nanos now) const;
  /// Links of which a share is lost at exactly `instant`, and that share's kind of part.
  struct Thinned {
    LinkId link;
    PartKind by{};
  };
  std::vector<Thinned> thinned(Nanos instant) const;
  /// The first instant from `now` on at which `link`, which was down, is up again while `step`
  /// waits for it; nothing if it never is.
  std::optional<Nanos> up_again(LinkId link, Step step, Nanos now) const;
  /// Instants after `from` and before `until` at which something happens, ascending.
  std::vector<Nanos> instants(Nanos from, Nanos until) const {
    return script_.instants(from, until);
  }
  std::optional<Nanos> next_instant(Nanos after) const { return script_.next_instant(after); }
  bool changes_at(Nanos instant) const { return !script_.changing(instant).empty(); }
  /// Parts of the cluster through which nothing goes during `step` at `now`, a rank's NIC too.
  std::set<Part> lost_parts(Step step, Nanos now) const;
  /// Ranks and links that a fault at exactly `instant` touches.
  struct Touched {
    std::vector<RankId> ranks;
    std::vector<LinkId> links;
  };
  Touched touched(Nanos instant) const;
  /// Faults that have begun by `step` (its beginning) and `now`.
  std::uint64_t begun(Step step, Nanos now) const { return script_.begun(moment(step, now)); }
  /// Those that hold during `step` at `now` have been felt: a step is worked on under them.
  void feel(Step step, Nanos now);
  /// By cause: how many have begun since `from`, and how many of all were felt or lost ranks.
  void count(Step step, Nanos from, Nanos now, Report& report) const;

 private:
  static Moment moment(Step step, Nanos now) { return {static_cast<std::int64_t>(step), now}; }
  std::vector<LinkId> links_of(const FaultTarget& target) const;
  std::vector<RankId> ranks_of(const FaultTarget& target) const;
  /// By link: the share of it that parts which are shares of it have taken.
  using Shares = std::map<std::uint32_t, double>;
  void add(const FaultTarget& target, const Condition& condition, HardwareState& state,
           Shares& lost) const;
  /// Links that are lost for so long that traffic goes other ways.
  bool avoided(const Part& part, Step step, Nanos now) const;
  std::optional<Nanos> next_reroute(Step step, Nanos now) const;
  std::optional<Nanos> down_since(const FaultTarget& target,
                                  const std::set<std::uint32_t>& faults) const;
  std::vector<FatalFault> struck(const FaultScript::Strike& strike) const;

  const Cluster& cluster_;
  FaultScript script_;
  std::vector<GpuId> placement_;
  std::map<GpuId, std::vector<RankId>> ranks_at_;
  std::set<std::pair<std::size_t, std::uint32_t>> spent_;  ///< fault and rank
  std::set<std::uint32_t> felt_;
  std::optional<Nanos> last_struck_;  ///< instant of the newest loss; others may be due since then
};

}  // namespace orrery::estimates
