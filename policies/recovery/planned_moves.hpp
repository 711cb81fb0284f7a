// Planned moves of jobs: off the parts whose removal is announced, and back once parts return. Part
// of the policies of recovery, which own one object each. Decides by a ladder, the next way only if
// the one before is impossible or rejected: the ranks of the part move to free GPUs; the job
// continues without the replicas of the part, from shortly before the removal on; the job saves a
// checkpoint and releases its GPUs, as late as a first checkpoint has shown to suffice. One thread;
// as deterministic as a policy. For example, a job on GPUs 0 to 3 moves to 0, 1, 2 and 4 if the
// removal of GPU 3 is announced and GPU 4 is free.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "policies/seam/away_parts.hpp"
#include "policies/seam/byte_archive.hpp"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Returns true if a run with these capabilities offers Save, also if they are not known yet (no
/// action at all).
inline bool offers_save(const Capabilities& run) {
  return run.actions.has<Save>() || !run.actions.has<Assign>();
}

/// Converts the saved state of a policy that begins with that of PlannedMoves, as the policy wrote
/// it when its state_version() was `version`. Returns false for a version that is unknown. Version
/// 0 lacks the parts that are away: the first observation tells which they are. Versions 0 and 1
/// lack the steps and the instants at which ways begin.
bool convert_planned_moves(Archive& state, std::uint32_t version);
/// Version of the state that PlannedMoves::save_to() writes.
inline constexpr std::uint32_t kPlannedMovesVersion = 2;

/// Planned moves of all jobs of a run. Jobs with lost ranks or a pending assignment are left to the
/// policy of recovery; they are moved once they have started again.
class PlannedMoves {
 public:
  /// Ways and duties that an owner allows.
  struct Rules {
    bool moves = true;  ///< ranks may move to free GPUs
    bool saves = true;  ///< the run offers Save
    bool grows = true;  ///< jobs that shrank take GPUs again; false: the owner grows jobs itself
  };
  /// Replaces the rules, which are all true before.
  void set_rules(const Rules& rules) { rules_ = rules; }

  /// Returns AwayParts::read_changes() of the observation. Call once for each observation, before
  /// observe().
  bool read_parts(const Observation& seen) { return away_.read_changes(seen); }
  /// Adds the decisions about one observation. Decides only if a part is lost, announced to be
  /// removed, or back (`parts_changed`, the result of read_parts()), or if the observation contains
  /// the start, stop or end of a job, a checkpoint, or the rejection of an earlier decision of this
  /// object.
  void observe(const Observation& seen, bool parts_changed, DecisionList& decisions);

  /// Appends the state of all jobs and the parts that are away.
  void save_to(ByteWriter& write) const;
  /// Replaces the state of all jobs and the parts that are away. Throws an internal Error if too
  /// few bytes remain. `version`: state_version() of the owner that wrote it, at least 1.
  void load_from(ByteReader& read, std::uint32_t version = kPlannedMovesVersion);

 private:
  enum class Way : std::uint8_t { move, shrink, save, none };
  /// State of one job.
  struct Course {
    Way way = Way::move;               ///< first way of the ladder that is not exhausted
    std::uint8_t is_released = 0;      ///< 1 from the release of the GPUs until the restart
    std::uint32_t home = 0;            ///< number of GPUs to return to; 0: the job has its size
    std::uint64_t open = kNoDecision;  ///< newest decision, while it has no outcome
    Step save_after = kNever;  ///< a checkpoint of a later step releases the GPUs; kNever: none
    std::uint8_t climbs = 0;   ///< 1: if `open` is rejected, the next way follows at once
    std::uint64_t steps = 0;   ///< completed steps that were observed
    Nanos stepped = 0;         ///< duration of these steps together
    Nanos acts_at = 0;         ///< instant before the removal at which the way begins; 0: at once
    /// Returns the mean duration of a step; 0 before the first one.
    Nanos step_time() const { return steps > 0 ? stepped / static_cast<Nanos>(steps) : 0; }
  };
  static constexpr std::uint64_t kNoDecision = ~std::uint64_t{0};

  /// Returns true if the event may call for a decision.
  bool read_event(const Event& event, const Observation& seen, DecisionList& decisions);
  bool record_outcome(const Decided& event);
  void release_saved_job(const SaveDone& done, const Observation& seen, DecisionList& decisions);
  /// Returns true if the next removal of a rank is further away than `lead`; the course then goes
  /// on at `lead` before it.
  static bool awaits_removal(Course& course, const JobInfo& job, Nanos lead,
                             const Observation& seen, DecisionList& decisions);
  void decide_job(const Observation& seen, const JobInfo& job, DecisionList& decisions);
  void leave_parts(const JobInfo& job, const Observation& seen, DecisionList& decisions);
  void take_back(const JobInfo& job, const Observation& seen, DecisionList& decisions);

  Rules rules_;
  AwayParts away_;
  std::map<JobId, Course> jobs_;
};

}  // namespace orrery
