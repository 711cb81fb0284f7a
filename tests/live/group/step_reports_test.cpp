#include "live/group/step_reports.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

StepReports::Report report_of(const std::string& word) {
  return [word] { return Fields{word}; };
}

TEST(StepReports, AreDrainedOnceInTheirOrder) {
  StepReports reports;
  reports.add_report(report_of("first"));
  reports.add_report(report_of("second"), 1.0);
  EXPECT_EQ(reports.drain_frames(), encode_frame({"first"}) + encode_frame({"second"}));
  EXPECT_EQ(reports.drain_frames(), "");
}

TEST(StepReports, AreMadeWhenTheyAreSent) {
  StepReports reports;
  std::string value = "before";
  reports.add_report([&value] { return Fields{value}; });
  value = "after";
  EXPECT_EQ(reports.drain_frames(), encode_frame({"after"}));
}

TEST(StepReports, AreLookedForShortlyAfterTheExpectedEndOfTheNextStep) {
  StepReports reports;
  EXPECT_DOUBLE_EQ(reports.next_look_s(0), 0.1) << "before the first step";
  reports.add_report(report_of("one"), 0.0);
  EXPECT_DOUBLE_EQ(reports.next_look_s(0), 0.1) << "the duration of a step is unknown";
  reports.add_report(report_of("two"), 0.08);
  EXPECT_DOUBLE_EQ(reports.next_look_s(0.085), 0.165);
  EXPECT_DOUBLE_EQ(reports.next_look_s(0.165), 0.17) << "the step takes longer";
  reports.add_report(report_of("of the same step"));
  EXPECT_DOUBLE_EQ(reports.next_look_s(0.085), 0.165) << "no end of a step";
}

TEST(StepReports, LooksHaveALeastAndALargestDistance) {
  StepReports reports;
  reports.add_report(report_of("one"), 0.0);
  reports.add_report(report_of("two"), 0.0005);
  EXPECT_DOUBLE_EQ(reports.next_look_s(0.0005), 0.0025);
  reports.add_report(report_of("three"), 10.0);
  EXPECT_DOUBLE_EQ(reports.next_look_s(10.0), 10.1);
}

TEST(StepReports, AreDroppedAfterTheEndOfTheConnection) {
  StepReports reports;
  reports.add_report(report_of("one"));
  reports.close_reports();
  reports.add_report(report_of("two"));
  EXPECT_EQ(reports.drain_frames(), "");
}

}  // namespace
}  // namespace orrery::live
