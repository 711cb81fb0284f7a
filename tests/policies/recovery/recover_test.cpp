#include "policies/recovery/recover.hpp"

#include <gtest/gtest.h>

#include "policies/codec.hpp"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

std::vector<std::string> decide(const char* how, const std::vector<Event>& events) {
  const Cluster cluster = toy::cluster();
  World world(cluster);
  world.apply(JobSubmitted{toy::job(), toy::gpus(0, 4)});
  world.apply(StepDone{{0}, 6});
  for (const Event& event : events) world.apply(event);
  RecoverPolicy policy;
  RecoverParameters parameters;
  parameters.set_how(how);
  Rng rng(1);
  Context context{rng, {}};
  policy.start(context, cluster, &parameters);
  DecisionList decisions;
  const Observation seen{.now = 5, .epoch = {}, .sequence = 0, .events = events, .devices = {},
                         .links = {}, .ranks = {}, .collectives = {}, .cluster = cluster,
                         .state = world.state(), .jobs = world.jobs()};
  policy.observe(context, seen, decisions);
  EXPECT_TRUE(decisions.at_rest());
  std::vector<std::string> lines;
  for (const Decision& decision : decisions.items()) lines.push_back(trace_line(decision));
  return lines;
}

TEST(Recover, DecidesOncePerLossForTheStepUnderWay) {
  EXPECT_TRUE(decide("replace", {Tick{}}).empty());
  const auto one = decide("replace", {RankLost{{0}, {2}}});
  ASSERT_EQ(one.size(), 1u);
  EXPECT_NE(one[0].find("how 1 without 2 spare none from 0"), std::string::npos) << one[0];
  EXPECT_NE(one[0].find("7"), std::string::npos) << one[0];
  const auto both = decide("shrink", {RankLost{{0}, {1}}, RankLost{{0}, {3}}});
  ASSERT_EQ(both.size(), 1u);
  EXPECT_NE(both[0].find("how 0 without 1 3"), std::string::npos) << both[0];
  EXPECT_TRUE(decide("replace", {RankBack{{0}, {2}}}).empty());
}

}  // namespace
}  // namespace orrery
