// Replay of a journal to the policies.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "live/run/files/journal.hpp"
#include "policies/record/encoding.hpp"
#include "policies/record/samples_book.hpp"

namespace orrery::live {

/// Replay of the observations that an earlier controller has shown. The policies are deterministic,
/// so that the replay brings them to the state in which the earlier controller died. The world
/// follows the recorded answers, also where the policies answer otherwise now. Also knows the
/// decisions and steps that the successor must complete. Used by the live backend; single-threaded.
class JournalReplay {
 public:
  /// Starts before the first observation, with the world of the snapshot if `past` has one. `past`
  /// must outlive this object. After a snapshot the replay counts as active, as if the observations
  /// before the snapshot had just been shown.
  JournalReplay(const Cluster& cluster, const Past& past);

  /// Passes the bytes of the policies and the recorder in the snapshot, and world(), to `load`; no
  /// effect without a snapshot. Call before next(). Throws an internal Error if `load` is empty and
  /// the journal has a snapshot.
  void load_memory(const std::function<void(const std::string&, const World&)>& load);

  /// Returns the world, which follows the replay and is the world of the run afterwards.
  World& world() { return reader_.world(); }

  /// Returns true if observations are left to replay.
  bool has_more() const { return shown_ < past_.seen.size(); }
  /// Returns the next observation with its telemetry, and applies its events to world(); valid
  /// until the next call. is_replaying() is true from then on. Call only while has_more() holds.
  /// Throws bad_input for an impossible record.
  Observation next();
  /// Returns true from the first replayed observation on, or from the start if the journal begins
  /// with a snapshot, until end_replay().
  bool is_replaying() const { return under_way_; }
  /// Returns true if the journal holds the policies' answer to the newest observation, which may be
  /// empty; false if the earlier controller ended before the answer. Call only after next().
  bool is_answered() const;
  /// Announces the recorded answer to the newest observation to world(). The earlier controller has
  /// carried out these decisions; only decisions without an outcome stay open, see take_open().
  /// Returns the first difference of `decisions`, the policies' answer now, from the recorded one,
  /// as text with the instant and both answers; nothing if they are equal or an earlier answer was
  /// different: later differences follow from the first. Call instead of take_answer() while
  /// is_answered() holds, once after each next(). Throws bad_input for an impossible record, and an
  /// internal Error for an id of a decision without an outcome.
  std::optional<std::string> compare_answer(const DecisionList& decisions);
  /// Returns true if an answer so far was different from the recorded one.
  bool has_differed() const { return has_differed_; }
  /// Announces a new answer to the newest observation to world(); its decisions are open, see
  /// take_open(). Throws an internal Error for an id of a decision without an outcome.
  void take_answer(const DecisionList& decisions);
  /// Returns the id after the highest one of the decisions in the answers so far, recorded or new;
  /// 0 before the first decision. A new decision with this id or a higher one meets no recorded
  /// decision.
  DecisionId decided_before() const { return decided_; }
  /// Returns true if the kill switch was on at the newest observation; false if the journal does
  /// not mention the kill switch.
  bool is_halted() const;

  /// Returns the reason for which the earlier controller gave up the policies in the call on the
  /// newest observation; empty: it did not.
  std::string given_up() const;

  /// Ends the replay: all later events are new.
  void end_replay() { under_way_ = false; }
  /// Returns the decisions without an outcome in the replayed observations, by number; empty if
  /// there are none. A second call returns none.
  std::vector<Decision> take_open();

 private:
  /// Announces a decision to world() and adds the decision to the open ones.
  void announce_open(const Decision& decision);

  const Past& past_;
  ObservationReader reader_;
  SamplesBook samples_;
  /// Number of replayed observations.
  std::size_t shown_ = 0;
  bool under_way_;
  bool has_differed_ = false;  ///< An answer differed from the recorded one.
  /// Decisions without an outcome.
  std::map<DecisionId, Decision> open_;
  DecisionId decided_ = 0;
};

/// Returns the committed steps in the journal that no observation shows, oldest first, one event
/// for each step, with the time since the previous commit as its duration; empty if there are none.
std::vector<StepsDone> unseen_steps(const Past& past);

}  // namespace orrery::live
