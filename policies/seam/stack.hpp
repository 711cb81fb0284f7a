// Several policies as one. Members are called in the order of the scenario's list; two decisions on
// one subject in one batch are an error that names both. At rest only when all members are. Ticks
// come at the shortest period that any member wants, and every member sees all of them. Each member
// has a generator of its own, so adding one changes nothing for the others. A parameter that the
// operator sets (ParameterSet) is a fresh policy with the state of the one before it. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "policies/seam/policy.hpp"

namespace orrery {

class PolicyStack : public Policy {
 public:
  struct Member {
    std::string name;
    std::unique_ptr<Policy> policy;
    std::unique_ptr<google::protobuf::Message> parameters;  ///< may be null
    /// Another one of the same kind; absent: its parameters stay as they are.
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
  bool changed() const override;
  const std::vector<Member>& members() const { return members_; }

 private:
  void ask(std::size_t member, const Context& context, const Observation& seen,
           DecisionList& decisions);
  /// Nothing where no member of that name knows its kind.
  void set(const ParameterSet& event);
  [[noreturn]] void report_conflict(std::size_t first, std::size_t second, const Action& what,
                                    Nanos now) const;

  std::vector<Member> members_;
  std::vector<Rng> rngs_;  ///< one a member, from start() on
  std::vector<ParameterSet> set_;  ///< by the operator, in order
  const Cluster* cluster_ = nullptr;  ///< as start() was given it
  Capabilities offered_;
  mutable Archive own_;    ///< what a member saves; kept, because it may be megabytes each time
  Archive known_;          ///< to a member when it began to rest
};

}  // namespace orrery
