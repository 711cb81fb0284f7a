#include "policies/run/registry.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "policies/parameters.pb.h"
#include "policies/seam/drive.hpp"
#include "policies/seam/static_policy.hpp"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

TEST(Registry, EveryNameMakesAPolicyAndItsParameters) {
  ASSERT_FALSE(policy_names().empty());
  for (const std::string& name : policy_names()) {
    EXPECT_NE(make_policy(name, {}), nullptr) << name;
    EXPECT_NE(policy_parameters(name, {}), nullptr) << name;
  }
  const auto names = policy_names();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

TEST(Registry, AnUnknownNameIsRefusedWithThePlaceAndTheNearest) {
  try {
    make_policy("statik", SourcePlace{"a.yaml", 3, 9, "  - name: statik"});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_EQ(error.message(),
              "there is no policy 'statik'; did you mean 'static'? "
              "Known of job queues: conservative, drf, easy, elastic, fifo, "
              "fifo-skip, finish-time-fairness, gittins, las, max-min, "
              "multifactor, priority, sjf, srsf, srtf; of trainings: cheapest-goodput, "
              "checkpoint-interval, collective-table, fixed-codec, "
              "memory-aware, power-budget, predictive-rebalance, prefetch, recover, static");
    EXPECT_EQ(std::string(error.what()).substr(0, 12), "a.yaml:3:9: ");
  }
}

TEST(Registry, ANameOfAnotherSchedulerGetsTheNameHere) {
  EXPECT_EQ(no_such_policy("backfill").substr(0, 55),
            "there is no policy 'backfill'; did you mean 'easy'? Kno");
  EXPECT_EQ(no_such_policy("fcfs").substr(0, 48),
            "there is no policy 'fcfs'; did you mean 'fifo'? ");
  EXPECT_EQ(no_such_policy("mine").substr(0, 40), "there is no policy 'mine'; known of job ");
}

TEST(Registry, AScenarioWithoutPoliciesGetsStatic) {
  const auto stack = make_stack(toy::scenario(), SourceMap{});
  ASSERT_EQ(stack->members().size(), 1u);
  EXPECT_EQ(stack->members()[0].name, "static");
}

TEST(Registry, ParametersReachTheirPolicyWithDefaultsFilledIn) {
  Scenario scenario = toy::scenario();
  PolicySpec& spec = *scenario.add_policies();
  spec.set_name("predictive-rebalance");
  PredictiveRebalanceParameters given;
  given.set_gain_threshold(0.5);
  spec.mutable_parameters()->PackFrom(given);
  const auto stack = make_stack(scenario, SourceMap{});
  const auto* parameters =
      dynamic_cast<const PredictiveRebalanceParameters*>(stack->members()[0].parameters.get());
  ASSERT_NE(parameters, nullptr);
  EXPECT_EQ(parameters->gain_threshold(), 0.5);
  EXPECT_EQ(parameters->tick(), 50'000'000);
}

TEST(Registry, ParametersOfAnotherPolicyAreRefused) {
  google::protobuf::Any any;
  any.PackFrom(PredictiveRebalanceParameters{});
  EXPECT_THROW(policy_parameters("static", any), Error);
}

TEST(Registry, AJobReplayHasItsClusterFromCounts) {
  JobReplay replay;
  replay.set_nodes(3);
  replay.set_gpus_per_node(8);
  EXPECT_EQ(cluster_of(replay).gpus(), 24u);
  replay.set_nodes(0);
  EXPECT_THROW(cluster_of(replay), Error);
  replay.set_policy("static");
  EXPECT_EQ(make_stack(replay)->members()[0].name, "static");
}

TEST(StaticPolicy, RestsAndDecidesNothing) {
  const Cluster cluster = toy::cluster();
  toy::ToyBackend backend(cluster);
  StaticPolicy policy;
  Rng rng(1);
  Context context{rng, {}};
  EXPECT_EQ(drive(policy, backend, context), 0u);
  DecisionList decisions;
  toy::ToyBackend fresh(cluster);
  policy.observe(context, *fresh.next(), decisions);
  EXPECT_TRUE(decisions.is_resting());
}

}  // namespace
}  // namespace orrery
