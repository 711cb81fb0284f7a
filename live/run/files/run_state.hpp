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
#include "traces/scenario.pb.h"

namespace orrery::live {

/// Numbers of the scenario on which the effect of a record depends.
struct RunRules {
  std::uint32_t ranks = 0;  ///< Ranks of the job at the start.
  std::size_t keep = 1;     ///< Complete checkpoints on disk that are retained.
};
/// Returns the numbers of a resolved scenario.
RunRules run_rules(const Scenario& scenario);

/// Counters of the ranks' work at the newest commit, from the start of the run.
struct WorkCounters {
  std::vector<Nanos> cpu = {};  ///< CPU time of each rank's processes.
  /// Micro-batches that are missing in committed steps, that were repeated in committed steps, and
  /// whose results were discarded.
  std::uint64_t lost = 0, twice = 0, recomputed = 0;
};

/// State of a live run that a successor of the controller continues with. Its size does not grow
/// with the number of steps. Example: after the records `started: 77` and `commit: step 4`, the
/// state has started = 77 and core.committed = 5.
struct RunState {
  bool empty = true;  ///< True if no record has been applied.
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
  /// Number of the next observation.
  std::uint64_t sequence = 0;
  bool is_halted = false;  ///< Newest state of the kill switch.
  /// Hash of the final parameters; empty before the end.
  std::string parameters_sha256 = {};
};

/// Changes the state by one record of a run with these rules. Returns the reason why the record
/// cannot follow, with the state unchanged except for `empty`; nothing if the record was applied.
/// Observations change only the losses, the checkpoints, the hold and the sequence number;
/// telemetry and given-up policies change nothing.
std::optional<std::string> apply(RunState& state, const JournalRecord& record,
                                 const RunRules& rules = {});

/// Writes the state into an empty snapshot. apply() of a record with this snapshot gives the same
/// state.
void save_state(const RunState& state, JournalSnapshot& snapshot);

/// State of a live run, and its history since the start or since the snapshot with which the
/// journal begins.
struct Past : RunState {
  /// Snapshot with which the file begins, if the file was rewritten. Its control core state,
  /// losses, faults and members are in the state, too; observations and commits before the snapshot
  /// are in no field.
  std::optional<JournalSnapshot> snapshot;
  /// Observations shown to the policies since the start or since the snapshot, oldest first.
  std::vector<ObservationRecord> seen;
  /// Telemetry that the policies read, by index in `seen`.
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
