// Which of a scenario's faults strike now: kills and stops are carried out by the backend, which
// asks at every step and in between; slow ranks follow from the plan of the step and are only
// counted here. One thread. Instants are the policy clock's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "core/ids.hpp"
#include "traces/scenario.pb.h"

namespace orrery::live {

class FaultSchedule {
 public:
  struct Strike {
    int fault = 0;  ///< index in the scenario
    std::uint32_t rank = 0;
    bool stop = false;  ///< it stands still; else it is killed
  };

  /// `scenario` outlives this. What was to strike at a step before `first` struck an earlier run.
  FaultSchedule(const Scenario& scenario, std::uint32_t ranks, Step first = 0)
      : scenario_(scenario), ranks_(ranks), first_(first) {}

  /// Faults that come into effect; a strike waits for a rank that is away, or struck and not yet
  /// noticed, until it is back.
  std::vector<Strike> due(Step step, Nanos now, std::span<const std::uint32_t> members);
  /// The first instant after `now` at which a fault is due; kNever: none.
  Nanos next_instant(Nanos now) const;
  /// The rank is lost: when it was struck, if it was.
  std::optional<Nanos> noticed(std::uint32_t rank);
  bool unnoticed(std::uint32_t rank) const { return struck_.contains(rank); }
  /// An earlier controller was about to carry it out; it may not have happened yet.
  void restore(int fault, std::uint32_t rank, Nanos at, bool noticed);
  /// Faults that have come into effect.
  std::size_t injected() const { return injected_.size(); }

 private:
  const Scenario& scenario_;
  const std::uint32_t ranks_;
  const Step first_;
  std::set<int> injected_;
  std::map<std::uint32_t, Nanos> struck_;  ///< ranks whose end has not been noticed yet
};

}  // namespace orrery::live
