// A scenario's faults (FaultScript) on the processes of a live run: which ranks are struck now, by
// signals that the backend sends, and how each rank's hardware stands, which its process is told
// and follows by its pace. Rank r stands on GPU r. One thread. Instants are the policy clock's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "live/control.pb.h"
#include "traces/scenario/fault_script.hpp"

namespace orrery::live {

class FaultSchedule {
 public:
  struct Strike {
    int fault = 0;  ///< index in the scenario
    std::uint32_t rank = 0;
    bool stop = false;  ///< it stands still; else it is killed
  };

  /// Both outlive this. What was to strike at a step before `first` struck an earlier run.
  FaultSchedule(const Scenario& scenario, const Cluster& cluster, std::uint32_t ranks,
                Step first = 0);

  /// Strikes that come into effect, those of one trigger together; one waits for a rank that is
  /// `awaited`, or struck and not yet noticed, until it is back. Of others that are away nobody is
  /// struck, now or later.
  std::vector<Strike> due(Step step, Nanos now, std::span<const std::uint32_t> members,
                          std::span<const std::uint32_t> awaited);
  /// The first instant after `now` at which something changes; kNever: none.
  Nanos next_instant(Nanos now) const { return script_.next_instant(now).value_or(kNever); }
  /// As far as faults tell; a link without a fault is as fast as live.link_rate lets it.
  Hardware hardware(std::uint32_t rank, Step step, Nanos now) const;
  /// Parts of the cluster that are gone, or through which nothing goes.
  std::set<Part> lost_parts(Step step, Nanos now) const;
  /// The rank is lost: when it was struck, if it was.
  std::optional<Nanos> noticed(std::uint32_t rank);
  bool unnoticed(std::uint32_t rank) const { return struck_.contains(rank); }
  /// An earlier controller was about to carry it out; it may not have happened yet.
  void restore(int fault, std::uint32_t rank, Nanos at, bool noticed);
  /// Faults that have come into effect.
  std::size_t injected() const { return injected_.size(); }

 private:
  void take_up(std::uint32_t fault);

  const Cluster& cluster_;
  FaultScript script_;
  const std::uint32_t ranks_;
  const std::vector<GpuId> gpus_;  ///< of rank 0, 1, ...
  const Step first_;
  const double link_rate_;  ///< of a link without a fault; 0: as fast as it goes
  Moment seen_ = kBeforeTheRun;
  std::vector<Strike> waiting_;
  std::set<int> injected_;
  std::set<std::pair<int, std::uint32_t>> restored_;
  std::map<std::uint32_t, Nanos> struck_;  ///< ranks whose end has not been noticed yet
};

}  // namespace orrery::live
