#include "live/programs/run_book.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

constexpr const char* kKilled = "killed by signal 9 (Killed)";

/// Book of three attached ranks that have agreed in epoch 0.
RunBook settled_book() {
  RunBook book(3, 2, 0);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    book.record_hello(rank, 0);
    book.record_settled(rank, 0);
  }
  return book;
}

TEST(RunBook, AKilledRankIsALossAndAskForAnEpoch) {
  RunBook book = settled_book();
  EXPECT_EQ(book.record_exit(1, 137, kKilled, 5), Reaction::new_epoch);
  book.begin_epoch();
  EXPECT_EQ(book.epoch(), 1u);
  EXPECT_EQ(book.members(), (std::vector<std::size_t>{0, 2}));
  book.record_exit(0, 0, "exit code 0", 9);
  book.record_exit(2, 0, "exit code 0", 9);
  EXPECT_EQ(book.exit_code(), 6);
  ASSERT_EQ(book.losses().size(), 1u);
  EXPECT_EQ(book.losses()[0].cause, kKilled);
}

TEST(RunBook, AReplacedRankIsAMemberAgainAndNotMissing) {
  RunBook book = settled_book();
  EXPECT_FALSE(book.can_replace());
  book.record_state(true);
  EXPECT_TRUE(book.can_replace());
  book.record_exit(1, 137, kKilled, 5);
  EXPECT_EQ(book.missing_ranks(), std::vector<std::size_t>{1});
  EXPECT_DOUBLE_EQ(book.record_joined(1, 8), 3);
  EXPECT_EQ(book.members(), (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_FALSE(book.is_lost(1));
  EXPECT_EQ(book.losses()[0].replaced_s, 3.0);
  book.record_exit(1, 137, kKilled, 9);  // lost again
  EXPECT_EQ(book.missing_ranks(), std::vector<std::size_t>{1});
  EXPECT_FALSE(book.losses()[1].replaced_s);
  book.record_joined(1, 10);
  for (const std::size_t rank : {0, 1, 2}) book.record_exit(rank, 0, "exit code 0", 12);
  EXPECT_FALSE(book.can_replace());
  EXPECT_EQ(book.exit_code(), 0);
}

TEST(RunBook, AStateThatIsShardedAtAnyRankCannotBeReplaced) {
  RunBook book = settled_book();
  book.record_state(true);
  book.record_state(false);
  book.record_state(true);
  EXPECT_FALSE(book.can_replace());
  EXPECT_TRUE(book.has_state());
}

TEST(RunBook, TheProgramsExitCodeComesFirst) {
  RunBook book = settled_book();
  book.record_exit(0, 1, "exit code 1", 5);
  book.record_exit(1, 1, "exit code 1", 5);
  EXPECT_EQ(book.record_exit(2, 1, "exit code 1", 5), Reaction::none);  // the last: nobody survives
  EXPECT_EQ(book.exit_code(), 1);
  EXPECT_EQ(book.losses().size(), 2u);
}

TEST(RunBook, TheEndOfARankThatHasLeftIsNoLoss) {
  RunBook book = settled_book();
  EXPECT_EQ(book.record_left(0), Reaction::none);
  EXPECT_EQ(book.record_exit(0, 3, "exit code 3", 5), Reaction::none);
  EXPECT_TRUE(book.losses().empty());
  EXPECT_EQ(book.exit_code(), 3);
}

TEST(RunBook, ALeaverDuringARecoveryAsksForAnEpoch) {
  RunBook book = settled_book();
  book.begin_epoch();
  book.record_settled(1, 1);
  EXPECT_EQ(book.record_left(0), Reaction::new_epoch);  // rank 2 has not agreed in epoch 1
}

TEST(RunBook, WithoutTheGroupALossEndsTheRun) {
  RunBook book(2, 2, 0);
  book.record_plain(0, "no compiler");
  book.record_plain(1, "another reason");
  EXPECT_EQ(book.plain_reason(), "no compiler");
  EXPECT_EQ(book.record_exit(1, 137, kKilled, 1), Reaction::end_run);
}

TEST(RunBook, RanksThatTheRunEndsAreNoLosses) {
  RunBook book = settled_book();
  book.record_ending();
  EXPECT_EQ(book.record_exit(0, 143, "killed by signal 15 (Terminated)", 1), Reaction::none);
  EXPECT_TRUE(book.losses().empty());
}

TEST(RunBook, SilenceIsCountedFromTheLastHeartbeatOfAttachedRanks) {
  RunBook book(3, 2, 0);
  book.record_hello(0, 10);
  book.record_hello(1, 10);
  book.record_beat(1, 11.5);
  EXPECT_TRUE(book.silent_ranks(12).empty());
  EXPECT_EQ(book.silent_ranks(12.1), (std::vector<std::size_t>{0}));  // rank 2 is not attached
}

TEST(RunBook, AFailureWithoutALossIsACutAfterASecond) {
  RunBook book = settled_book();
  book.record_problem(7, 1);  // a failure of another epoch
  EXPECT_FALSE(book.is_cut_due(9));
  book.record_problem(0, 10);
  EXPECT_FALSE(book.is_cut_due(10.9));
  EXPECT_TRUE(book.is_cut_due(11));
  book.begin_epoch();
  EXPECT_FALSE(book.is_cut_due(20));
}

TEST(RunBook, ALossCostsTheInterruptedStepBeyondTheMedian) {
  RunBook book = settled_book();
  for (std::uint64_t step = 1; step <= 5; ++step) {
    for (std::size_t rank = 0; rank < 3; ++rank) {
      book.record_step(rank, step, static_cast<double>(step), 0.25 * static_cast<double>(step));
    }
  }
  EXPECT_EQ(book.median_step_s(), 1.0);
  EXPECT_EQ(book.input_share(), 0.25);
  book.record_exit(2, 137, kKilled, 5.5);
  EXPECT_FALSE(book.losses()[0].lost_s);
  book.record_step(0, 6, 6.5, 1.5);
  book.record_step(1, 6, 6.75, 1.5);
  EXPECT_EQ(book.losses()[0].lost_s, 0.75);
  EXPECT_EQ(book.median_step_s(), 1.0);  // interrupted steps do not count
  book.record_step(0, 7, 9, 1.5);
  EXPECT_EQ(book.losses()[0].lost_s, 0.75);
  EXPECT_EQ(book.steps(), 7u);
}

TEST(RunBook, TheTimeOfTheRanksHasTheirStartsInputAndInterruptedSteps) {
  RunBook book = settled_book();
  for (const std::size_t rank : {0, 1}) {
    book.record_step(rank, 1, 10, 0.5);  // the input of the first step belongs to the start
    book.record_step(rank, 2, 12, 1.0);
    book.record_step(rank, 3, 14, 1.5);
  }
  book.record_exit(2, 137, kKilled, 15);
  book.record_step(0, 4, 19, 1.5);
  const ProgramTime& time = book.rank_time();
  EXPECT_DOUBLE_EQ(time.starting, 20);
  EXPECT_DOUBLE_EQ(time.input, 2);
  EXPECT_DOUBLE_EQ(time.recovery, 3);  // 5 s in place of the median of 2 s
  EXPECT_DOUBLE_EQ(time.training, 2 * 4 - 2 + 2);
}

TEST(RunBook, AReplacedRankKeepsItsTimeAndStartsAnew) {
  RunBook book = settled_book();
  book.record_start(2, false, 9);
  book.record_step(2, 1, 10, 0);
  book.record_step(2, 2, 13, 0);
  book.record_exit(2, 137, kKilled, 15);
  book.record_start(2, true, 0.5);
  book.record_joined(2, 20);
  book.record_step(2, 1, 22, 0);
  EXPECT_DOUBLE_EQ(book.rank_time().starting, 10 + 2);
  EXPECT_DOUBLE_EQ(book.rank_time().training, 3);
  ASSERT_EQ(book.starts().size(), 2u);
  EXPECT_FALSE(book.starts()[0].is_warm);
  EXPECT_TRUE(book.starts()[1].is_warm);
  EXPECT_DOUBLE_EQ(book.starts()[1].took_s, 0.5);
}

TEST(RunBook, TheFirstStepOfANewProcessIsItsStartWhateverItsNumber) {
  RunBook book = settled_book();
  for (const std::size_t rank : {0, 1}) book.record_step(rank, 1, 10, 0);
  for (const std::size_t rank : {0, 1}) book.record_step(rank, 2, 13, 0);
  book.record_exit(2, 137, kKilled, 14);
  book.record_joined(2, 15);
  book.record_step(2, 3, 16, 0);
  EXPECT_FALSE(book.losses()[0].lost_s);  // only the steps of the others were interrupted
  EXPECT_DOUBLE_EQ(book.rank_time().training, 6);
  book.record_step(0, 3, 18, 0);
  EXPECT_DOUBLE_EQ(book.losses()[0].lost_s.value_or(0), 2);
  book.record_step(2, 4, 19, 0);
  EXPECT_DOUBLE_EQ(book.rank_time().training, 6 + 3 + 3);
}

TEST(RunBook, ASuccessorContinuesTheAccount) {
  RunBook before = settled_book();
  before.record_step(0, 1, 10, 0);
  before.record_step(0, 2, 12, 0);
  before.record_exit(2, 137, kKilled, 15);
  before.begin_epoch();
  before.record_snapshot(2);
  RunBook book(before.ranks(), 2, 100);
  book.take_over(before.run_account());
  EXPECT_EQ(book.epoch(), 1u);
  EXPECT_EQ(book.missing_ranks(), std::vector<std::size_t>{2});
  EXPECT_TRUE(book.has_ended(2));
  EXPECT_EQ(book.losses().at(0).cause, kKilled);
  EXPECT_EQ(book.newest_snapshot(), 2u);
  book.record_taken(0, 40, 100);
  EXPECT_EQ(book.steps_of(0), 40u);
  EXPECT_EQ(book.attached_members(1), std::vector<std::size_t>{0});
  book.record_step(0, 41, 101, 0);  // its begin is unknown
  EXPECT_EQ(book.median_step_s(), std::nullopt);
  book.record_step(0, 42, 103, 0);
  EXPECT_DOUBLE_EQ(*book.median_step_s(), 2);
  EXPECT_DOUBLE_EQ(book.rank_time().starting, before.rank_time().starting);
  EXPECT_DOUBLE_EQ(book.rank_time().training, 2 + 2);
  book.record_exit(0, 0, "", 110);
  book.record_exit(1, 0, "", 110);
  EXPECT_EQ(book.exit_code(), kRanksMissing);
}

}  // namespace
}  // namespace orrery::live
