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
  EXPECT_TRUE(step.is_current());
  EXPECT_EQ(step.add_report(1, 0, said(1, 5, 7), 1), ReportedWork::open);
  const auto reports = step.commit_step(150, 90);
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].predictions(), 0u);  // lost on the way
  EXPECT_EQ(reports[1].predictions(), 7u);
  EXPECT_EQ(step.number(), 6u);
  EXPECT_FALSE(step.is_current());
  EXPECT_EQ(step.newest_duration(), 60);  // measured from commit to commit
  EXPECT_EQ(step.commit_step(160, 150)[1].predictions(), 0u);
}

TEST(OpenStep, ADelayIsServedOnceAndIsNoPartOfTheDuration) {
  OpenStep step(5, 1);
  EXPECT_EQ(step.delay(0, 90), 90);
  EXPECT_EQ(step.next_begin(90), kNever);
  EXPECT_EQ(step.delay(40, 100), 140);
  EXPECT_EQ(step.delay(40, 120), 140);
  EXPECT_EQ(step.next_begin(120), 140);
  step.begin(140);
  EXPECT_EQ(step.next_begin(139), kNever);
  step.commit_step(150, 90);
  EXPECT_EQ(step.newest_duration(), 10);
  step.begin(155);
  step.commit_step(170, 150);
  EXPECT_EQ(step.newest_duration(), 20) << "from commit to commit again";
}

TEST(OpenStep, AReportThatComesTwiceCountsOnce) {
  OpenStep step(0, 1);
  EXPECT_EQ(step.add_report(0, 0, said(1, 0), 1), ReportedWork::open);
  EXPECT_EQ(step.add_report(0, 0, said(1, 0), 1), ReportedWork::none);
  EXPECT_EQ(step.add_report(0, 1, said(1, 0), 1),
            ReportedWork::open);  // another process of that rank
  EXPECT_EQ(step.add_report(0, 1, said(2, 0), 2), ReportedWork::open);
}

TEST(OpenStep, WhatIsOfAnotherEpochOrStepOrGivenUpIsNoReportOfIt) {
  OpenStep step(3, 3);
  step.add_report(0, 0, said(1, 3), 2);
  step.add_report(1, 0, said(2, 2), 2);
  StepReport given_up = said(2, 3);
  given_up.set_abandoned(true);
  step.add_report(2, 0, given_up, 2);
  for (const StepReport& report : step.commit_step(1, 0)) EXPECT_EQ(report.predictions(), 0u);
}

TEST(OpenStep, AReportOfACommittedStepIsNoWorkOfThatStepAfterARollback) {
  OpenStep step(5, 1);  // a new controller, to which ranks repeat their newest report
  EXPECT_EQ(step.add_report(0, 0, said(1, 4), 1), ReportedWork::none);
  step.roll_back_to(4);
  EXPECT_EQ(step.add_report(0, 0, said(1, 4), 2), ReportedWork::none);  // repeated once more
  EXPECT_EQ(step.add_report(0, 1, said(2, 4), 2), ReportedWork::open);
}

TEST(OpenStep, WorkOfAnEarlierEpochThatIsReportedLateIsDiscarded) {
  OpenStep step(4, 2);
  EXPECT_EQ(step.add_report(0, 0, said(1, 4), 2), ReportedWork::open);  // epoch 2 gathers
  step.discard_reports(2);
  EXPECT_EQ(step.add_report(1, 0, said(1, 4), 2), ReportedWork::discarded);  // it stood still
  EXPECT_EQ(step.add_report(0, 0, said(2, 4), 2), ReportedWork::open);
}

TEST(OpenStep, AfterALossItsTimeCountsFromItsNewBegin) {
  OpenStep step(0, 1);
  step.begin(10);
  step.add_report(0, 0, said(1, 0), 1);
  step.mark_interrupted();
  EXPECT_FALSE(step.is_current());
  EXPECT_TRUE(step.is_disturbed());
  step.discard_reports(2);
  step.begin(70);
  EXPECT_EQ(step.commit_step(100, 0)[0].predictions(), 0u);
  EXPECT_EQ(step.newest_duration(), 30);
  EXPECT_FALSE(step.is_disturbed());
}

TEST(OpenStep, LastsOnceItTakesAQuarterLongerThanTheOneBefore) {
  OpenStep step(0, 1);
  step.begin(0);
  EXPECT_FALSE(step.is_as_before(0));  // there was none before
  step.commit_step(100, 0);
  step.begin(100);
  EXPECT_TRUE(step.is_as_before(225));
  EXPECT_FALSE(step.is_as_before(226));
}

}  // namespace
}  // namespace orrery::live
