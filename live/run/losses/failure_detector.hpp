// Which ranks have failed without dying: those that have been silent for a while are suspected,
// those that send heartbeats and stand still are ended, so that they are replaced as after any
// loss. Fed with heartbeats, asked twenty times a second by the live backend; one thread. Instants
// are the policy clock's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "live/control.pb.h"
#include "live/run/losses/fault_injector.hpp"
#include "live/run/losses/progress_watch.hpp"
#include "live/run/processes/placement.hpp"
#include "live/run/processes/rank_control.hpp"
#include "live/supervision.pb.h"
#include "policies/seam/event.hpp"
#include "traces/scenario.pb.h"

namespace orrery::live {

class FailureDetector {
 public:
  /// All outlive this. `local`: the ranks' processes are on this machine. `warn` tells the
  /// operator.
  FailureDetector(const Scenario& scenario, bool local, const Placement& placement,
                  const FaultInjector& faults, RankControl& control,
                  std::function<void(const std::string& what)> warn);

  void note(std::uint32_t rank, std::uint32_t life, const Heartbeat& beat, Nanos now) {
    watch_.note(rank, life, beat, now);
  }
  void step_done(Nanos took) { watch_.step_done(took); }

  /// A step that nobody gets on with: whoever is behind is ended; where nobody is, the links
  /// between them are made anew, and whoever does not come along is behind then.
  void look(Step step, bool under_way, Nanos now);
  /// Who has been silent for half of the time after which a rank counts as lost; nothing: the same
  /// as before.
  std::optional<RanksSuspected> suspect();

  /// Step and micro-batches of it, as that rank said last.
  std::pair<std::uint64_t, std::uint64_t> at(std::uint32_t rank) const { return watch_.at(rank); }

  /// For another controller, and by what an earlier one has told.
  void keep(JournalSnapshot& now) const;
  void restore(const JournalSnapshot& then);
  void told(const RanksSuspected& suspected) { suspected_ = suspected.ranks; }

 private:
  bool told_to_wait(Step step, bool under_way, Nanos now);
  Nanos limit(const std::vector<std::uint32_t>& ranks, Step step, Nanos now) const;
  void end(std::uint32_t rank, Nanos limit);

  const Scenario& scenario_;
  const bool local_;
  const Placement& placement_;
  const FaultInjector& faults_;
  RankControl& control_;
  const std::function<void(const std::string&)> warn_;
  ProgressWatch watch_;
  Nanos looked_at_ = 0;
  bool all_silent_ = false;        ///< as told
  std::vector<RankId> suspected_;  ///< as told
};

}  // namespace orrery::live
