// Policies of one run in a worker process, with the decorators around them. Used by worker.cpp. One
// thread, beside the thread of ThreadedPolicy.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "policies/handover/fallback.hpp"
#include "policies/record/past.hpp"
#include "policies/run/client_policy.hpp"
#include "policies/run/detached_backend.hpp"
#include "policies/run/futures.hpp"
#include "policies/run/policy_meter.hpp"
#include "policies/run/run_backend.hpp"
#include "policies/run/threaded_policy.hpp"
#include "policies/seam/stack.hpp"
#include "traces/run.pb.h"

namespace orrery {

/// Policies of a run, from the inside out: the stack, its thread if the run has its own pace, the
/// decorator that replaces policies that fail, the decorator of futures, the meter. Call
/// connect_world() before any other method.
class RunPolicies {
 public:
  /// Makes the policies of the first call: those in the client's process, those of the log from
  /// which the run continues, or those of the scenario. `past` may be null. `inbox` must outlive
  /// this object. Throws bad_input for policies that cannot be made.
  RunPolicies(const RunRequest& request, const Past* past, ClientInbox& inbox);

  /// Connects the policies with the world of their run, which must outlive this object.
  /// `turned_on`: the state of the run's kill switch. Returns the backend that the policies see,
  /// beside their authority. Call once.
  Backend& connect_world(const RunRequest& request, const RunWorld& world,
                         const std::shared_ptr<const Cluster>& cluster,
                         std::function<bool()> turned_on);

  /// Returns true if no decision may be applied any more, at the newest observation.
  bool is_halted() const { return detached_ ? detached_->is_halted() : read_switch_(); }
  /// Returns true if no policy decides and no policy owes an answer.
  bool is_idle() const { return !detached_ || detached_->is_idle(); }
  /// Restores the saved state of the policies.
  void load(const Archive& state, Nanos failed_at, const World& world);
  /// See SurvivableRun::Memory::show_world.
  void show_world(const World& world);

  /// Returns the policy in the client's process; null if the policies are in this process.
  ClientPolicy* client() { return client_; }
  MeteredPolicy& decider() { return *metered_; }
  Succession& succession() { return *succession_; }
  const FallbackPolicy& fallback() const { return *guarded_; }
  const PolicyMeter& meter() const { return meter_; }

 private:
  PolicyMeter::Rules meter_rules(const RunRequest& request, const RunWorld& world);
  /// Returns a function that names the policy that was called last.
  std::function<std::string()> name_of(const RunRequest& request) const;

  PolicyMeter meter_;
  ClientPolicy* client_ = nullptr;  ///< member of `stack_`
  std::shared_ptr<PolicyStack> stack_;
  std::optional<ThreadedPolicy> threaded_;
  std::optional<FallbackPolicy> guarded_;
  std::optional<Succession> succession_;
  std::optional<MeteredPolicy> metered_;
  std::function<bool()> read_switch_;
  std::optional<DetachedBackend> detached_;
};

}  // namespace orrery
