// Recovery by the lowest predicted cost: the GPU-seconds until the job has its earlier size and
// progress again. The price of each way has its duration (parameters), the lost steps since the
// newest checkpoint, and the GPUs that work meanwhile. Ways: replacements with a peer's state, a
// restart from the checkpoint, a smaller job until the hardware returns, or waiting for the
// hardware. A shrunken job returns to its first placement as soon as all of it is healthy. Jobs
// leave parts whose removal is announced (planned_moves.hpp). Called by drive(); one thread. For
// example, if 8 of 1,024 GPUs fail, a smaller job costs 8 GPU-seconds per second, and waiting costs
// 1,024.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "policies/parameters.pb.h"
#include "policies/recovery/planned_moves.hpp"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Policy that recovers in the cheapest way.
class CheapestGoodput : public Policy {
 public:
  /// Returns Assign, Save if the run offers it, and `step_times`; no settings, no tick.
  Needs needs() const override;
  /// `parameters`: CheapestGoodputParameters, or null for the defaults; absent fields have their
  /// defaults. Throws an internal Error for another message type.
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  /// Decides at RanksLost and JobHeld for a job with lost ranks and no pending assignment, or on
  /// hold; when a part is lost or back for the jobs that wait, and for running jobs smaller than
  /// their first placement, which return from the next step on. Waiting is no decision. Decides
  /// about jobs without lost ranks also as PlannedMoves. Always rests.
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  /// Writes the planned moves and the observations of all known jobs; replaces the content of the
  /// archive.
  void save(Archive& archive) const override;
  /// Replaces the planned moves and the known jobs. Throws an internal Error for bytes that end
  /// within a job; bytes that end between two jobs load as fewer jobs.
  void load(const Archive& archive) override;
  std::uint32_t state_version() const override { return kPlannedMovesVersion; }
  bool convert_state(Archive& state, std::uint32_t version) const override {
    return convert_planned_moves(state, version);
  }

  /// One way to recover and its cost in GPU-seconds of the whole job; without a placement the job
  /// waits.
  struct Way {
    double cost = 0;
    std::string name;
    std::optional<Standing> where;
    StateFrom state = StateFrom::none;
  };
  /// Returns the possible ways, the cheapest first, equally cheap ones in the order replacement,
  /// restart, fewer, wait; never empty, because the job can always wait. `job` must have lost
  /// ranks. The default parameters must have been filled in.
  /// `step_s`: duration of the newest steps in seconds; 0 if unknown: lost and later steps then
  /// cost nothing.
  static std::vector<Way> ways(const Observation& seen, const JobInfo& job, double step_s,
                               const CheapestGoodputParameters& parameters);

 private:
  /// Observations of one job.
  struct Watched {
    double step_s = 0;
    bool waits = false;
    Standing home;  ///< first placement of the job
  };
  void decide_recovery(const Observation& seen, const JobInfo& job, DecisionList& decisions);
  void return_home(const Observation& seen, DecisionList& decisions);

  CheapestGoodputParameters parameters_;
  bool saves_ = true;  ///< the run offers Save
  PlannedMoves planned_;
  std::map<JobId, Watched> jobs_;
};

}  // namespace orrery
