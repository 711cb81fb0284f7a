// Combination of several policies into one policy. Members are called in the order of the
// scenario's list. If two members decide about one subject in one call, the run ends with an error
// that names both; a subject is a kind of action, for Configure a setting, of one job. The stack
// rests only if all members rest. Ticks come at the shortest period that any member needs, and
// every member sees all ticks. Each member has its own random generator, derived from its name, so
// that adding or removing a member does not change the random numbers of the others. Used by
// run/registry.cpp, which builds the stack of a scenario. One thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "policies/seam/policy.hpp"

namespace orrery {

/// Policy that calls its members in order and merges their decisions. Owns the members. A
/// ParameterSet event of the operator replaces a member by a new policy that continues with the
/// previous state.
class PolicyStack : public Policy {
 public:
  /// Policy of the stack with its name and parameters.
  struct Member {
    std::string name;
    std::unique_ptr<Policy> policy;
    std::unique_ptr<google::protobuf::Message> parameters;  ///< argument of start(); may be null
    /// factory of another policy of the same kind; null: the parameters cannot change
    std::unique_ptr<Policy> (*make)() = nullptr;
  };
  /// Constructs a stack of these members, in the order of their calls.
  explicit PolicyStack(std::vector<Member> members);
  ~PolicyStack() override;

  /// Returns the union of the members' actions and settings, their shortest tick (0 if no member
  /// needs ticks), and `step_times` if any member needs it.
  Needs needs() const override;
  /// Starts each member in order, with its own parameters and random generator; ignores
  /// `parameters`. Throws an internal Error if called twice; exceptions of members pass through.
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  /// Carries out the ParameterSet events (an event for an unknown member, or for a member without
  /// `make`, is ignored), then calls all members and appends their decisions. Throws bad_input if
  /// two members decide about one subject or a parameter is invalid, an internal Error before
  /// start(); exceptions of members pass through.
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  /// Appends the state of each member with its name, its state version and its random generator,
  /// and the changes of parameters.
  void save(Archive& archive) const override;
  /// Loads all members, which must be those of the saved stack in the same order, their random
  /// generators, and repeats the saved changes of parameters. Call after start() and before any
  /// ParameterSet event, whose change would remain. Throws an internal Error for an archive that
  /// ends within a value, or if a changed parameter belongs to no member, and bad_input if the
  /// member refuses the parameter, if a member has another name than the saved one, or if a member
  /// cannot convert the version of its state (saved_state.hpp); an archive without its last changes
  /// is not recognised. Errors of members pass through; the state of the stack is undefined then.
  void load(const Archive& archive) override;
  /// Returns true if the state of at least one member has changed in the last observe(), or a
  /// parameter since the newest save() or load(); changes of random generators do not count.
  bool has_changed() const override;
  /// Returns the members in the order of their calls. A ParameterSet event replaces the policy of a
  /// member, so a pointer to it is valid until the next observe() or load().
  const std::vector<Member>& members() const { return members_; }
  /// Returns the name of the member that was called last; the first one's before any call, and
  /// "static" without members. The only method that another thread may call meanwhile.
  std::string last_called() const;

 private:
  /// Calls one member with an observation and appends its decisions.
  void ask_member(std::size_t member, const Context& context, const Observation& seen,
                  DecisionList& decisions);
  /// Replaces the named member by a policy with the new parameter and the same state; does nothing
  /// if no member of that name can change its parameters.
  void set_parameter(const ParameterSet& event);
  /// Throws bad_input about two members that decide about one subject.
  [[noreturn]] void report_conflict(std::size_t first, std::size_t second, const Action& what,
                                    Nanos now) const;

  std::vector<Member> members_;
  std::vector<Rng> rngs_;             ///< one generator for each member, from start() on
  std::vector<ParameterSet> set_;     ///< parameter changes by the operator, in order
  mutable std::size_t saved_ = 0;     ///< number of them at the newest save() or load()
  const Cluster* cluster_ = nullptr;  ///< cluster that start() received
  Capabilities offered_;
  /// Buffer for the state of one member: of save(), and of a resting member before a call that may
  /// be undone. Kept, because a state may have megabytes.
  mutable Archive own_;
  std::atomic<std::size_t> asked_ = 0;  ///< index of the member that was called last
};

}  // namespace orrery
