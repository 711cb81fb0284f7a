// Several policies as one. Members are called in the order of the scenario's list; two decisions on
// one subject in one batch are an error that names both members. The stack rests only if all
// members rest. Ticks come at the shortest period that any member needs, and every member sees all
// of them. Each member has a random generator of its own, so another member changes nothing for the
// others. The operator's ParameterSet replaces a member by a new policy with the state of the
// previous one. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "policies/seam/policy.hpp"

namespace orrery {

/// Policy that calls its members in order and merges their decisions.
class PolicyStack : public Policy {
 public:
  /// One policy with its name and parameters.
  struct Member {
    std::string name;
    std::unique_ptr<Policy> policy;
    std::unique_ptr<google::protobuf::Message> parameters;  ///< may be null
    /// Constructs another policy of the same kind; absent: the parameters cannot change.
    std::unique_ptr<Policy> (*make)() = nullptr;
  };
  explicit PolicyStack(std::vector<Member> members);
  ~PolicyStack() override;

  Needs needs() const override;
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override;
  void load(const Archive& archive) override;
  bool has_changed() const override;
  /// Returns the members in the order of the scenario.
  const std::vector<Member>& members() const { return members_; }

 private:
  /// Calls one member with an observation and appends its decisions.
  void ask_member(std::size_t member, const Context& context, const Observation& seen,
           DecisionList& decisions);
  /// Replaces a member by one with the new parameter; does nothing if no member of that name
  /// supports the change.
  void set_parameter(const ParameterSet& event);
  [[noreturn]] void report_conflict(std::size_t first, std::size_t second, const Action& what,
                                    Nanos now) const;

  std::vector<Member> members_;
  std::vector<Rng> rngs_;  ///< one generator for each member, from start() on
  std::vector<ParameterSet> set_;  ///< changes by the operator, in order
  const Cluster* cluster_ = nullptr;  ///< cluster that start() received
  Capabilities offered_;
  /// saved state of one member; reused, because it may be megabytes each time
  mutable Archive own_;
  Archive known_;          ///< saved state of a member at the time of its rest()
};

}  // namespace orrery
