// Several futures of a run from one instant of its policy clock on. The process that simulates the
// run forks one process for every future, so all futures begin with the same world, policies and
// simulator; only memory pages that a future changes are copied. The original process does not
// simulate further: it forwards the result of each future. Used by the worker (run/worker.cpp); one
// thread. The random numbers after the instant come from the seed of the run and the number of the
// future, so that two policies meet the same randomness in the same future.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/process.hpp"
#include "policies/run/remote_policy.hpp"
#include "policies/seam/stack.hpp"
#include "traces/run.pb.h"

namespace orrery {

/// Returns true if the choice replaces the policies of the run or adds decisions.
inline bool says_something(const FutureChoice& choice) {
  return choice.policies_size() > 0 || choice.decisions_size() > 0 || choice.outside();
}
/// Returns true if one of the futures is the unchanged run: future 0 without a choice, or with a
/// choice that changes nothing.
bool has_unforked(const FuturesOrder& order);
/// Throws a usage Error if the request asks for a log and none of its futures is the unchanged run.
void check_log_of_futures(const RunRequest& request);

/// Description of the future that a forked process simulates.
struct Future {
  std::uint32_t number = 0;              ///< number of the randomness; 0: that of the run
  const FutureChoice* choice = nullptr;  ///< policies and decisions of this future; null: the run's

  /// Returns true if this future equals the run as it would continue without futures.
  bool is_unforked() const { return number == 0 && !has_difference(); }
  /// Returns true if policies or decisions of this future differ from the run's.
  bool has_difference() const { return choice != nullptr && says_something(*choice); }
  /// Returns the seed of all randomness after the instant; nothing for future 0, which continues
  /// with the random numbers of the run.
  std::optional<std::uint64_t> seed(std::uint64_t run_seed) const;
};

/// Exception that begin_futures() throws in the parent process after all futures have ended. It
/// ends the simulation of the parent.
struct FuturesEnded {};

/// Forks one process for every future of `order` and returns in each forked process; `order` must
/// outlive the result. At most order.at_once() processes run at once (0: one for each usable CPU).
/// The kChildDescriptor of a forked process leads to the parent. The parent does not return: it
/// blocks until all futures have ended, passes the FutureEnd of each with its Report or Failure to
/// `tell`, in the order of number and choice, and throws FuturesEnded. A future whose process died
/// counts as a Failure. Call with one thread only. Throws an environment Error if no process can be
/// created.
Future begin_futures(const FuturesOrder& order,
                     const std::function<void(const WorkerMessage&)>& tell);

/// Returns the only future that this process simulates, order.only_future() under
/// order.only_choice(); `order` must outlive the result.
Future only_future(const FuturesOrder& order);

/// Writes to each future of `all` with a report its metrics after the instant: completed steps,
/// goodput if the fault-free step time is known, and, if the run completed, its end. `steps`:
/// number of steps of the whole run. A future without a report gets nothing. The goodput is at most
/// 1. For example, 100 steps of 1 s without faults in 125 s are a goodput of 0.8.
void look_ahead(Step steps, FuturesReport& all);

/// Policy that forwards to the policies of a run and lets other policies (heirs) take over during
/// the run. An heir with the name of a previous policy continues with the state of that policy.
/// Events before the takeover are not repeated for the heirs, because the World of the next
/// observation contains their effects.
class Succession : public Policy {
 public:
  /// Constructs a succession that begins with the policy `first`, whose members are `members`. Both
  /// must outlive the succession.
  explicit Succession(Policy& first, const PolicyStack& members)
      : current_(&first), members_(&members) {}

  /// Lets `heirs`, not started yet, decide from the next observation on, which starts them; null:
  /// the policies stay. Adds `decisions` to the next observation, after the decisions of the
  /// policies, with new ids. Replaces heirs and decisions of a call before that observation.
  void replace_policies(std::unique_ptr<PolicyStack> heirs, std::vector<Decision> decisions);
  /// Sets the policy for replace_outside(), which must outlive the succession and be a member of
  /// the first policy.
  void set_outside(RemotePolicy& outside) { outside_ = &outside; }
  /// Lets the heirs of the outside policy, which are in its process, decide from the next
  /// observation on, and adds `decisions` as replace_policies() does. Several calls before that
  /// observation let that many heirs take over, one after the other; the decisions of the last
  /// count.
  void replace_outside(std::vector<Decision> decisions);
  /// Sets the function that receives the needs of the heirs, within observe(), before their first
  /// call.
  void on_needs(std::function<void(const Needs&)> tell) { tell_needs_ = std::move(tell); }

  Needs needs() const override { return current_->needs(); }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override {
    current_->start(context, cluster, parameters);
  }
  /// Lets waiting heirs take over: starts them, loads the states of previous policies of the same
  /// names, and reports their needs; heirs of the outside policy likewise. Then calls the policies
  /// that decide and adds the decisions of replace_policies(), once. Exceptions of the policies
  /// pass through.
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  /// Writes the state of the policies that decide now, without waiting heirs and decisions.
  void save(Archive& archive) const override { current_->save(archive); }
  /// Restores the state of the policies that decide now.
  void load(const Archive& archive) override { current_->load(archive); }

 private:
  void take_over(Context& context, const Cluster& cluster);

  Policy* current_;
  const PolicyStack* members_;
  std::unique_ptr<PolicyStack> heirs_;    ///< heirs that decide; null: the first policy decides
  std::unique_ptr<PolicyStack> waiting_;  ///< heirs that take over at the next observation
  RemotePolicy* outside_ = nullptr;
  int outside_heirs_ = 0;        ///< heirs of `outside_` that take over at the next observation
  std::vector<Decision> given_;  ///< decisions to add at the next observation
  std::function<void(const Needs&)> tell_needs_;
};

}  // namespace orrery
