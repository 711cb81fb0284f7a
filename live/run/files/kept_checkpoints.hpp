// Checkpoint attempts of a live run: functions of the message KeptCheckpoints, the part of RunState
// that commits, reported outcomes and rollbacks change. Its list `begun` holds, oldest first, the
// attempts that neither failed nor were deleted, and for each tier whose newest outcome is a
// failure an entry with the step of the failure and attempt 0. Of a tier in memory only the newest
// complete checkpoint is retained, on disk as many as the scenario says. Pure functions;
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/ids.hpp"
#include "live/supervision.pb.h"
#include "policies/seam/checkpoint_copies.hpp"
#include "traces/trace.pb.h"

namespace orrery::live {

/// Records that `attempt`, which is not 0, at the checkpoint of `step` has begun.
void begin_attempt(KeptCheckpoints& kept, Step step, std::uint64_t attempt, TierRecord tier);
/// Records the end of an attempt, and forgets complete checkpoints of its tier on disk beyond the
/// newest `most`. `whole`: the checkpoint is complete; otherwise the attempt is forgotten. Returns
/// true and counts the outcome; returns false, and counts nothing, for an attempt that has not
/// begun or is forgotten, and for one that is complete already.
bool end_attempt(KeptCheckpoints& kept, std::uint64_t attempt, bool whole, std::size_t most);
/// Records an outcome that the policies are shown, as end_attempt() of the attempt of its step and
/// tier that is not complete. Counts the outcome of an attempt that no record names, too: a retry
/// at the end of a run.
void apply_outcome(KeptCheckpoints& kept, const SaveDoneRecord& done, std::size_t most);
/// Forgets an attempt, complete or not, whose copies are lost.
void forget_attempt(KeptCheckpoints& kept, std::uint64_t attempt);
/// Forgets the checkpoints of later steps than `step`, to which the run rolls back: an outcome that
/// is still to come does not count, and new attempts at these steps are reported.
void forget_after(KeptCheckpoints& kept, Step step);

/// Returns true if `attempt` has begun, and has neither failed nor been deleted nor forgotten.
bool has_attempt(const KeptCheckpoints& kept, std::uint64_t attempt);
/// Returns true if `attempt` is complete, and neither deleted nor forgotten.
bool is_complete(const KeptCheckpoints& kept, std::uint64_t attempt);
/// Returns the step of the newest attempt of the tier with an outcome if this attempt failed;
/// nothing otherwise.
std::optional<Step> newest_failure(const KeptCheckpoints& kept, TierRecord tier);

/// Attempt at a checkpoint.
struct NamedAttempt {
  Step step = 0;
  std::uint64_t attempt = 0;
  Tier tier = Tier::local_disk;
  friend bool operator==(const NamedAttempt&, const NamedAttempt&) = default;
};
/// Returns the complete attempts at checkpoints up to `step` that are neither deleted nor lost,
/// newest first; empty if there are none. Throws bad_input for an unknown tier.
std::vector<NamedAttempt> complete_attempts(const KeptCheckpoints& kept, Step step);

}  // namespace orrery::live
