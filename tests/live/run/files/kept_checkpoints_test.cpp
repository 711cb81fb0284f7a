#include "live/run/files/kept_checkpoints.hpp"

#include <gtest/gtest.h>

#include "live/run/files/run_state.hpp"

namespace orrery::live {
namespace {

using Attempts = std::vector<NamedAttempt>;

void begin(KeptCheckpoints& kept, Step step, std::uint64_t attempt) {
  begin_attempt(kept, step, attempt, TIER_LOCAL_DISK);
}

SaveDoneRecord outcome(Step step, bool durable, TierRecord tier = TIER_LOCAL_DISK) {
  SaveDoneRecord done;
  done.set_step(step);
  done.set_tier(tier);
  done.set_durable(durable);
  return done;
}

/// Applies the commit of the step before `step`, with the attempt that follows.
void commit(RunState& state, Step step, std::uint64_t attempt) {
  state.core.committed = step - 1;
  JournalRecord record;
  record.mutable_commit()->set_step(step - 1);
  record.mutable_commit()->set_checkpoint(attempt);
  record.mutable_commit()->set_tier(TIER_LOCAL_DISK);
  EXPECT_EQ(apply(state, record, {.keep = 2}), std::nullopt);
}

void show(RunState& state, const SaveDoneRecord& done) {
  JournalRecord record;
  *record.mutable_seen()->mutable_observation()->add_events()->mutable_save_done() = done;
  EXPECT_EQ(apply(state, record, {.keep = 2}), std::nullopt);
}

TEST(KeptCheckpoints, CountsAndKeepsTheNewestThatAreWhole) {
  KeptCheckpoints kept;
  for (const Step step : {10, 20, 30, 40}) {
    begin(kept, step, step + 1);
    EXPECT_TRUE(end_attempt(kept, step + 1, step != 20, 2));
  }
  begin(kept, 50, 51);
  EXPECT_EQ(kept.written(), 3u);
  EXPECT_EQ(kept.failed(), 1u);
  ASSERT_EQ(kept.begun_size(), 3);
  EXPECT_EQ(kept.begun(0).step(), 30u);
  EXPECT_TRUE(kept.begun(1).told());
  EXPECT_EQ(kept.begun(2).attempt(), 51u);
  EXPECT_FALSE(kept.begun(2).told());
}

TEST(KeptCheckpoints, OfATierInMemoryTheNewestAloneIsKept) {
  KeptCheckpoints kept;
  for (const std::uint64_t attempt : {1u, 2u}) {
    begin_attempt(kept, 10 * attempt, attempt, TIER_PEER);
    EXPECT_TRUE(end_attempt(kept, attempt, true, 2));
  }
  EXPECT_EQ(complete_attempts(kept, 20), (Attempts{{20, 2, Tier::peer}}));
}

TEST(KeptCheckpoints, KnowsTheAttemptOfACompleteCheckpoint) {
  KeptCheckpoints kept;
  begin(kept, 10, 1);
  EXPECT_EQ(complete_attempts(kept, 10), Attempts()) << "it is being written";
  end_attempt(kept, 1, true, 2);
  EXPECT_EQ(complete_attempts(kept, 10), (Attempts{{10, 1}}));
  begin(kept, 20, 2);
  end_attempt(kept, 2, false, 2);
  EXPECT_EQ(complete_attempts(kept, 20), (Attempts{{10, 1}}));
  begin(kept, 30, 3);
  end_attempt(kept, 3, true, 2);
  EXPECT_EQ(complete_attempts(kept, 30), (Attempts{{30, 3}, {10, 1}}));
  EXPECT_EQ(complete_attempts(kept, 29), (Attempts{{10, 1}}));
}

TEST(KeptCheckpoints, AFailedAttemptLeavesACompleteOneOfTheSameStep) {
  KeptCheckpoints kept;
  begin(kept, 10, 1);
  end_attempt(kept, 1, true, 2);
  begin(kept, 10, 2);
  apply_outcome(kept, outcome(10, false), 2);
  EXPECT_EQ(complete_attempts(kept, 10), (Attempts{{10, 1}}));
  EXPECT_FALSE(has_attempt(kept, 2));
}

TEST(KeptCheckpoints, TheNewestFailureOfATierIsKnownUntilItsNextOutcome) {
  KeptCheckpoints kept;
  EXPECT_EQ(newest_failure(kept, TIER_LOCAL_DISK), std::nullopt);
  for (const std::uint64_t attempt : {1u, 2u}) {
    begin(kept, 10 * attempt, attempt);
    end_attempt(kept, attempt, false, 2);
    EXPECT_EQ(newest_failure(kept, TIER_LOCAL_DISK), 10 * attempt);
    EXPECT_EQ(kept.begun_size(), 1);
  }
  EXPECT_EQ(newest_failure(kept, TIER_STORAGE), std::nullopt);
  EXPECT_EQ(complete_attempts(kept, 20), Attempts());
  apply_outcome(kept, outcome(20, true), 2);  // a retry, which no commit names
  EXPECT_EQ(newest_failure(kept, TIER_LOCAL_DISK), std::nullopt);
  EXPECT_EQ(kept.written(), 1u);
  EXPECT_EQ(kept.failed(), 2u);
}

TEST(KeptCheckpoints, ARollbackForgetsLaterCheckpointsAndTheirOutcomes) {
  KeptCheckpoints kept;
  begin(kept, 10, 1);
  end_attempt(kept, 1, true, 1);
  begin(kept, 20, 2);
  forget_after(kept, 10);
  EXPECT_TRUE(is_complete(kept, 1));
  EXPECT_FALSE(has_attempt(kept, 2)) << "its outcome is still to come";
  EXPECT_FALSE(end_attempt(kept, 2, true, 1));
  begin(kept, 20, 3);
  EXPECT_TRUE(end_attempt(kept, 3, true, 1));
  EXPECT_EQ(complete_attempts(kept, 20), (Attempts{{20, 3}}));
  EXPECT_EQ(kept.written(), 2u);
}

TEST(KeptCheckpoints, CommitsOutcomesAndRollbacksInTheJournalChangeTheState) {
  RunState state;
  commit(state, 10, 1);
  commit(state, 20, 2);
  show(state, outcome(10, true));
  EXPECT_EQ(complete_attempts(state.checkpoints, 20), (Attempts{{10, 1}}));
  show(state, outcome(20, false));
  EXPECT_FALSE(has_attempt(state.checkpoints, 2)) << "a successor would report it once more";
  commit(state, 30, 3);
  show(state, outcome(30, true, TIER_STORAGE));
  EXPECT_FALSE(is_complete(state.checkpoints, 3)) << "that is another tier";
  JournalRecord back;
  back.mutable_rolled_back()->set_step(10);
  EXPECT_EQ(apply(state, back), std::nullopt);
  EXPECT_TRUE(has_attempt(state.checkpoints, 1));
  EXPECT_FALSE(has_attempt(state.checkpoints, 3));
  EXPECT_EQ(state.checkpoints.written(), 2u);
  EXPECT_EQ(state.checkpoints.failed(), 1u);

  JournalRecord snapshot;
  save_state(state, *snapshot.mutable_snapshot());
  RunState successor;
  EXPECT_EQ(apply(successor, snapshot), std::nullopt);
  EXPECT_EQ(successor.checkpoints.SerializeAsString(), state.checkpoints.SerializeAsString());
}

TEST(KeptCheckpoints, ACompleteCheckpointThatCannotBeReadAnyMoreIsForgottenAndNotCounted) {
  KeptCheckpoints kept;
  begin(kept, 10, 1);
  end_attempt(kept, 1, true, 2);
  EXPECT_FALSE(end_attempt(kept, 1, true, 2)) << "it is reported";
  EXPECT_FALSE(end_attempt(kept, 1, false, 2));
  EXPECT_EQ(complete_attempts(kept, 10), Attempts());
  EXPECT_EQ(kept.written(), 1u);
  EXPECT_EQ(kept.failed(), 0u);
}

}  // namespace
}  // namespace orrery::live
