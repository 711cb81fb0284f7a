// Section of a scenario from learnt failures: rates, distributions and unreliable nodes.
#include "traces/failures/failure_section.hpp"

#include <gtest/gtest.h>

#include "core/ids.hpp"
#include "traces/scenario/failure_model.hpp"

namespace orrery {
namespace {

TEST(FailureSection, CountsAndTimesOfEachCause) {
  FailureFit fit{.begin_s = 0, .end_s = 86400.0 * 100};
  CauseFit node{.like = {.cause = "power", .part = FailingPart::node, .index = 3}, .count = 11};
  node.down_s = {120, 120, 120};
  node.repair_s = {3600, 7200, 14'400};
  CauseFit job{.like = {.cause = "hang", .part = FailingPart::job, .stops = true}, .count = 3};
  job.down_s = {100, 200, 400};
  job.detection_s = {60, 60, 60};
  fit.causes = {node, job};
  fit.lemons = {.share = 0.1, .times = 11};
  const Failures section = failure_section(fit, 20, 8);
  ASSERT_EQ(section.kinds_size(), 2);
  EXPECT_EQ(section.lemons().share(), 0.1);
  const FailureKind& power = section.kinds(0);
  EXPECT_TRUE(power.down());
  EXPECT_EQ(power.counted().count(), 5.5) << "a reliable node's share: 11 / (1 + 0.1 x 10)";
  EXPECT_EQ(power.counted().parts(), 20);
  EXPECT_EQ(power.restart().fixed(), 120 * kNanosPerSecond);
  EXPECT_EQ(power.detection().fixed(), 0);
  EXPECT_NEAR(to_seconds(power.repair().median()), 7200, 10);
  const FailureKind& hang = section.kinds(1);
  EXPECT_TRUE(hang.stop());
  EXPECT_EQ(hang.counted().count(), 3) << "unreliable nodes do not change the job's own";
  EXPECT_EQ(hang.detection().fixed(), 60 * kNanosPerSecond);
  EXPECT_TRUE(hang.restart().has_median());
}

}  // namespace
}  // namespace orrery
