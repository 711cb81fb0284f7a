#include "sim/training/losses.hpp"

#include <gtest/gtest.h>

namespace orrery::sim {
namespace {

TEST(Losses, WhoHasDiedIsKnownToNobodyUntilItIsNoticed) {
  Losses losses;
  losses.record_death({3}, "rank 3 killed", 100, 150);
  losses.record_death({1}, "rank 1 stopped", 110, 400);
  EXPECT_TRUE(losses.is_undetected({3}));
  EXPECT_FALSE(losses.is_undetected({2}));
  EXPECT_EQ(losses.next_noticed(), 150);
  EXPECT_EQ(losses.all_noticed(120), 400);

  EXPECT_TRUE(losses.drain_noticed(149, 500).ranks.empty());
  const Losses::Noticed first = losses.drain_noticed(150, 500);
  EXPECT_EQ(first.ranks, std::vector<RankId>{{3}});
  EXPECT_EQ(first.first, 100);
  EXPECT_FALSE(losses.is_undetected({3}));
  EXPECT_TRUE(losses.has_unnoticed());
  losses.forget_unnoticed();
  EXPECT_EQ(losses.next_noticed(), kNever);
}

TEST(Losses, ARestartTakesTheLongestOfTheOpenLosses) {
  Losses losses;
  EXPECT_EQ(losses.restart_time(60), 60);
  losses.record_death({1}, "rank 1 killed", 100, 110, kNever, 5);
  EXPECT_EQ(losses.restart_time(60), 5) << "its own, also if it is shorter";
  losses.record_death({2}, "rank 2 killed", 100, 110);
  EXPECT_EQ(losses.restart_time(60), 60);
  losses.record_death({3}, "rank 3 killed", 100, 110, kNever, 900);
  EXPECT_EQ(losses.restart_time(60), 900);
  losses.mark_resumed(200);
  EXPECT_EQ(losses.restart_time(60), 60) << "these are over";
}

TEST(Losses, SilentRanksAreSuspectedUntilTheyAreNoticed) {
  Losses losses;
  losses.record_death({3}, "rank 3 stopped", 100, 200, 150);
  losses.record_death({1}, "rank 1 stopped", 120, 220, 170);
  losses.record_death({0}, "rank 0 killed", 120, 130);
  EXPECT_EQ(losses.next_suspected(120), 150);
  EXPECT_TRUE(losses.silent_ranks(149).empty());
  EXPECT_EQ(losses.silent_ranks(150), (std::vector<RankId>{{3}}));
  EXPECT_EQ(losses.next_suspected(150), 170);
  EXPECT_EQ(losses.silent_ranks(170), (std::vector<RankId>{{3}, {1}}));
  EXPECT_EQ(losses.next_suspected(170), kNever);
  losses.drain_noticed(200, 300);
  EXPECT_EQ(losses.silent_ranks(200), (std::vector<RankId>{{1}})) << "rank 3 is lost now";
  losses.drain_noticed(220, 300);
  EXPECT_TRUE(losses.silent_ranks(220).empty());
}

TEST(Losses, OfOneInstantAreNoticedTogetherInOrder) {
  Losses losses;
  losses.record_death({5}, "node 1 down", 10, 20);
  losses.record_death({4}, "node 1 down", 10, 20);
  EXPECT_EQ(losses.drain_noticed(20, 30).ranks, (std::vector<RankId>{{4}, {5}}));
}

TEST(Losses, TheReportSaysWhatBecameOfEach) {
  Losses losses;
  EXPECT_TRUE(losses.has_resumed());
  EXPECT_EQ(losses.newest_cause(), "");
  losses.record_death({0}, "rank 0 killed", kNanosPerSecond, 2 * kNanosPerSecond);
  losses.drain_noticed(2 * kNanosPerSecond, 3 * kNanosPerSecond);
  EXPECT_FALSE(losses.has_resumed());
  losses.record_rollback(7);
  losses.mark_resumed(4 * kNanosPerSecond);
  losses.mark_replaced(5 * kNanosPerSecond);
  losses.record_job_loss("spine 0 down", 9 * kNanosPerSecond);
  losses.mark_replaced(10 * kNanosPerSecond);  // the first was before
  EXPECT_EQ(losses.newest_cause(), "spine 0 down");

  Report report;
  losses.fill(report);
  ASSERT_EQ(report.failures_size(), 2);
  const FailureReport& first = report.failures(0);
  EXPECT_EQ(first.time_s(), 1);
  EXPECT_EQ(first.known_s(), 2);
  EXPECT_EQ(first.working_s(), 3);
  EXPECT_EQ(first.resumed_s(), 4);
  EXPECT_EQ(first.replaced_s(), 5);
  EXPECT_EQ(first.lost_steps(), 7u);
  EXPECT_FALSE(report.failures(1).has_resumed_s());
}

}  // namespace
}  // namespace orrery::sim
