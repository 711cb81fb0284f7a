// Comparison of the ranks' training states during a live run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "live/checkpoint/agreement.hpp"
#include "live/control.pb.h"
#include "live/run/processes/rank_control.hpp"

namespace orrery::live {

/// Watch over the replicas of a reproducible run: compares the checksums in the ranks' reports of a
/// step, once all members have reported. Kills ranks that a majority outvotes, as losses with this
/// cause, and gives up the state if no majority shows the damaged rank. The step of the reports may
/// become final before a killed rank has left. Used by the step driver; single-threaded.
class ReplicaWatch {
 public:
  /// `control` must outlive this object. `warn` tells the operator about a killed rank. `give_up`
  /// receives the name of the state that is of no use; it must end the run.
  ReplicaWatch(RankControl& control, std::function<void(const std::string&)> warn,
               std::function<void(const std::string&)> give_up)
      : control_(control), warn_(std::move(warn)), give_up_(std::move(give_up)) {}

  /// Stores the checksums of a report of the current epoch, and compares them if `members`, the
  /// ranks of the epoch, have all reported the same step. Ignores a report without checksums and
  /// one of an abandoned step. Forgets the checksums of another step or epoch.
  void record_report(std::uint32_t rank, const StepReport& report,
                     const std::vector<std::uint32_t>& members);

 private:
  /// Compares the stored checksums, which are of `step`, and forgets them.
  void judge_step(Step step);

  RankControl& control_;
  const std::function<void(const std::string&)> warn_, give_up_;
  std::pair<std::uint64_t, std::uint64_t> which_;  ///< step and epoch of the checksums
  std::map<std::uint32_t, PartChecksums> states_;  ///< keyed by rank
};

}  // namespace orrery::live
