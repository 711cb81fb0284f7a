#include "policies/run/outside_policies.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "policies/record/past.hpp"
#include "policies/run/registry.hpp"
#include "policies/seam/saved_state.hpp"

namespace orrery {
namespace {

HostPolicy* host_of(const PolicyStack::Member& member) {
  return dynamic_cast<HostPolicy*>(member.policy.get());
}

}  // namespace

// ---- one stack --------------------------------------------------------------------------------

void OutsideStack::start(Context& context, const Cluster& cluster,
                         const google::protobuf::Message* parameters) {
  stack_.reset();  // ends the processes of an earlier run
  stack_ = make_();
  for (const PolicyStack::Member& member : stack_->members()) {
    auto* waiting = dynamic_cast<WaitingPolicy*>(member.policy.get());
    if (waiting != nullptr) waiting->on_wait([this] { return withdrawn_ && withdrawn_(); });
  }
  stack_->start(context, cluster, parameters);
}

void OutsideStack::observe(Context& context, const Observation& seen, DecisionList& decisions) {
  stack_->observe(context, seen, decisions);
  for (const PolicyStack::Member& member : stack_->members()) {
    if (auto* const host = host_of(member)) host->announce_others(decisions);
  }
}

void OutsideStack::announce_decision(const Decision& decision) {
  for (const PolicyStack::Member& member : stack_->members()) {
    if (auto* const host = host_of(member)) host->announce_decision(decision);
  }
}

void OutsideStack::follow_observation(const Context& context, const Observation& seen,
                                      const DecisionList& decisions) {
  for (const PolicyStack::Member& member : stack_->members()) {
    if (auto* const host = host_of(member)) host->follow_observation(context, seen);
  }
  for (const Decision& decision : decisions.items()) announce_decision(decision);
}

void OutsideStack::take_states_from(const OutsideStack& previous) {
  for (const PolicyStack::Member& heir : stack_->members()) {
    for (const PolicyStack::Member& member : previous.stack_->members()) {
      if (member.name == heir.name) transfer_state(*member.policy, *heir.policy, heir.name);
    }
  }
}

// ---- several stacks ---------------------------------------------------------------------------

void OutsideSuccession::start(Context& context, const Cluster& cluster,
                              const google::protobuf::Message* parameters) {
  for (const auto& stack : stacks_) stack->start(context, cluster, parameters);
}

void OutsideSuccession::observe(Context& context, const Observation& seen,
                                DecisionList& decisions) {
  stacks_[deciding_]->observe(context, seen, decisions);
  for (std::size_t i = deciding_ + 1; i < stacks_.size(); ++i) {
    stacks_[i]->follow_observation(context, seen, decisions);
  }
}

void OutsideSuccession::on_wait(std::function<bool()> withdrawn) {
  for (std::size_t i = deciding_; i < stacks_.size(); ++i) stacks_[i]->on_wait(withdrawn);
}

void OutsideSuccession::announce_decision(const Decision& decision) {
  for (std::size_t i = deciding_; i < stacks_.size(); ++i) stacks_[i]->announce_decision(decision);
}

void OutsideSuccession::activate_heirs() {
  ensure(deciding_ + 1 < stacks_.size(), "only policies with heirs are replaced");
  stacks_[deciding_ + 1]->take_states_from(deciding());
  stacks_[deciding_++].reset();
}

// ---- the stacks of a run ----------------------------------------------------------------------

bool have_same_policies(const Scenario& a, const Scenario& b) {
  return std::equal(a.policies().begin(), a.policies().end(), b.policies().begin(),
                    b.policies().end(), [](const PolicySpec& one, const PolicySpec& other) {
                      return one.SerializeAsString() == other.SerializeAsString();
                    });
}

std::uint64_t policy_seed(const RunRequest& request) {
  return request.has_from() ? log_header(request.from().path()).seed()
                            : request.scenario().run().seed();
}

std::unique_ptr<Policy> outside_succession(RunRequest& request, OutsidePolicies own,
                                           StackMaker heirs) {
  std::vector<std::unique_ptr<OutsideStack>> stacks;
  if (request.has_from()) {
    const LogHeader header = log_header(request.from().path());
    const auto &then = header.outside_policies(), &now = request.policy_outside_names();
    const bool same =
        header.policy_outside() == own.replace_scenario &&
        (own.replace_scenario ? std::equal(then.begin(), then.end(), now.begin(), now.end())
                              : have_same_policies(header.scenario(), request.scenario()));
    request.set_policy_outside_heirs(!same);
    Scenario first = header.scenario();
    if (header.policy_outside()) first.clear_policies();
    if (!same) {
      stacks.push_back(
          std::make_unique<OutsideStack>([first] { return make_stack(first, SourceMap{}); }));
    }
  }
  stacks.push_back(std::make_unique<OutsideStack>(std::move(own.make)));
  if (heirs) stacks.push_back(std::make_unique<OutsideStack>(std::move(heirs)));
  return std::make_unique<OutsideSuccession>(std::move(stacks));
}

}  // namespace orrery
