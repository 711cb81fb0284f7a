#include "live/run/open_step.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

StepReport said(std::uint64_t epoch, Step step, std::uint64_t predictions = 1) {
  StepReport out;
  out.set_epoch(epoch);
  out.set_step(step);
  out.set_predictions(predictions);
  return out;
}

TEST(OpenStep, ItsReportsAreHandedOverWithItsCommit) {
  OpenStep step(5, 2);
  step.begin(100);
  EXPECT_TRUE(step.under_way());
  EXPECT_TRUE(step.take(1, 0, said(1, 5, 7), 1));
  const auto reports = step.commit(150, 90);
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].predictions(), 0u);  // lost on the way
  EXPECT_EQ(reports[1].predictions(), 7u);
  EXPECT_EQ(step.number(), 6u);
  EXPECT_FALSE(step.under_way());
  EXPECT_EQ(step.took(), 60);  // from commit to commit
  EXPECT_EQ(step.commit(160, 150)[1].predictions(), 0u);
}

TEST(OpenStep, AReportThatComesTwiceCountsOnce) {
  OpenStep step(0, 1);
  EXPECT_TRUE(step.take(0, 0, said(1, 0), 1));
  EXPECT_FALSE(step.take(0, 0, said(1, 0), 1));
  EXPECT_TRUE(step.take(0, 1, said(1, 0), 1));  // another process of that rank
  EXPECT_TRUE(step.take(0, 1, said(2, 0), 2));
}

TEST(OpenStep, WhatIsOfAnotherEpochOrStepOrGivenUpIsNoReportOfIt) {
  OpenStep step(3, 3);
  step.take(0, 0, said(1, 3), 2);
  step.take(1, 0, said(2, 2), 2);
  StepReport given_up = said(2, 3);
  given_up.set_abandoned(true);
  step.take(2, 0, given_up, 2);
  for (const StepReport& report : step.commit(1, 0)) EXPECT_EQ(report.predictions(), 0u);
}

TEST(OpenStep, AfterALossItsTimeCountsFromItsNewBegin) {
  OpenStep step(0, 1);
  step.begin(10);
  step.take(0, 0, said(1, 0), 1);
  step.revoke();
  EXPECT_FALSE(step.under_way());
  EXPECT_TRUE(step.disturbed());
  step.discard();
  step.begin(70);
  EXPECT_EQ(step.commit(100, 0)[0].predictions(), 0u);
  EXPECT_EQ(step.took(), 30);
  EXPECT_FALSE(step.disturbed());
}

TEST(OpenStep, LastsOnceItTakesAQuarterLongerThanTheOneBefore) {
  OpenStep step(0, 1);
  step.begin(0);
  EXPECT_FALSE(step.as_before(0));  // there was none before
  step.commit(100, 0);
  step.begin(100);
  EXPECT_TRUE(step.as_before(225));
  EXPECT_FALSE(step.as_before(226));
}

}  // namespace
}  // namespace orrery::live
