// Policies outside the process of a run, as the client of the run calls them: a stack of programs,
// Python files, Python objects and built-in policies, and a succession of such stacks, in which a
// later stack takes over during the run (futures, runs that continue from a log). One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "policies/run/host_policy.hpp"
#include "policies/run/waiting_policy.hpp"
#include "policies/seam/stack.hpp"
#include "traces/run.pb.h"

namespace orrery {

/// Function that returns the policies of one run, not started.
using StackMaker = std::function<std::unique_ptr<PolicyStack>()>;

/// Stack of policies that is made anew for every run: each program and each Python file in a
/// process of its own (HostPolicy), all other policies in this process.
class OutsideStack : public WaitingPolicy {
 public:
  /// start() calls `make` once for each run.
  explicit OutsideStack(StackMaker make) : make_(std::move(make)) {}

  /// Returns the needs of the members. Call after start().
  Needs needs() const override { return stack_->needs(); }
  /// Ends the processes of an earlier run, and makes and starts the members. Throws as `make`, and
  /// as PolicyStack::start() and HostPolicy::start().
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override { stack_->save(archive); }
  void load(const Archive& archive) override { stack_->load(archive); }
  void on_wait(std::function<bool()> withdrawn) override { withdrawn_ = std::move(withdrawn); }
  void announce_decision(const Decision& decision) override;

  /// Lets the worlds of the members' processes follow an observation on which other policies have
  /// made `decisions`. No member is called. Throws as HostPolicy::observe().
  void follow_observation(const Context& context, const Observation& seen,
                          const DecisionList& decisions);
  /// Continues with the states of the members of `previous` that have the name of a member. Throws
  /// as transfer_state() (saved_state.hpp).
  void take_states_from(const OutsideStack& previous);

 private:
  const StackMaker make_;
  std::function<bool()> withdrawn_;
  std::unique_ptr<PolicyStack> stack_;
};

/// Stacks that decide one after the other in one run. All are started with the run, so that the
/// worlds of their processes follow it; activate_heirs() lets the next stack decide.
class OutsideSuccession : public WaitingPolicy {
 public:
  /// `stacks`: in the order in which they decide; at least one.
  explicit OutsideSuccession(std::vector<std::unique_ptr<OutsideStack>> stacks)
      : stacks_(std::move(stacks)) {}

  /// Returns the needs of the stack that decides.
  Needs needs() const override { return deciding().needs(); }
  /// Starts all stacks, as OutsideStack::start(). Call once.
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  /// Calls the stack that decides; the later ones follow.
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override { deciding().save(archive); }
  void load(const Archive& archive) override { stacks_[deciding_]->load(archive); }
  void on_wait(std::function<bool()> withdrawn) override;
  void announce_decision(const Decision& decision) override;
  /// Lets the next stack decide, with the states of the policies of the same names, and ends the
  /// processes of the previous one.
  void activate_heirs() override;

 private:
  const OutsideStack& deciding() const { return *stacks_[deciding_]; }

  std::vector<std::unique_ptr<OutsideStack>> stacks_;
  std::size_t deciding_ = 0;  ///< index of the stack that decides; those before it are null
};

/// Policies of a run in the client's process, before a choice of its futures.
struct OutsidePolicies {
  StackMaker make;
  /// True if the policies are not those of the scenario; RunRequest::policy_outside_names has their
  /// names then.
  bool replace_scenario = true;
};

/// Returns the policies of a run that has no policy in its own process: `own`, and `heirs` from
/// the instant of a future on, if there are any. If the run continues from a log, the log's
/// policies decide until its end, and sets request.policy_outside_heirs() if `own` are others:
/// `static` stands for policies of the log that were outside its process, unless `own` have their
/// names. Throws bad_input if the log cannot be read.
std::unique_ptr<Policy> outside_succession(RunRequest& request, OutsidePolicies own,
                                           StackMaker heirs = {});

/// Returns true if both scenarios have the same policies with the same parameters.
bool have_same_policies(const Scenario& a, const Scenario& b);

/// Returns the seed of the random numbers of the request's policies: that of the log if the run
/// continues from a log, else that of the scenario. Throws bad_input if the log cannot be read.
std::uint64_t policy_seed(const RunRequest& request);

}  // namespace orrery
