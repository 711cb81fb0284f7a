#include "live/run/observations/observations.hpp"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "tests/live/run/one_job.hpp"

namespace orrery::live {
namespace {

class ObservationsTest : public ::testing::Test {
 protected:
  ~ObservationsTest() override { std::filesystem::remove(path_); }

  Past written() const { return Journal(path_, "hash").past(); }

  const std::string path_ = ::testing::TempDir() + "observations_test.journal";
  OneJob run_;
  PolicyClock clock_;
  Journal journal_{path_, "hash"};
  Observations observations_{run_.world, run_.placement, clock_, Telemetry(4, 1e9), journal_};
  Telemetry& telemetry_ = observations_.telemetry();
};

TEST_F(ObservationsTest, WhatHappensHoldsAtOnceAndIsShownOnce) {
  EXPECT_FALSE(observations_.has_pending());
  observations_.add_event(RanksLost{.job = kLiveJob, .ranks = {RankId{1}}, .epoch = {2}});
  EXPECT_FALSE(run_.placement.is_working(1));
  EXPECT_TRUE(observations_.has_pending());
  const Observation seen = observations_.next_observation({});
  EXPECT_EQ(seen.sequence, 0u);
  ASSERT_EQ(seen.events.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<RanksLost>(seen.events[0]));
  EXPECT_FALSE(observations_.has_pending());
  EXPECT_EQ(observations_.next_observation({}).sequence, 1u);
}

TEST_F(ObservationsTest, AreInTheJournalWithLossesAndWithTheAnswerOfThePolicies) {
  observations_.add_event(RanksLost{.job = kLiveJob, .ranks = {RankId{1}}, .epoch = {2}});
  telemetry_.record_progress(1, {}, 0);
  telemetry_.record_progress(2, {}, 0);
  JournalLoss loss;
  loss.set_rank(1);
  const Observation seen = observations_.next_observation({loss});
  EXPECT_EQ(written().seen.size(), 1u);  // written before any policy sees the event
  const auto ranks = seen.samples.ranks(kLiveJob);
  ASSERT_EQ(ranks.size(), 1u);  // nobody counts on the one that is lost
  EXPECT_EQ(ranks[0].rank.value, 2u);
  DecisionList answer(5);
  answer.add(Save{kLiveJob}, "why");
  answer.wake(77);
  observations_.record_answer(answer);
  EXPECT_EQ(next_wake(journal_.state()), 77);
  observations_.next_observation({});
  observations_.record_answer(DecisionList());  // nothing was read or decided

  const Past past = written();
  ASSERT_EQ(past.losses.size(), 1u);
  EXPECT_EQ(past.losses[0].rank(), 1u);
  ASSERT_EQ(past.read.size(), 1u);
  EXPECT_EQ(past.read.at(0).read_size(), 7);  // the rows and six columns
  ASSERT_EQ(past.read.at(0).decisions_size(), 1);
  EXPECT_EQ(past.read.at(0).decisions(0).id(), 5u);
  EXPECT_TRUE(past.read.at(0).decisions(0).has_save());
  ASSERT_EQ(past.read.at(0).wakes_size(), 1);
  EXPECT_EQ(past.read.at(0).wakes(0), 77);
}

TEST_F(ObservationsTest, RanksHaveTheNumbersThatTheJobGivesThem) {
  run_.lose_rank(0);
  run_.assign_gpus({3, 2});
  run_.world.apply(
      JobStarted{
          .job = kLiveJob, .epoch = {3}, .from = 0, .where = run_.placement.pending_placement()},
      3);
  telemetry_.record_progress(3, {}, 0);
  const auto ranks = observations_.next_observation({}).samples.ranks(kLiveJob);
  ASSERT_EQ(ranks.size(), 1u);
  EXPECT_EQ(ranks[0].rank, run_.placement.rank_in(3));
}

}  // namespace
}  // namespace orrery::live
