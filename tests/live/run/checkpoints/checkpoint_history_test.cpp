#include "live/run/checkpoints/checkpoint_history.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

using Attempts = std::vector<CheckpointHistory::Complete>;

KeptCheckpoints kept_of(const CheckpointHistory& history) {
  KeptCheckpoints kept;
  history.save_to(kept);
  return kept;
}

TEST(CheckpointHistory, CountsAndKeepsTheNewestThatAreWhole) {
  CheckpointHistory history("t", 2, {});
  for (const Step step : {10, 20, 30, 40}) {
    history.record_begin(step, step + 1);
    EXPECT_TRUE(history.record_end(step, step + 1, step != 20));
  }
  history.record_begin(50, 51);
  EXPECT_EQ(history.written(), 3u);
  EXPECT_EQ(history.failed_count(), 1u);
  const KeptCheckpoints kept = kept_of(history);
  ASSERT_EQ(kept.begun_size(), 3);
  EXPECT_EQ(kept.begun(0).step(), 30u);
  EXPECT_TRUE(kept.begun(1).told());
  EXPECT_EQ(kept.begun(2).attempt(), 51u);
  EXPECT_FALSE(kept.begun(2).told());
}

TEST(CheckpointHistory, KnowsTheAttemptOfACompleteCheckpoint) {
  CheckpointHistory history("t", 2, {});
  history.record_begin(10, 1);
  EXPECT_EQ(history.complete_attempts(10), Attempts()) << "it is being written";
  history.record_end(10, 1, true);
  EXPECT_EQ(history.complete_attempts(10), (Attempts{{10, 1}}));
  history.record_begin(20, 2);
  history.record_end(20, 2, false);
  EXPECT_EQ(history.complete_attempts(20), (Attempts{{10, 1}}));
  history.record_begin(30, 3);
  history.record_end(30, 3, true);
  EXPECT_EQ(history.complete_attempts(30), (Attempts{{30, 3}, {10, 1}}));
  EXPECT_EQ(history.complete_attempts(29), (Attempts{{10, 1}}));
}

TEST(CheckpointHistory, AFailedAttemptLeavesACompleteOneOfTheSameStep) {
  CheckpointHistory history("t", 2, {});
  history.record_begin(10, 1);
  history.record_end(10, 1, true);
  history.record_begin(10, 2);
  history.record_end(10, 2, false);
  EXPECT_EQ(history.complete_attempts(10), (Attempts{{10, 1}}));
  EXPECT_FALSE(history.has_attempt(2));
}

TEST(CheckpointHistory, ARollbackForgetsLaterCheckpointsAndTheirOutcomes) {
  CheckpointHistory history("t", 1, {});
  history.record_begin(10, 1);
  history.record_end(10, 1, true);
  history.record_begin(20, 2);
  history.forget_after(10);
  EXPECT_TRUE(history.has_attempt(1));
  EXPECT_FALSE(history.has_attempt(2)) << "its outcome is still to come";
  EXPECT_EQ(history.complete_attempts(20), (Attempts{{10, 1}}));
  history.record_begin(20, 3);
  EXPECT_TRUE(history.record_end(20, 3, true));
  EXPECT_EQ(history.complete_attempts(20).front(), (CheckpointHistory::Complete{20, 3}));
  history.forget_after(0);
  history.record_begin(10, 4);
  EXPECT_TRUE(history.record_end(10, 4, true)) << "saved again";
}

TEST(CheckpointHistory, AnotherControllerTakesOverWhatWasBegunAndTellsNothingTwice) {
  CheckpointHistory first("t", 5, {});
  first.record_begin(10, 1);
  first.record_end(10, 1, true);
  Past past;
  first.save_to(*past.snapshot.emplace().mutable_checkpoints());
  JournalCommit& commit = past.commits.emplace_back();
  commit.set_step(19);
  commit.set_checkpoint(2);
  commit.set_tier(TIER_LOCAL_DISK);

  CheckpointHistory second("t", 5, past);
  const std::vector<CheckpointId> earlier = second.take_earlier();
  ASSERT_EQ(earlier.size(), 2u);
  EXPECT_EQ(earlier[1].step, 20u);
  EXPECT_EQ(earlier[1].attempt, 2u);
  EXPECT_TRUE(second.take_earlier().empty());
  EXPECT_FALSE(second.record_end(10, 1, true));
  EXPECT_TRUE(second.record_end(20, 2, true));
  EXPECT_EQ(second.written(), 2u);
}

TEST(CheckpointHistory, WhatWasShownOfACheckpointCounts) {
  Past past;
  SaveDoneRecord& shown = *past.seen.emplace_back().add_events()->mutable_save_done();
  shown.set_step(10);
  shown.set_tier(TIER_LOCAL_DISK);
  shown.set_durable(true);
  CheckpointHistory history("t", 5, past);
  EXPECT_EQ(history.written(), 1u);
  EXPECT_FALSE(history.record_end(10, 1, true));
}

TEST(CheckpointHistory, AFailureThatWasShownIsNeitherForgottenNorToldTwice) {
  Past past;
  JournalCommit& commit = past.commits.emplace_back();
  commit.set_step(9);
  commit.set_checkpoint(7);
  commit.set_tier(TIER_LOCAL_DISK);
  SaveDoneRecord& shown = *past.seen.emplace_back().add_events()->mutable_save_done();
  shown.set_step(10);
  shown.set_tier(TIER_LOCAL_DISK);
  CheckpointHistory history("t", 5, past);
  EXPECT_EQ(history.failed_count(), 1u);
  EXPECT_FALSE(history.has_attempt(7));
  EXPECT_TRUE(history.take_earlier().empty()) << "its outcome would come once more";
  EXPECT_EQ(history.failed_before(), 10u) << "the end of the run depends on it";
}

}  // namespace
}  // namespace orrery::live
