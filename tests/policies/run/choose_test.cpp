#include "policies/run/choose.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "policies/parameters.pb.h"

namespace orrery {
namespace {

TEST(ChoosePolicy, KeepsWhatWasWrittenForIt) {
  Scenario scenario;
  scenario.add_policies()->set_name("static");
  PredictiveRebalanceParameters written;
  written.set_cooldown_steps(7);
  PolicySpec& spec = *scenario.add_policies();
  spec.set_name("predictive-rebalance");
  spec.mutable_parameters()->PackFrom(written);

  choose_policy(scenario, "predictive-rebalance");

  ASSERT_EQ(scenario.policies_size(), 1);
  PredictiveRebalanceParameters kept;
  ASSERT_TRUE(scenario.policies(0).parameters().UnpackTo(&kept));
  EXPECT_EQ(kept.cooldown_steps(), 7u);
}

TEST(ChoosePolicy, TakesDefaultsWhereNothingWasWritten) {
  Scenario scenario;
  scenario.add_policies()->set_name("predictive-rebalance");
  choose_policy(scenario, "static");
  ASSERT_EQ(scenario.policies_size(), 1);
  EXPECT_EQ(scenario.policies(0).name(), "static");
  EXPECT_FALSE(scenario.policies(0).has_parameters());
}

TEST(ChoosePolicy, AnUnknownNameIsAUsageErrorAndChangesNothing) {
  Scenario scenario;
  scenario.add_policies()->set_name("static");
  try {
    choose_policy(scenario, "statik");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(error.message().find("did you mean 'static'"), std::string::npos);
  }
  EXPECT_EQ(scenario.policies(0).name(), "static");
}

}  // namespace
}  // namespace orrery
