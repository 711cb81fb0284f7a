// Several futures of a run from one instant of its policy clock on. The process that simulates the
// run forks for every future, so all futures begin with the same world, policies and simulator, at
// the price of the pages that they change. The process itself does not continue; it forwards the
// result of each future. Used by the worker (run/worker.cpp); one thread. Futures differ by the
// randomness after the instant, drawn from the run's seed and the future's number, so that two
// policies meet the same randomness in the same future.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/process.hpp"
#include "policies/seam/stack.hpp"
#include "traces/run.pb.h"

namespace orrery {

/// Returns true if the choice changes policies or adds decisions.
inline bool says_something(const FutureChoice& choice) {
  return choice.policies_size() > 0 || choice.decisions_size() > 0;
}
/// Returns true if one of the futures is the unchanged run.
bool has_unforked(const FuturesOrder& order);

/// Description of one forked process.
struct Future {
  std::uint32_t number = 0;
  const FutureChoice* choice = nullptr;  ///< change of this future; null: none

  /// Returns true for the run as it would continue without futures.
  bool is_unforked() const { return number == 0 && !has_difference(); }
  /// Returns true if policies or decisions of this future differ from the run's.
  bool has_difference() const { return choice != nullptr && says_something(*choice); }
  /// Returns the seed of all randomness after the instant; nothing: unchanged.
  std::optional<std::uint64_t> seed(std::uint64_t run_seed) const;
};

/// Exception of begin_futures() in the parent process after all futures have ended.
struct FuturesEnded {};

/// Forks one process for every future of `order`, which must outlive the call, and returns in each
/// of them. Their kChildDescriptor leads to the parent, which passes the Report or Failure of each
/// future to `tell`, in order, also for futures that died.
Future begin_futures(const FuturesOrder& order,
                     const std::function<void(const WorkerMessage&)>& tell);

/// Adds the metrics of each future after the instant. `steps`: number of steps of the whole run.
void look_ahead(Step steps, FuturesReport& all);

/// Policies that other policies may replace during a run. A new policy with the name of a previous
/// one continues with that one's state. Earlier events are not repeated: the observation's world
/// contains them.
class Succession : public Policy {
 public:
  /// Constructs a succession; `first` must outlive it.
  explicit Succession(Policy& first, const PolicyStack& members)
      : current_(&first), members_(&members) {}

  /// Lets `heirs` decide from the next observation on; null: no change of policies. Adds
  /// `decisions` at that observation, after theirs.
  void replace_policies(std::unique_ptr<PolicyStack> heirs, std::vector<Decision> decisions);
  /// Sets the callback that receives the needs of the heirs before their first call.
  void on_needs(std::function<void(const Needs&)> tell) { tell_needs_ = std::move(tell); }

  Needs needs() const override { return current_->needs(); }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override {
    current_->start(context, cluster, parameters);
  }
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override { current_->save(archive); }
  void load(const Archive& archive) override { current_->load(archive); }

 private:
  void take_over(Context& context, const Cluster& cluster);

  Policy* current_;
  const PolicyStack* members_;
  std::unique_ptr<PolicyStack> heirs_;
  bool waiting_ = false;  ///< the heirs have not been called yet
  std::vector<Decision> given_;
  std::function<void(const Needs&)> tell_needs_;
};

}  // namespace orrery
