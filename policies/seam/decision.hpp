// Actions and decisions of policies. The three actions place a job (Assign), change a setting of a
// job (Configure) and order a checkpoint (Save). A new action needs a struct and an alternative of
// Action, a message in trace.proto, and its checks and effect in world_actions.cpp; its name in
// logs and in Python is that of the message. Plain values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "policies/seam/job.hpp"

namespace orrery {

/// Action that gives a job its GPUs: starts, grows, shrinks, moves or restarts the job, replaces
/// lost ranks (on the same GPUs or on spares), or, without GPUs, takes all GPUs from the job, which
/// waits then. With Decision::at_step 0 the current step is abandoned if ranks end and none
/// have to start first; otherwise the assignment happens between two steps. For example,
/// Assign{job, GpuRuns::range({0}, 2), {.data = 2}} places two replicas on GPUs 0 and 1.
struct Assign {
  JobId job;
  GpuRuns gpus = {};                  ///< GPUs of ranks 0, 1, ...; empty: the job loses its GPUs
  ParallelLayout layout = {};         ///< a training job's: as many ranks as `gpus`
  StateFrom state = StateFrom::none;  ///< source of the training state

  /// Returns true if the job loses its GPUs.
  bool is_release() const { return gpus.empty(); }
};
/// Action that changes one setting of a job. With Decision::at_step 0, a setting that changes steps
/// (`changes_steps`) applies from the next step on, and any other setting applies at once.
struct Configure {
  JobId job;
  Setting what;  ///< the setting with its new value
};
/// Action that orders a checkpoint after the next step that begins.
struct Save {
  JobId job;
  Tier tier = Tier::storage;
};
using Action = std::variant<Assign, Configure, Save>;

/// Returns the job that the action is about.
JobId job_of(const Action& action);
/// Returns the name of the action's type: "Assign", "Configure" or "Save".
std::string_view action_name(const Action& action);
/// Returns the name of the setting's type, for example "Shares" or "CollectiveTable".
std::string_view setting_name(const Setting& setting);
/// Returns the names of all actions, in the order of the variant.
std::span<const std::string_view> action_names();
/// Returns the names of all settings, in the order of the variant.
std::span<const std::string_view> setting_names();
/// Returns true for a Configure of a setting that changes steps: even with at_step 0 the decision
/// takes effect only at a step boundary.
bool waits_for_step(const Action& action);

using DecisionId = std::uint64_t;
/// Action of a policy with the conditions under which the action is valid. Every decision gets
/// exactly one Decided event (applied, rejected or expired), unless the run ends before.
struct Decision {
  DecisionId id = 0;  ///< number of earlier decisions in the run
  Action what;        ///< the action
  Step at_step = 0;   ///< first step of the effect; 0: at once
  /// Membership epoch that the decision requires; the decision expires once the job has another
  /// epoch. Without this field, a setting that waits for its step still expires at a change of
  /// membership, because it was meant for the earlier ranks, unless it was decided with a pending
  /// assignment; an assignment does not expire, because it names all of its ranks.
  std::optional<Epoch> if_epoch = {};
  Nanos expires = kNever;  ///< last instant, on the policy clock, at which the decision is valid
  /// Group number. Decisions of one call with the same number other than 0 are applied together, in
  /// their order, or all get the same rejection or expiry: for example, one job leaves and another
  /// job gets its GPUs. Decisions of a group are applied at once: a group with an at_step other
  /// than 0 is rejected, and so is a group with a setting that changes steps, unless the group
  /// assigns the setting's job: the setting starts with the assignment.
  std::uint32_t group = 0;
  std::string why = {};  ///< reason of the decision for people, one line
};

/// Annotation of a policy, recorded in the log for people and tools. Has no effect on the run.
struct Note {
  std::string key;
  std::variant<double, std::string> value;
};

/// Decisions of one call of observe(), with the wake-up times, the idle promise and the annotations
/// of the policy.
/// For example, decisions.add(Configure{job, Shares{{13, 13, 1, 13}}}, "replica 2 is slow").at_step
/// = 12 changes the shares from step 12 on. Plain value.
class DecisionList {
 public:
  /// Constructs an empty list; `next` is the id of the first decision to add.
  explicit DecisionList(DecisionId next = 0) : next_(next) {}

  /// Adds a decision and returns a reference to it, valid until the next change of the list. The
  /// decision has its final id, next(), which then increases by 1, so that a policy can recognise
  /// the outcomes of its own decisions.
  Decision& add(Action what, std::string why) {
    items_.push_back({.id = next_++, .what = std::move(what), .why = std::move(why)});
    return items_.back();
  }
  /// Requests one call of observe() at the instant `at` of the policy clock, or now if `at` is
  /// past.
  void wake(Nanos at) { wakes_.push_back(at); }
  /// Promises, until clear(), that the policy would decide nothing as long as no event happens and
  /// all samples stay unchanged. A backend may then skip ticks. Every event and every wake-up ends
  /// the promise; on real ranks samples always change: a live run shows every step, and sends ticks
  /// within a step again once the step takes a quarter longer than the previous step.
  void rest() { at_rest_ = true; }
  /// Returns a group number that no decision of this list has, apart from those of put_decision();
  /// see Decision::group.
  std::uint32_t new_group() { return ++groups_; }

  /// Adds an annotation to the log, for example add_note("slow ranks", 3).
  void add_note(std::string key, std::variant<double, std::string> value) {
    notes_.push_back({std::move(key), std::move(value)});
  }

  /// Moves the decisions, wake-up times and annotations of `other` to the end of this list. Groups
  /// of `other` get new numbers; ids stay, so `other` must have been constructed with next() of
  /// this list, whose next() becomes that of `other`. Ignores the idle promise and the give_up() of
  /// `other`. Leaves `other` without decisions, wake-up times and annotations; all else stays.
  void append_list(DecisionList&& other);
  /// Removes decisions, wake-up times, groups, annotations, the idle promise and the reason of
  /// give_up(); the next id stays.
  void clear() {
    items_.clear();
    wakes_.clear();
    notes_.clear();
    groups_ = 0;
    at_rest_ = false;
    given_up_.clear();
  }
  /// Clears the list and lets later decisions reuse the ids of the removed decisions. Invalid if
  /// put_decision() has added one of them.
  void drop_all() {
    next_ -= items_.size();
    clear();
  }

  /// Marks the list as that of a call whose policies the run has given up because of `why`, which
  /// must not be empty. Not for policies.
  void give_up(std::string why) { given_up_ = std::move(why); }

  /// Returns the reason for which the run gave up its policies in this call; empty: it did not.
  const std::string& given_up() const { return given_up_; }
  /// Returns the decisions in the order in which they were added.
  const std::vector<Decision>& items() const { return items_; }
  /// Returns the instants at which the policy requests a call.
  const std::vector<Nanos>& wake_times() const { return wakes_; }
  /// Returns the annotations in the order in which they were added.
  const std::vector<Note>& notes() const { return notes_; }
  /// Returns true if rest() was called since the last clear().
  bool is_resting() const { return at_rest_; }
  /// Returns the id of the next decision.
  DecisionId next() const { return next_; }
  /// Adds a decision that has an id already, for example a decision that a decorator forwards.
  /// next() and the numbers of new_group() stay.
  void put_decision(Decision decision) { items_.push_back(std::move(decision)); }

 private:
  std::vector<Decision> items_;
  std::vector<Nanos> wakes_;
  std::vector<Note> notes_;
  DecisionId next_;
  std::uint32_t groups_ = 0;
  bool at_rest_ = false;
  std::string given_up_;  ///< argument of give_up()
};

}  // namespace orrery
