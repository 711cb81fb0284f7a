// A run that becomes several at an instant of its policy clock: the process in which it is
// simulated forks for every future, so all of them begin with the same world, policies and
// simulator, at the price of the pages that they change. The process itself goes no further: it
// passes on how each ended. Used by the worker (run/worker.cpp); one thread. What differs between
// futures is the randomness after the instant, drawn from the run's seed and the future's number,
// so that two policies meet the same in the same future.
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

inline bool says_something(const FutureChoice& choice) {
  return choice.policies_size() > 0 || choice.decisions_size() > 0;
}
/// One of the futures is the run as it goes on without any.
bool has_unforked(const FuturesOrder& order);

/// One of the processes that a run has become.
struct Future {
  std::uint32_t number = 0;
  const FutureChoice* choice = nullptr;  ///< what it does otherwise; null: nothing

  /// The run as it goes on without any futures.
  bool unforked() const { return number == 0 && !differs(); }
  bool differs() const { return choice != nullptr && says_something(*choice); }
  /// Of what is random from the instant on; nothing: as before.
  std::optional<std::uint64_t> seed(std::uint64_t run_seed) const;
};

/// What futures() throws in the process that has forked them, when all have ended.
struct FuturesEnded {};

/// Forks one process for every future of `order`, which outlives this; returns in each of them.
/// Their kChildDescriptor leads to this process: the Report or Failure that comes there is passed
/// on to `tell`, in order, also of those that die.
Future begin_futures(const FuturesOrder& order,
                     const std::function<void(const WorkerMessage&)>& tell);

/// Fills in what each future brought after the instant. `steps`: of the whole run.
void look_ahead(Step steps, FuturesReport& all);

/// Policies that others may succeed: a newcomer of a name that one of them has goes on with that
/// one's state. What stood before is not told again: it is in the world that an observation shows.
class Succession : public Policy {
 public:
  /// `first` outlives this.
  explicit Succession(Policy& first, const PolicyStack& members)
      : current_(&first), members_(&members) {}

  /// From the next observation on `heirs` decide; null: the same as before. `decisions` are taken
  /// at that observation, after theirs.
  void succeed(std::unique_ptr<PolicyStack> heirs, std::vector<Decision> decisions);
  /// Called with what the heirs need, before they are asked.
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
  bool waiting_ = false;  ///< the heirs have not been asked yet
  std::vector<Decision> given_;
  std::function<void(const Needs&)> tell_needs_;
};

}  // namespace orrery
