// Recovery by a fixed rule: replace lost ranks (on the same GPUs, or on free GPUs if those are lost
// too), continue with the complete replicas, or restart all ranks from the newest checkpoint. If no
// complete replica is left, all ranks restart whatever the rule is. Without enough healthy GPUs the
// policy waits for hardware. One decision per loss. Jobs leave
// parts whose removal is announced (planned_moves.hpp); a job that is to shrink does not move.
#pragma once

#include <set>

#include "core/schema/names.hpp"
#include "policies/parameters.pb.h"
#include "policies/recovery/planned_moves.hpp"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Policy that recovers in one configured way.
class RecoverPolicy : public Policy {
 public:
  /// Returns Assign and, if the run offers it, Save; no settings, no tick.
  Needs needs() const override;
  /// `parameters`: RecoverParameters, or null for replacement. Throws an internal Error for another
  /// message type.
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  /// Decides at RanksLost and JobHeld for a job with lost ranks and no pending assignment, or on
  /// hold; for the jobs that wait for hardware, when a part is lost or back. Decides about jobs
  /// without lost ranks as PlannedMoves. Always rests.
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  /// Writes the planned moves and the ids of the jobs that wait for hardware; replaces the content
  /// of the archive.
  void save(Archive& archive) const override;
  /// Replaces planned moves and jobs that wait. Throws an internal Error for bytes that end within
  /// a job; bytes that end between two jobs load as fewer jobs.
  void load(const Archive& archive) override;
  std::uint32_t state_version() const override { return kPlannedMovesVersion; }
  bool convert_state(Archive& state, std::uint32_t version) const override {
    return convert_planned_moves(state, version);
  }

 private:
  enum class How { replace, shrink, restart };
  friend constexpr std::array<std::string_view, 3> names_of(How) {
    return {"replace", "shrink", "restart"};
  }
  bool decide_recovery(const Observation& seen, const JobInfo& job, DecisionList& decisions) const;

  How how_ = How::replace;
  bool saves_ = true;  ///< the run offers Save
  PlannedMoves planned_;
  std::set<JobId> waiting_;  ///< jobs that wait for hardware
};

}  // namespace orrery
