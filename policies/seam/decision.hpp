// Actions and decisions of policies. Three actions: place a job, set one of its settings, save it
// now. A new kind is a struct and an alternative of Action, its message in trace.proto, and its
// checks and effect in world_actions.cpp; its name in logs and in Python follows from the message.
// Plain values.
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

/// Placement of a job from now on: one action for starting, growing, shrinking, moving, replacing
/// lost ranks (in place or by spares), restarting, and (without GPUs) leaving the cluster. With
/// `at_step` 0 the current step is abandoned; otherwise the assignment happens between two steps.
struct Assign {
  JobId job;
  GpuRuns gpus = {};
  ParallelLayout layout = {};
  StateFrom state = StateFrom::none;

  /// Returns true if the job leaves the cluster.
  bool is_release() const { return gpus.empty(); }
};
/// Value of one setting of a job. With `at_step` 0 a setting that changes steps applies from the
/// next step on.
struct Configure {
  JobId job;
  Setting what;
};
/// Order to write a checkpoint after the next step that begins.
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
/// Returns true if the action takes effect only at a step boundary.
bool waits_for_step(const Action& action);

using DecisionId = std::uint64_t;
/// Action of a policy with the conditions under which the action is valid.
struct Decision {
  DecisionId id = 0;  ///< counts from 0 over the whole run
  Action what;
  Step at_step = 0;                    ///< first step of the effect; 0: at once
  /// Membership epoch that the decision requires; the decision expires once the job has another
  /// epoch. Without an epoch, a setting that waits for its step still expires at a change of
  /// membership, because it was meant for the earlier ranks; an assignment does not, because it
  /// names all of its ranks.
  std::optional<Epoch> if_epoch = {};
  Nanos expires = kNever;              ///< the decision expires after this instant
  /// Group number. Decisions of one call with the same number other than 0 are applied together or
  /// not at all, in their order: for example, one job leaves and another gets its GPUs.
  std::uint32_t group = 0;
  std::string why = {};  ///< reason for people, one line
};

/// Decisions of one call of observe(), with the wake-up times and the idle promise of the policy.
class DecisionList {
 public:
  explicit DecisionList(DecisionId next = 0) : next_(next) {}

  /// Adds a decision and returns it. The id is known at once, so that a policy can recognise the
  /// outcomes of its own decisions.
  Decision& add(Action what, std::string why) {
    items_.push_back({.id = next_++, .what = std::move(what), .why = std::move(why)});
    return items_.back();
  }
  /// Requests a call (a Tick) at the instant `at`, once. Decides nothing.
  void wake(Nanos at) { wakes_.push_back(at); }
  /// Promises that the policy would decide nothing as long as no event happens and samples stay
  /// unchanged. A backend may then skip ticks; every event and wake-up ends the promise. On real
  /// ranks samples always change: every step is shown, and within a step ticks return once the step
  /// takes a quarter longer than the previous one.
  void rest() { at_rest_ = true; }
  /// Returns a new number for decisions that are applied together.
  std::uint32_t new_group() { return ++groups_; }

  /// Appends the decisions of another list.
  void append_list(DecisionList&& other);
  /// Removes everything except the next id.
  void clear() {
    items_.clear();
    wakes_.clear();
    groups_ = 0;
    at_rest_ = false;
  }
  /// Removes the decisions and returns their ids.
  void drop_all() {
    next_ -= items_.size();
    clear();
  }

  const std::vector<Decision>& items() const { return items_; }
  const std::vector<Nanos>& wake_times() const { return wakes_; }
  /// Returns true if rest() was called.
  bool is_resting() const { return at_rest_; }
  /// Returns the id of the next decision.
  DecisionId next() const { return next_; }
  /// Adds a decision that has an id already, for example from a log. For decorators.
  void put_decision(Decision decision) { items_.push_back(std::move(decision)); }

 private:
  std::vector<Decision> items_;
  std::vector<Nanos> wakes_;
  DecisionId next_;
  std::uint32_t groups_ = 0;
  bool at_rest_ = false;
};

}  // namespace orrery
