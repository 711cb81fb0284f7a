#include "live/run/losses/rank_shortage.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

constexpr Nanos kTenth = kNanosPerSecond / 10;

TEST(RankShortage, WarnsOnceOfALossThatNobodyReplacesAndOfItsEnd) {
  RankShortage ranks;
  EXPECT_FALSE(ranks.find_warning({4, 4}, false, "", 0));
  EXPECT_FALSE(ranks.find_warning({3, 4}, false, "rank 2 died", kTenth));
  EXPECT_FALSE(ranks.find_warning({3, 4}, false, "rank 2 died", 10 * kTenth));
  const auto warning = ranks.find_warning({3, 4}, false, "rank 2 died", 11 * kTenth);
  ASSERT_TRUE(warning);
  EXPECT_EQ(*warning,
            "the job has 3 of 4 ranks (rank 2 died): no replacement is pending; if it "
            "ends so, the exit code is 6");
  EXPECT_FALSE(ranks.find_warning({3, 4}, false, "rank 2 died", 100 * kTenth));
  EXPECT_FALSE(ranks.find_warning({2, 4}, false, "rank 1 died", 101 * kTenth));
  EXPECT_TRUE(ranks.find_warning({2, 4}, false, "rank 1 died", 111 * kTenth))
      << "another number of ranks";
  EXPECT_EQ(ranks.find_warning({4, 4}, false, "", 112 * kTenth), "the job has all 4 ranks again");
  EXPECT_FALSE(ranks.find_warning({4, 4}, false, "", 113 * kTenth));
}

TEST(RankShortage, AReplacementHasTimeToJoin) {
  RankShortage ranks;
  EXPECT_FALSE(ranks.find_warning({3, 4}, true, "", 0));
  EXPECT_FALSE(ranks.find_warning({3, 4}, true, "", 99 * kTenth));
  EXPECT_FALSE(ranks.record_end({3, 4}, true, 99 * kTenth))
      << "the run may end before it has joined";
  EXPECT_TRUE(ranks.record_end({3, 4}, false, 99 * kTenth));
  const auto warning = ranks.find_warning({3, 4}, true, "", 100 * kTenth);
  ASSERT_TRUE(warning);
  EXPECT_NE(warning->find("no replacement has joined within 10 s"), std::string::npos) << *warning;
  EXPECT_TRUE(ranks.record_end({3, 4}, true, 100 * kTenth));
}

TEST(RankShortage, APolicyMayAskForFewer) {
  EXPECT_EQ((RankCount{3, 3}.missing()), 0u);
  EXPECT_EQ((RankCount{4, 3}.missing()), 0u);
  EXPECT_EQ((RankCount{1, 3}.missing()), 2u);
  RankShortage ranks;
  EXPECT_FALSE(ranks.find_warning({3, 3}, false, "", 0));
  EXPECT_FALSE(ranks.find_warning({3, 3}, false, "", 100 * kTenth));
  EXPECT_FALSE(ranks.record_end({3, 3}, false, 0));
}

TEST(RankShortage, TheReportContainsTheRanksAtTheEnd) {
  RankShortage ranks;
  Report report;
  ranks.fill(report);
  EXPECT_FALSE(report.has_ranks_at_end());
  EXPECT_EQ(ranks.record_end({3, 4}, false, 0), "the run ends with 3 of 4 ranks");
  ranks.fill(report);
  EXPECT_EQ(report.ranks_at_end(), 3u);
  EXPECT_EQ(report.ranks_missing(), 1u);
}

}  // namespace
}  // namespace orrery::live
