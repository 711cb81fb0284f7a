#include "live/run/losses/failure_records.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

constexpr Nanos kSecond = kNanosPerSecond;

TEST(FailureRecords, EachIsFollowedFromTheLossToTheReplacement) {
  FailureRecords records;
  EXPECT_TRUE(records.empty());
  records.add_loss(2, 1 * kSecond, 2 * kSecond, "killed by signal 9 (Killed)");
  EXPECT_EQ(records.cause(), "rank 2 killed by signal 9 (Killed)");
  records.mark_known(3 * kSecond);
  records.mark_working(4 * kSecond);
  records.mark_replaced(1, 4 * kSecond);  // another one
  records.mark_resumed(5 * kSecond);
  records.add_loss(0, 6 * kSecond, 6 * kSecond, "exit code 1");
  records.mark_known(7 * kSecond);
  records.mark_replaced(2, 8 * kSecond);
  Report report;
  records.fill(report);
  ASSERT_EQ(report.failures_size(), 2);
  const FailureReport& first = report.failures(0);
  EXPECT_EQ(first.time_s(), 1);
  EXPECT_EQ(first.detected_s(), 2);
  EXPECT_EQ(first.known_s(), 3);
  EXPECT_EQ(first.working_s(), 4);
  EXPECT_EQ(first.resumed_s(), 5);
  EXPECT_EQ(first.replaced_s(), 8);
  EXPECT_EQ(first.lost_steps(), 0u);
  EXPECT_EQ(report.failures(1).known_s(), 7);
  EXPECT_FALSE(report.failures(1).has_working_s());
  EXPECT_FALSE(report.failures(1).has_replaced_s());

  FailureRecords successor(records.all());
  EXPECT_TRUE(successor.take_changed().empty());
  EXPECT_EQ(successor.cause(), "rank 0 exit code 1");
}

}  // namespace
}  // namespace orrery::live
