// A policy and a backend that keep what they saw of each other, for the tests of what stands
// between them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "policies/seam/drive.hpp"
#include "tests/policies/toy.hpp"

namespace orrery::toy {

/// Does what it is told, once, at the given call; notes what it saw of the others.
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

  /// Who was asked, in that order, since it was cleared.
  static std::vector<const Scripted*>& order() {
    static std::vector<const Scripted*> asked;
    return asked;
  }
  std::uint64_t first_random = 0;
  std::vector<DecisionId> ids, outcomes;  ///< of its own decisions; all that were shown
  int calls = 0;

 private:
  Needs needs_;
  std::vector<Action> actions_;
  bool rests_;
};

inline std::unique_ptr<Scripted> idle(Needs needs, bool rests = true) {
  return std::make_unique<Scripted>(needs, std::vector<Action>{}, rests);
}

/// Keeps what reached the backend.
class Witness : public ToyBackend {
 public:
  using ToyBackend::ToyBackend;
  void begin(const Needs& needs) override {
    begun = needs;
    ToyBackend::begin(needs);
  }
  void apply(const DecisionList& decisions) override {
    for (const Decision& decision : decisions.items()) ids.push_back(decision.id);
    rests += decisions.at_rest() ? 1 : 0;
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
