// Policies outside the process of a run. tests/sim/futures_test.cpp and from_log_test.cpp compare
// their runs with those of the same policies in the process of the run.
#include "policies/run/outside_policies.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "policies/run/registry.hpp"
#include "policies/seam/world.hpp"
#include "tests/policies/temp_dir.hpp"
#include "tests/policies/toy.hpp"
#include "tests/policies/toy_log.hpp"

namespace orrery {
namespace {

/// Counts its calls, and saves the count.
class Counting : public Policy {
 public:
  explicit Counting(Nanos tick) : tick_(tick) {}
  Needs needs() const override { return {.actions = {}, .settings = {}, .tick = tick_}; }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  void observe(Context&, const Observation&, DecisionList&) override { ++calls_; }
  void save(Archive& archive) const override { archive = std::to_string(calls_); }
  void load(const Archive& archive) override { calls_ = std::stoi(archive); }

 private:
  Nanos tick_;
  int calls_ = 0;
};

std::unique_ptr<OutsideStack> stack(const std::string& name, Nanos tick) {
  return std::make_unique<OutsideStack>([name, tick] {
    std::vector<PolicyStack::Member> members;
    members.push_back(
        {.name = name, .policy = std::make_unique<Counting>(tick), .parameters = nullptr});
    return std::make_unique<PolicyStack>(std::move(members));
  });
}

class Outside : public testing::Test {
 protected:
  Archive state_after_call(Policy& policy) {
    DecisionList decisions;
    policy.observe(context_, toy::seen_of(world_, {}, samples_), decisions);
    Archive state;
    policy.save(state);
    return state;
  }
  /// Returns the state of a stack of one policy that was called so often.
  Archive state_of(const std::string& name, int calls) {
    OutsideSuccession policy([&name] {
      std::vector<std::unique_ptr<OutsideStack>> stacks;
      stacks.push_back(stack(name, 0));
      return stacks;
    }());
    policy.start(context_, cluster_, nullptr);
    Archive state;
    for (int i = 0; i < calls; ++i) state = state_after_call(policy);
    return state;
  }

  const Cluster cluster_ = toy::cluster();
  World world_{cluster_};
  toy::HandMade samples_;
  Rng rng_{1};
  Context context_{rng_, {}};
};

TEST_F(Outside, HeirsTakeOverInOrderWithTheStateOfTheirName) {
  std::vector<std::unique_ptr<OutsideStack>> stacks;
  stacks.push_back(stack("a", 1));
  stacks.push_back(stack("a", 2));
  stacks.push_back(stack("b", 3));
  OutsideSuccession policy(std::move(stacks));
  policy.start(context_, cluster_, nullptr);
  state_after_call(policy);
  EXPECT_EQ(state_after_call(policy), state_of("a", 2));
  EXPECT_EQ(policy.needs().tick, 1);
  policy.activate_heirs();
  EXPECT_EQ(policy.needs().tick, 2);
  EXPECT_EQ(state_after_call(policy), state_of("a", 3)) << "it continues with the count";
  policy.activate_heirs();
  EXPECT_EQ(policy.needs().tick, 3);
  EXPECT_EQ(state_after_call(policy), state_of("b", 1)) << "another name begins anew";
  EXPECT_THROW(policy.activate_heirs(), Error);
}

TEST_F(Outside, AStackIsMadeAnewForEachRun) {
  const auto policy = stack("a", 0);
  policy->start(context_, cluster_, nullptr);
  state_after_call(*policy);
  policy->start(context_, cluster_, nullptr);
  EXPECT_EQ(state_after_call(*policy), state_of("a", 1));
}

TEST_F(Outside, ALogsPoliciesDecideFirstUnlessTheyAreTheGivenOnes) {
  const toy::TempDir dir;
  RunRequest request;
  *request.mutable_scenario() = toy::scenario_with("predictive-rebalance");
  toy::record(request.scenario(), dir / "log");
  request.mutable_from()->set_path(dir / "log");
  const Scenario scenario = request.scenario();
  const StackMaker own = [scenario] { return make_stack(scenario, SourceMap{}); };
  outside_succession(request, {.make = own, .replace_scenario = false});
  EXPECT_FALSE(request.policy_outside_heirs());
  outside_succession(request, {.make = own, .replace_scenario = true});
  EXPECT_TRUE(request.policy_outside_heirs());
}

}  // namespace
}  // namespace orrery
