#include "live/run/losses/failure_detector.hpp"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/live/run/fake_ranks.hpp"
#include "tests/live/run/one_job.hpp"

namespace orrery::live {
namespace {

class FailureDetectorTest : public ::testing::Test {
 protected:
  FailureDetectorTest() {
    scenario_.mutable_live()->set_progress_timeout(kNanosPerSecond);
    scenario_.mutable_job()->mutable_pace()->set_micro_batch(kNanosPerSecond / 1000);
  }
  ~FailureDetectorTest() override { std::filesystem::remove(path_); }

  /// Sends a heartbeat of a rank; `done`: number of its four micro-batches.
  void beat(std::uint32_t rank, double done, Nanos now) {
    Heartbeat said;
    said.mutable_status()->set_epoch(1);
    said.mutable_status()->set_linked(true);
    said.mutable_progress()->set_micro_batches_done(done);
    detector_.record_heartbeat(rank, 0, said, now);
  }
  void beats(double of_rank_2, double of_others, Nanos now) {
    for (const std::uint32_t rank : ranks_.members()) {
      beat(rank, rank == 2 ? of_rank_2 : of_others, now);
    }
  }
  /// Calls the detector as the backend does, twenty times a second.
  void look_until(Nanos from, Nanos until, bool under_way = true) {
    for (Nanos now = from; now <= until; now += kNanosPerSecond / 20)
      detector_.check_progress(0, under_way, now);
  }

  const std::string path_ = ::testing::TempDir() + "failure_detector_test.journal";
  Scenario scenario_;
  OneJob run_;
  FakeRanks ranks_;
  Journal journal_{path_, "hash"};
  FaultInjector faults_{scenario_, run_.cluster, 4, 0, ranks_, journal_};
  std::vector<std::string> warnings_;
  FailureDetector detector_{
      scenario_, false,  run_.placement,
      faults_,   ranks_, [this](const std::string& what) { warnings_.push_back(what); }};
};

TEST_F(FailureDetectorTest, WhoIsBehindAndStandsStillIsEnded) {
  beats(1, 4, 0);
  look_until(0, kNanosPerSecond * 9 / 10);
  EXPECT_TRUE(ranks_.ended.empty());
  look_until(kNanosPerSecond * 19 / 20, kNanosPerSecond * 11 / 10);
  ASSERT_EQ(ranks_.ended.size(), 1u);
  EXPECT_EQ(ranks_.ended[0].first, 2u);
  EXPECT_NE(ranks_.ended[0].second.find("in step 0, after 1 micro-batches"), std::string::npos);
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(FailureDetectorTest, WhereNobodyIsBehindTheyLinkUpAnew) {
  beats(4, 4, 0);
  look_until(0, kNanosPerSecond * 11 / 10);
  EXPECT_TRUE(ranks_.ended.empty());
  EXPECT_EQ(ranks_.renewed, 1);
}

TEST_F(FailureDetectorTest, NobodyIsBehindWhileThereIsNothingToDoOrNobodyHasWatched) {
  beats(1, 4, 0);
  look_until(0, 3 * kNanosPerSecond, false);
  detector_.check_progress(0, true, 60 * kNanosPerSecond);  // this machine was suspended
  EXPECT_TRUE(ranks_.ended.empty());
}

TEST_F(FailureDetectorTest, WhereNobodyIsHeardOfTheyAreWaitedForAndThatIsSaidOnce) {
  beats(1, 4, 0);
  ranks_.now.all_silent = true;
  look_until(0, 3 * kNanosPerSecond);
  EXPECT_TRUE(ranks_.ended.empty());
  EXPECT_EQ(warnings_.size(), 1u);
  ranks_.now.all_silent = false;
  detector_.check_progress(0, true, 3 * kNanosPerSecond);
  EXPECT_EQ(warnings_.size(), 2u);
}

TEST_F(FailureDetectorTest, WhoIsSilentIsSuspectedUntilItIsHeardOf) {
  EXPECT_FALSE(detector_.new_suspects());
  ranks_.mark_only({3, 1, 7}, &RankState::is_silent);  // the job does not count on the last one
  const auto suspected = detector_.new_suspects();
  ASSERT_TRUE(suspected);
  EXPECT_EQ(suspected->ranks, (std::vector<RankId>{{1}, {3}}));
  run_.world.apply(*suspected, 1);
  EXPECT_FALSE(detector_.new_suspects()) << "also of a controller that takes over";
  run_.lose_rank(3);
  EXPECT_FALSE(detector_.new_suspects()) << "a loss needs no event of its own";
  ranks_.mark_only({}, &RankState::is_silent);
  ASSERT_TRUE(detector_.new_suspects());
  EXPECT_TRUE(detector_.new_suspects()->ranks.empty()) << "rank 1 is heard again";
}

}  // namespace
}  // namespace orrery::live
