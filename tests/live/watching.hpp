// Policies of this process for whole runs, live and simulated: the scenario's own, or a test's.
// Records their observations.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "policies/run/registry.hpp"
#include "policies/run/worker.hpp"
#include "policies/seam/policy.hpp"
#include "policies/seam/stack.hpp"

namespace orrery::live {

/// Policy that forwards to another one and records the observations.
class Watching : public Policy {
 public:
  using Says = std::function<void(const Observation&, DecisionList&)>;
  explicit Watching(const Scenario& scenario) : stack_(make_stack(scenario, SourceMap{})) {}
  Watching(Needs needs, Says says) : needs_(needs), says_(std::move(says)) {}

  Needs needs() const override { return stack_ ? stack_->needs() : needs_; }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override {
    if (stack_) stack_->start(context, cluster, parameters);
  }
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
    events_.insert(events_.end(), seen.events.begin(), seen.events.end());
    const auto collectives = seen.samples.collectives({0});
    collectives_.insert(collectives_.end(), collectives.begin(), collectives.end());
    if (stack_) return stack_->observe(context, seen, decisions);
    says_(seen, decisions);
  }

  /// All events of a kind, in order.
  template <class E>
  std::vector<E> all() const {
    std::vector<E> found;
    for (const Event& event : events_) {
      if (const auto* each = std::get_if<E>(&event)) found.push_back(*each);
    }
    return found;
  }
  const std::vector<Event>& events() const { return events_; }
  const std::vector<CollectiveSample>& collectives() const { return collectives_; }

 private:
  std::unique_ptr<PolicyStack> stack_;
  Needs needs_;
  Says says_;
  std::vector<Event> events_;
  std::vector<CollectiveSample> collectives_;
};

/// The newest event of that kind that this observation shows; null: none.
template <class E>
const E* shown(const Observation& seen) {
  const E* found = nullptr;
  for (const Event& event : seen.events) {
    if (const auto* each = std::get_if<E>(&event)) found = each;
  }
  return found;
}

}  // namespace orrery::live
