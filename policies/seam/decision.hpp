// What a policy can do. Three actions: where a job stands, how it is set, save it now. A new kind
// is a struct and a place in Action, its message in trace.proto, what stands against it and what it
// does in world_actions.cpp; its name in logs and in Python follows from the message. Plain values.
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

/// Where a job stands from now on: one action for starting, growing, shrinking, moving, replacing
/// lost ranks (in place or by spares), restarting, and (no GPUs) leaving the cluster. At once is at
/// once: a step under way is given up; at a step: between two steps.
struct Assign {
  JobId job;
  GpuRuns gpus = {};
  ParallelLayout layout = {};
  StateFrom state = StateFrom::none;

  bool leaves() const { return gpus.empty(); }
};
/// One knob of one job. At once is: from the next step on, where it changes steps.
struct Configure {
  JobId job;
  Setting what;
};
/// A checkpoint after the next step that begins.
struct Save {
  JobId job;
  Tier tier = Tier::storage;
};
using Action = std::variant<Assign, Configure, Save>;

JobId job_of(const Action& action);
/// "Assign", "Configure", "Save".
std::string_view action_name(const Action& action);
/// "Shares", "CollectiveTable", ...: the name of the setting's type.
std::string_view setting_name(const Setting& setting);
/// In the order of the variants.
std::span<const std::string_view> action_names();
std::span<const std::string_view> setting_names();
/// Takes effect with a step, never within one.
bool waits_for_step(const Action& action);

using DecisionId = std::uint64_t;
struct Decision {
  DecisionId id = 0;  ///< counts from 0 over the whole run
  Action what;
  Step at_step = 0;                    ///< first step it holds for; 0: at once
  /// Void once the job's membership is another. Without it a setting that waits for its step is
  /// void then, for it was meant for those ranks; an assignment is not: it names all of its own.
  std::optional<Epoch> if_epoch = {};
  Nanos expires = kNever;              ///< void after this instant
  /// Decisions of one call with the same number other than 0 hold together or not at all, in their
  /// order: a job leaves, another takes its GPUs.
  std::uint32_t group = 0;
  std::string why = {};  ///< for people: one line
};

/// What observe() hands back.
class DecisionList {
 public:
  explicit DecisionList(DecisionId next = 0) : next_(next) {}

  /// Its id is known at once, so that a policy can tell its own outcomes from others'.
  Decision& add(Action what, std::string why) {
    items_.push_back({.id = next_++, .what = std::move(what), .why = std::move(why)});
    return items_.back();
  }
  /// Call me at that instant (a Tick), once. Decides nothing.
  void wake(Nanos at) { wakes_.push_back(at); }
  /// Promise: while nothing happens and samples stay as they are, nothing would be decided. Lets a
  /// backend skip the ticks in between; an event or a wake-up always ends the rest. On real ranks
  /// samples never stay as they are: every step is shown, and within one there are ticks again once
  /// it takes a quarter longer than the one before.
  void rest() { at_rest_ = true; }
  /// A number for a group of decisions that hold together.
  std::uint32_t new_group() { return ++groups_; }

  /// What another one decided, behind this one's.
  void append(DecisionList&& other);
  /// Forgets everything but the next id.
  void clear() {
    items_.clear();
    wakes_.clear();
    groups_ = 0;
    at_rest_ = false;
  }
  /// Drops what was decided and gives the ids back.
  void drop() {
    next_ -= items_.size();
    clear();
  }

  const std::vector<Decision>& items() const { return items_; }
  const std::vector<Nanos>& wakes() const { return wakes_; }
  bool at_rest() const { return at_rest_; }
  DecisionId next() const { return next_; }
  /// Decisions with ids of their own, as recorded or as let through; for decorators.
  void put(Decision decision) { items_.push_back(std::move(decision)); }

 private:
  std::vector<Decision> items_;
  std::vector<Nanos> wakes_;
  DecisionId next_;
  std::uint32_t groups_ = 0;
  bool at_rest_ = false;
};

}  // namespace orrery
