// Policy and backend that record each other's actions, for the tests of decorators between them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "policies/seam/drive.hpp"
#include "tests/policies/toy.hpp"

namespace orrery::toy {

/// Policy that makes a given decision once, at a given call, and records the others' actions.
class Scripted : public Policy {
 public:
  Scripted(Needs needs, std::vector<Action> actions, bool rests = true)
      : needs_(needs), actions_(std::move(actions)), rests_(rests) {}
  Needs needs() const override { return needs_; }
  void start(Context& context, const Cluster&, const google::protobuf::Message*) override {
    first_random = context.rng.next();
  }
  void observe(Context&, const Observation& seen, DecisionList& decisions) override {
    if (calls++ == 0) order().push_back(this);
    for (const Event& event : seen.events) {
      const auto* outcome = std::get_if<Decided>(&event);
      if (outcome != nullptr) outcomes.push_back(outcome->decision);
    }
    if (seen.sequence == 1) {
      for (const Action& action : actions_) ids.push_back(decisions.add(action, "scripted").id);
    }
    if (rests_) decisions.rest();
  }
  void save(Archive& archive) const override { archive = std::to_string(calls); }
  void load(const Archive& archive) override { calls = std::stoi(archive); }

  /// Returns the called policies, in order, since the list was cleared.
  static std::vector<const Scripted*>& order() {
    static std::vector<const Scripted*> asked;
    return asked;
  }
  std::uint64_t first_random = 0;
  std::vector<DecisionId> ids, outcomes;  ///< its own decisions; all shown outcomes
  int calls = 0;

 private:
  Needs needs_;
  std::vector<Action> actions_;
  bool rests_;
};

inline std::unique_ptr<Scripted> idle(Needs needs, bool rests = true) {
  return std::make_unique<Scripted>(needs, std::vector<Action>{}, rests);
}

/// Backend that records the decisions that reached it.
class Witness : public ToyBackend {
 public:
  using ToyBackend::ToyBackend;
  void begin(const Needs& needs) override {
    begun = needs;
    ToyBackend::begin(needs);
  }
  void apply(const DecisionList& decisions) override {
    for (const Decision& decision : decisions.items()) ids.push_back(decision.id);
    rests += decisions.is_resting() ? 1 : 0;
    ToyBackend::apply(decisions);
  }
  Needs begun;
  std::vector<DecisionId> ids;
  int rests = 0;
};

inline std::uint64_t run(Policy& policy, Backend& backend) {
  Rng rng = policy_rng(1);
  Context context{rng, {}};
  return drive(policy, backend, context);
}

inline std::string failure_of(Policy& policy, Backend& backend) {
  try {
    run(policy, backend);
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

}  // namespace orrery::toy
