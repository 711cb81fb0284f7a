// State of a live run as plain values, and the only function that changes them: apply(). The
// controller applies each record that it appends to the journal, and a successor applies the
// records that it reads, so that both hold the same state. Single-threaded. Instants are times of
// the policy clock, in nanoseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "live/membership/protocol.hpp"
#include "live/supervision.pb.h"
#include "policies/seam/world.hpp"
#include "traces/scenario.pb.h"

namespace orrery::live {

/// Properties of a run on which the effect of a record depends.
struct RunRules {
  std::uint32_t ranks = 0;  ///< Ranks of the job at the start.
  std::size_t keep = 1;     ///< Complete checkpoints on disk that are retained.
  /// Cluster of the run, which must outlive the states; null: the states have no world.
  const Cluster* cluster = nullptr;
};
/// Returns the properties of a resolved scenario with this cluster.
RunRules run_rules(const Scenario& scenario, const Cluster* cluster = nullptr);

/// Counters of the ranks' work at the newest commit, from the start of the run.
struct WorkCounters {
  std::vector<Nanos> cpu = {};  ///< CPU time of each rank's processes.
  /// Micro-batches that are missing in committed steps, that were repeated in committed steps, and
  /// whose results were discarded.
  std::uint64_t lost = 0, twice = 0, recomputed = 0;
};

/// Ranks of a job at its end.
struct RanksAtEnd {
  std::size_t working = 0;   ///< Ranks that worked.
  bool is_assigned = false;  ///< True if the job had a pending assignment.
};

/// State of a live run that a successor of the controller continues with. Its size does not grow
/// with the number of steps. Example: after the records `started: 77` and `commit: step 4`, the
/// state has started = 77 and core.committed = 5.
struct RunState {
  bool empty = true;  ///< True if no record has been applied.
  /// Reason of the newest record that could not follow; empty if all could.
  std::string refusal = {};
  /// State of the control core. Its number of committed steps is the step whose commit comes next.
  membership::Journal core = {};
  std::set<membership::Seat> joined = {};  ///< Members of any membership epoch.
  /// Start of the policy clock, in nanoseconds of the machine's clock; none if the run has not
  /// started.
  std::optional<Nanos> started = {};
  /// Largest number of committed steps of any time: a rollback does not decrease it.
  Step furthest = 0;
  /// Checkpoint from which the run resumed; none if the run began with step 0.
  std::optional<Resumption> resumed = {};
  /// State that the next ranks begin with, after a release of the job's GPUs; none once a step has
  /// been committed in that state. Its step is the next one.
  std::optional<Resumption> rolled_back = {};
  /// Start of the hold of the job, the instant of the observation that shows the hold; kNever while
  /// the job has an active assignment.
  Nanos held_since = kNever;
  std::vector<JournalLoss> losses = {};  ///< Losses of ranks, by index.
  /// Faults injected so far.
  std::vector<JournalStrike> strikes = {};
  /// Removals that the operator has announced, in the order of the announcements.
  std::vector<Fault> removals = {};
  WorkCounters work = {};  ///< Counters at the newest commit.
  /// Statistics of the committed steps; see run_statistics.hpp.
  KeptStatistics statistics = {};
  /// Checkpoint attempts that commits name, and their outcomes; see kept_checkpoints.hpp.
  KeptCheckpoints checkpoints = {};
  /// World as the newest observation shows it and the policies' answers change it; none if the run
  /// has not begun or its rules have no cluster.
  std::optional<World> world = {};
  /// GPUs of each assignment that has no outcome yet.
  std::map<DecisionId, std::size_t> open_assignments = {};
  /// Number of ranks that the job is to have: that of the scenario or of the newest assignment.
  std::size_t wanted_ranks = 0;
  /// Ranks at the end of the job; none before an observation shows the end.
  std::optional<RanksAtEnd> at_end = {};
  /// Instants after the newest observation at which the policies want to be called. An observation
  /// serves all instants up to its own.
  std::set<Nanos> wakes = {};
  Nanos now = 0;  ///< Instant of the newest observation.
  /// Number of the next observation.
  std::uint64_t sequence = 0;
  bool is_halted = false;  ///< Newest state of the kill switch.
  /// Hash of the final parameters; empty before the end.
  std::string parameters_sha256 = {};
};

/// Changes the state by one record of a run with these rules. Returns the reason why the record
/// cannot follow, with the state unusable; nothing if the record was applied. Observations change
/// the losses, the checkpoints, the hold, the world, the wanted ranks and the wake-up times, and
/// answers of the policies the world and the wake-up times; telemetry and given-up policies change
/// nothing.
std::optional<std::string> apply(RunState& state, const JournalRecord& record,
                                 const RunRules& rules = {});

/// Writes the state into an empty snapshot. apply() of a record with this snapshot gives the same
/// state. Returns false while a decision has no outcome, once the job is done, and after a refusal:
/// the snapshot is then not the state, and the file must not be replaced.
bool save_state(const RunState& state, JournalSnapshot& snapshot);

/// Returns the earliest instant at which the policies want to be called; kNever if none.
Nanos next_wake(const RunState& state);

/// State of a live run, and its history since the start or since the snapshot with which the
/// journal begins.
struct Past : RunState {
  /// Snapshot with which the file begins, if the file was rewritten. Its control core state,
  /// losses, faults and members are in the state, too; observations and commits before the snapshot
  /// are in no field.
  std::optional<JournalSnapshot> snapshot;
  /// World of the snapshot; none without a snapshot or if the rules have no cluster.
  std::optional<World> first_world;
  /// Observations shown to the policies since the start or since the snapshot, oldest first.
  std::vector<ObservationRecord> seen;
  /// Telemetry that the policies read, and their answers, by index in `seen`. An observation that
  /// another one follows and that is not in this map was answered by nothing.
  std::map<std::size_t, JournalRead> read;
  /// Commits of all steps since the start or since the snapshot; repeated steps have several.
  std::vector<JournalCommit> commits;
  /// Reason for which the policies were given up, by index in `seen` of the observation of the
  /// call.
  std::map<std::size_t, std::string> given_up;
  /// State of the kill switch, from the given number of shown observations on.
  std::map<std::size_t, bool> halted;
};

/// Changes the state and adds the record to the history. Returns the reason why the record cannot
/// follow, with the history unchanged; nothing if the record was applied.
std::optional<std::string> apply(Past& past, const JournalRecord& record,
                                 const RunRules& rules = {});

}  // namespace orrery::live
