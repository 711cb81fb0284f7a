#include "live/run/losses/replica_watch.hpp"

#include <gtest/gtest.h>

#include "tests/live/run/fake_ranks.hpp"

namespace orrery::live {
namespace {

StepReport report(Step step, std::uint64_t sum, std::uint64_t epoch = 1) {
  StepReport out;
  out.set_step(step);
  out.set_epoch(epoch);
  StateHash& hash = *out.add_hashes();
  hash.set_sum(sum);
  hash.set_weighted(7);
  return out;
}

class ReplicaWatchTest : public ::testing::Test {
 protected:
  void hear(std::uint32_t rank, const StepReport& what) {
    watch.record_report(rank, what, members);
  }
  FakeRanks ranks;
  std::vector<std::uint32_t> members{0, 1, 2};
  std::vector<std::string> warnings, given_up;
  ReplicaWatch watch{ranks, [this](const std::string& what) { warnings.push_back(what); },
                     [this](const std::string& what) { given_up.push_back(what); }};
};

TEST_F(ReplicaWatchTest, EndsTheRankThatAMajorityOutvotes) {
  hear(0, report(8, 1));
  hear(1, report(8, 2));
  EXPECT_TRUE(ranks.ended.empty());
  hear(2, report(8, 1));
  ASSERT_EQ(ranks.ended.size(), 1u);
  EXPECT_EQ(ranks.ended[0].first, 1u);
  EXPECT_NE(ranks.ended[0].second.find("step 8"), std::string::npos);
  EXPECT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(given_up.empty());
}

TEST_F(ReplicaWatchTest, GivesUpTheStateIfTwoAloneDiffer) {
  members = {0, 2};
  hear(0, report(8, 1));
  hear(2, report(8, 2));
  EXPECT_TRUE(ranks.ended.empty());
  ASSERT_EQ(given_up.size(), 1u);
  EXPECT_NE(given_up[0].find("ranks 0, 2 computed step 8"), std::string::npos) << given_up[0];
}

TEST_F(ReplicaWatchTest, ComparesReportsOfOneStepAndEpochOnly) {
  hear(0, report(8, 1));
  hear(1, report(8, 1));
  hear(0, report(9, 2));  // the epoch of step 8 was left
  hear(1, report(9, 2));
  hear(2, report(9, 2));
  hear(0, report(9, 3, 2));
  hear(1, report(9, 3, 2));
  StepReport abandoned = report(9, 4, 2);
  abandoned.set_abandoned(true);
  hear(2, abandoned);
  hear(2, StepReport());
  hear(2, report(9, 3, 2));
  EXPECT_TRUE(ranks.ended.empty());
  EXPECT_TRUE(given_up.empty());
}

}  // namespace
}  // namespace orrery::live
