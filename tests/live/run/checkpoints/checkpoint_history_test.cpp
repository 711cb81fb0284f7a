#include "live/run/checkpoints/checkpoint_history.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

KeptCheckpoints kept_of(const CheckpointHistory& history) {
  KeptCheckpoints kept;
  history.keep(kept);
  return kept;
}

TEST(CheckpointHistory, CountsAndKeepsTheNewestThatAreWhole) {
  CheckpointHistory history("t", 2, {});
  for (const Step step : {10, 20, 30, 40}) {
    history.begun(step, step + 1);
    EXPECT_TRUE(history.ended(step, step != 20));
  }
  history.begun(50, 51);
  EXPECT_EQ(history.written(), 3u);
  EXPECT_EQ(history.failed(), 1u);
  const KeptCheckpoints kept = kept_of(history);
  ASSERT_EQ(kept.begun_size(), 3);
  EXPECT_EQ(kept.begun(0).step(), 30u);
  EXPECT_TRUE(kept.begun(1).told());
  EXPECT_EQ(kept.begun(2).attempt(), 51u);
  EXPECT_FALSE(kept.begun(2).told());
}

TEST(CheckpointHistory, AnotherControllerTakesOverWhatWasBegunAndTellsNothingTwice) {
  CheckpointHistory first("t", 5, {});
  first.begun(10, 1);
  first.ended(10, true);
  Past past;
  first.keep(*past.snapshot.emplace().mutable_checkpoints());
  JournalCommit& commit = past.commits.emplace_back();
  commit.set_step(19);
  commit.set_checkpoint(2);

  CheckpointHistory second("t", 5, past);
  const std::vector<CheckpointId> earlier = second.take_earlier();
  ASSERT_EQ(earlier.size(), 2u);
  EXPECT_EQ(earlier[1].step, 20u);
  EXPECT_EQ(earlier[1].attempt, 2u);
  EXPECT_TRUE(second.take_earlier().empty());
  EXPECT_FALSE(second.ended(10, true));
  EXPECT_TRUE(second.ended(20, true));
  EXPECT_EQ(second.written(), 2u);
}

TEST(CheckpointHistory, WhatWasShownOfACheckpointCounts) {
  Past past;
  SaveDoneRecord& shown = *past.seen.emplace_back().add_events()->mutable_save_done();
  shown.set_step(10);
  shown.set_durable(true);
  CheckpointHistory history("t", 5, past);
  EXPECT_EQ(history.written(), 1u);
  EXPECT_FALSE(history.ended(10, true));
}

}  // namespace
}  // namespace orrery::live
