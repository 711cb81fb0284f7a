#include "policies/run/run_policies.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "policies/handover/hand_over.hpp"
#include "policies/run/registry.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery {
namespace {

std::unique_ptr<PolicyStack> remote_stack(std::unique_ptr<ClientPolicy> policy) {
  std::vector<PolicyStack::Member> members;
  members.push_back({.name = "outside", .policy = std::move(policy), .parameters = nullptr});
  return std::make_unique<PolicyStack>(std::move(members));
}

/// Returns the policies of the first call: those of the log if the run continues from a log, but
/// `static` if the log's policies decided in another process.
std::unique_ptr<PolicyStack> first_stack(const RunRequest& request, const Past* past) {
  if (past == nullptr) return make_stack(request.scenario(), SourceMap{});
  Scenario then = past->header().scenario();
  if (past->header().policy_outside()) then.clear_policies();
  return make_stack(then, SourceMap{});
}

}  // namespace

RunPolicies::RunPolicies(const RunRequest& request, const Past* past, ClientInbox& inbox) {
  if (request.policy_outside()) {
    auto client = std::make_unique<ClientPolicy>(request.policy_outside_needs(), inbox, meter_);
    client_ = client.get();
    stack_ = remote_stack(std::move(client));
  } else {
    stack_ = first_stack(request, past);
  }
}

Backend& RunPolicies::connect_world(const RunRequest& request, const RunWorld& world,
                                    const std::shared_ptr<const Cluster>& cluster,
                                    std::function<bool()> turned_on) {
  if (world.paced != nullptr && !request.policy_outside()) {
    threaded_.emplace(stack_, cluster, meter_);
  }
  guarded_.emplace(threaded_ ? static_cast<Policy&>(*threaded_) : *stack_,
                   request.hand_over().fall_back());
  succession_.emplace(*guarded_, *stack_);
  succession_->on_needs([&world](const Needs& needs) { world.backend->begin(needs); });
  if (client_ != nullptr) succession_->set_outside(*client_);
  metered_.emplace(*succession_, meter_);
  read_switch_ = [on = std::move(turned_on), survivable = world.survivable] {
    return survivable != nullptr ? survivable->is_halted(on()) : on();
  };
  if (world.paced != nullptr && hand_over_mode(request.mode()) == HandOverMode::shadow) {
    detached_.emplace(*world.backend, *world.paced, read_switch_);
  } else if (world.survivable != nullptr) {
    guarded_->on_replay([run = world.survivable] { return run->given_up(); });
  }
  meter_.set_rules(meter_rules(request, world));
  if (world.paced != nullptr) world.paced->watch_policies(meter_);
  return detached_ ? static_cast<Backend&>(*detached_) : *world.backend;
}

void RunPolicies::load(const Archive& state, Nanos failed_at, const World& world) {
  succession_->load(state);
  guarded_->set_failed_at(failed_at);
  show_world(world);
}

void RunPolicies::show_world(const World& world) {
  if (threaded_) threaded_->set_world(world);
  if (detached_) detached_->set_world(world);
}

PolicyMeter::Rules RunPolicies::meter_rules(const RunRequest& request, const RunWorld& world) {
  PolicyMeter::Rules rules{.timeout = request.policy_timeout(), .name = name_of(request)};
  if (detached_) {
    rules.attend = [this] { return detached_->advance_run(); };
    rules.pause_ms = 1;
  } else if (world.operated != nullptr) {
    rules.attend = [run = world.operated] { return run->attend_operator(); };
  }
  return rules;
}

std::function<std::string()> RunPolicies::name_of(const RunRequest& request) const {
  if (!request.policy_outside()) {
    return [stack = stack_] { return "the policy '" + stack->last_called() + "'"; };
  }
  std::vector<std::string> names(request.policy_outside_names().begin(),
                                 request.policy_outside_names().end());
  const std::string one = names.size() == 1 ? "the policy" : "the policies";
  if (names.empty()) return [] { return std::string("the policy outside the run"); };
  return [text = fmt::format("{} '{}'", one, fmt::join(names, "', '"))] { return text; };
}

}  // namespace orrery
