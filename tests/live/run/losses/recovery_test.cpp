#include "live/run/losses/recovery.hpp"

#include <algorithm>
#include <csignal>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/live/run/fake_ranks.hpp"
#include "tests/live/run/one_job.hpp"

namespace orrery::live {
namespace {

/// Four ranks and whoever carries events to the world.
struct Regrouping : Carrier {
  explicit Regrouping(LossResponse response = LossResponse::go_on,
                      std::optional<Nanos> hold_limit = std::nullopt, bool shards_state = false,
                      Nanos held_since = kNever)
      : run(response), held(held_since), limit(hold_limit), shards(shards_state) {}

  std::string refusal(const Decision&) const override { return {}; }
  bool is_step_open(JobId) const override { return false; }
  void emit_event(Event event) override {
    run.world.apply(event, clock.now());
    happened.push_back(std::move(event));
  }
  void carry_out(const Decision&) override {}

  template <class E>
  std::vector<E> all() const {
    std::vector<E> found;
    for (const Event& event : happened) {
      if (const auto* each = std::get_if<E>(&event)) found.push_back(*each);
    }
    return found;
  }

  OneJob run;
  Nanos held;
  std::optional<Nanos> limit;
  bool shards;
  FakeRanks ranks;
  PolicyClock clock;
  DecisionGate gate{run.world, {}, *this, true};
  Recovery recovery{run.placement,
                    ranks,
                    *this,
                    gate,
                    clock,
                    held,
                    limit,
                    [this](std::uint32_t replicas) { return replicas >= least_replicas; },
                    shards ? &run.cluster : nullptr,
                    [this](std::uint32_t seat) { return seat == writes; }};
  std::uint32_t writes = ~0u;  ///< seat of the rank that writes a shard
  std::uint32_t least_replicas = 1;
  std::vector<Event> happened;
};

TEST(Recovery, LossesOfOneInstantAreToldTogetherOnceTheOthersAgree) {
  Regrouping job;
  EXPECT_TRUE(job.recovery.record_exit(2, true));
  EXPECT_TRUE(job.recovery.record_exit(1, true));
  EXPECT_FALSE(job.recovery.record_exit(1, true));  // known already
  EXPECT_TRUE(job.happened.empty());
  EXPECT_TRUE(job.recovery.has_unreported());
  EXPECT_FALSE(job.recovery.is_nobody_left());
  job.recovery.emit_losses();
  const auto lost = job.all<RanksLost>();
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].ranks, (std::vector<RankId>{{1}, {2}}));
  EXPECT_EQ(lost[0].epoch.value, 2u);
  EXPECT_FALSE(job.recovery.is_held());
  EXPECT_FALSE(job.recovery.has_unreported());
}

TEST(Recovery, AJobThatIsToHoldStandsStillUntilItIsAssigned) {
  Regrouping job(LossResponse::hold);
  job.recovery.record_exit(3, true);
  job.recovery.emit_losses();
  EXPECT_EQ(job.all<JobHeld>().size(), 1u);
  EXPECT_TRUE(job.recovery.is_held());
  job.ranks.set_members({0, 1, 2});
  EXPECT_FALSE(job.recovery.is_hold_unanswerable(false));
  EXPECT_TRUE(job.recovery.is_hold_unanswerable(true));
  job.recovery.accept_assignment(job.run.assign_gpus({0, 1, 2}));
  job.recovery.activate_when_ready(true, 7);
  EXPECT_TRUE(job.all<JobStarted>().empty()) << "nobody leaves: the step is completed first";
  job.recovery.activate_when_ready(false, 7);
  const auto started = job.all<JobStarted>();
  ASSERT_EQ(started.size(), 1u);
  EXPECT_EQ(started[0].from, 7u);
  EXPECT_FALSE(job.recovery.is_held());
}

TEST(Recovery, ASuccessorWaitsAsLongAsIsLeftAndAnewForAPendingAssignment) {
  constexpr Nanos kHour = 3600 * kNanosPerSecond;
  for (const bool is_pending : {false, true}) {
    Regrouping job(LossResponse::hold, kHour, false, 0);
    EXPECT_TRUE(job.recovery.is_held());
    job.run.lose_rank(3);
    job.run.world.apply(JobHeld{kLiveJob}, 1);
    if (is_pending) job.run.assign_gpus({0, 1, 2, 5});
    // The hold began two hours ago.
    const Nanos now = Clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
    job.clock = PolicyClock(now - 2 * kHour);
    job.clock.start();
    job.recovery.start_missing();
    EXPECT_EQ(job.recovery.is_hold_unanswerable(true), !is_pending);
    EXPECT_EQ(job.ranks.replaced, is_pending ? std::vector<std::uint32_t>{5}
                                             : std::vector<std::uint32_t>{});
  }
}

TEST(Recovery, ASilentRankThatIsHeardAgainReturnsWithTheNextEpoch) {
  for (const LossResponse response : {LossResponse::go_on, LossResponse::hold}) {
    Regrouping job(response);
    job.recovery.record_exit(3, true);
    job.recovery.emit_losses();
    job.ranks.fence(3);
    job.recovery.review_heard_ranks();
    EXPECT_TRUE(job.ranks.readmitted.empty()) << "it is still silent";
    job.ranks.mark_only({3}, &RankState::is_heard_again);
    job.recovery.review_heard_ranks();
    EXPECT_EQ(job.ranks.readmitted, (std::vector<std::uint32_t>{3}));
    job.recovery.return_ranks({0, 1, 2});
    EXPECT_TRUE(job.all<JobStarted>().empty()) << "it is no member yet";
    job.recovery.return_ranks({0, 1, 2, 3});
    ASSERT_EQ(job.all<JobStarted>().size(), 1u);
    EXPECT_TRUE(job.run.placement.is_working(3));
    EXPECT_FALSE(job.recovery.is_held());
    job.recovery.return_ranks({0, 1, 2, 3});
    EXPECT_EQ(job.all<JobStarted>().size(), 1u) << "once";
  }
}

TEST(Recovery, ASilentRankWhosePlaceIsTakenEndsWhenItIsHeardAgain) {
  Regrouping job;
  job.recovery.record_exit(3, true);
  job.recovery.emit_losses();
  job.recovery.accept_assignment(job.run.assign_gpus({0, 1, 2}));
  job.ranks.withdrawn.clear();
  job.ranks.mark_only({3}, &RankState::is_heard_again);
  job.recovery.review_heard_ranks();
  EXPECT_TRUE(job.ranks.readmitted.empty());
  EXPECT_EQ(job.ranks.withdrawn, (std::vector<std::uint32_t>{3}));
}

TEST(Recovery, ASilentRankWhoseStateTheOthersNeedIsReadmittedThoughItsPlaceIsTaken) {
  Regrouping job;
  job.recovery.record_exit(3, true);
  job.recovery.emit_losses();
  job.recovery.accept_assignment(job.run.assign_gpus({0, 1, 2}));
  job.ranks.withdrawn.clear();
  job.ranks.mark_only({3}, &RankState::is_heard_again);
  job.ranks.now.waits_for_fenced = true;
  job.recovery.review_heard_ranks();
  EXPECT_EQ(job.ranks.readmitted, (std::vector<std::uint32_t>{3}));
  EXPECT_TRUE(job.ranks.withdrawn.empty());
  job.recovery.end_strays({0, 1, 2, 3});
  EXPECT_EQ(job.ranks.withdrawn, (std::vector<std::uint32_t>{3})) << "the others have its state";
}

TEST(Recovery, AHoldWithoutPoliciesWaitsForASilentRank) {
  Regrouping job(LossResponse::hold);
  job.clock.start();
  job.recovery.record_exit(3, true);
  job.recovery.emit_losses();
  job.ranks.set_members({0, 1, 2});
  EXPECT_TRUE(job.recovery.is_hold_unanswerable(true)) << "the process of rank 3 has ended";
  job.ranks.set_members({0, 1, 2, 3});
  EXPECT_FALSE(job.recovery.is_hold_unanswerable(true));
  job.ranks.now.patience = 0;
  const Nanos held = job.clock.now();
  while (job.clock.now() <= held) std::this_thread::yield();
  EXPECT_TRUE(job.recovery.is_hold_unanswerable(true)) << "the patience is over";
}

TEST(Recovery, TheLimitOfAHoldCountsWhileAnAssignmentIsPending) {
  Regrouping job(LossResponse::hold, Nanos{0});
  job.clock.start();
  job.recovery.record_exit(3, true);
  job.recovery.emit_losses();
  job.ranks.set_members({0, 1, 2});
  job.recovery.accept_assignment(job.run.assign_gpus({0, 1, 5}));
  EXPECT_TRUE(job.all<JobStarted>().empty()) << "GPU 5 has no process yet";
  const Nanos asked = job.clock.now();
  while (job.clock.now() <= asked) std::this_thread::yield();
  EXPECT_TRUE(job.recovery.is_hold_unanswerable(false));
}

TEST(Recovery, NobodyIsLeftOnceAllProcessesOfTheJobHaveEnded) {
  Regrouping job;
  EXPECT_FALSE(job.recovery.is_nobody_left());
  job.recovery.accept_assignment(job.run.assign_gpus({0, 1, 2, 5}));  // rank 3 is to leave
  job.ranks.set_members({});
  for (const std::uint32_t seat : {0u, 1u, 2u}) {
    EXPECT_FALSE(job.recovery.is_nobody_left()) << seat;
    EXPECT_TRUE(job.recovery.record_exit(seat, true));
  }
  EXPECT_TRUE(job.recovery.record_exit(3, true)) << "this object has not ended rank 3";
  EXPECT_TRUE(job.recovery.is_nobody_left()) << "the new process on GPU 5 has no state";
  job.recovery.emit_losses();
  EXPECT_TRUE(job.recovery.is_nobody_left());
  job.ranks.now.has_state_holder = true;
  EXPECT_FALSE(job.recovery.is_nobody_left()) << "a new process has received the state";
}

/// Ends all ranks of the job, which is then on hold. A checkpoint is complete if `saved`.
void lose_all(Regrouping& job, bool saved) {
  job.clock.start();
  if (saved) job.run.world.apply(SaveDone{.job = kLiveJob, .tier = Tier::local_disk}, 1);
  job.ranks.set_members({});
  for (const std::uint32_t seat : {0u, 1u, 2u, 3u}) job.recovery.record_exit(seat, true);
  job.recovery.emit_losses();
}

TEST(Recovery, AJobOfWhichNobodyIsLeftWaitsForPoliciesThatAreToBeCalled) {
  constexpr Nanos kHour = 3600 * kNanosPerSecond;
  Regrouping job(LossResponse::go_on, kHour);
  lose_all(job, true);
  EXPECT_TRUE(job.recovery.is_nobody_left());
  EXPECT_TRUE(job.recovery.can_be_assigned(true));
  EXPECT_FALSE(job.recovery.can_be_assigned(false)) << "no call of the policies is to come";
  Regrouping unsaved(LossResponse::go_on, kHour);
  lose_all(unsaved, false);
  EXPECT_FALSE(unsaved.recovery.can_be_assigned(true)) << "there is no checkpoint";
  Regrouping undecided(LossResponse::go_on);
  lose_all(undecided, true);
  EXPECT_FALSE(undecided.recovery.can_be_assigned(true)) << "no policy assigns";
  Regrouping replaced(LossResponse::replace, kHour);
  lose_all(replaced, true);
  EXPECT_FALSE(replaced.recovery.can_be_assigned(true)) << "an assignment is pending";
  Regrouping late(LossResponse::go_on, Nanos{0});
  lose_all(late, true);
  const Nanos held = late.clock.now();
  while (late.clock.now() <= held) std::this_thread::yield();
  EXPECT_FALSE(late.recovery.can_be_assigned(true)) << "the limit of the hold has passed";
}

TEST(Recovery, WhereLostRanksAreReplacedTheyAreStartedAtOnce) {
  Regrouping job(LossResponse::replace);
  job.recovery.record_exit(1, true);
  job.recovery.emit_losses();
  EXPECT_EQ(job.ranks.replaced, (std::vector<std::uint32_t>{1}));
  EXPECT_FALSE(job.recovery.record_exit(1, false));  // the process ended before it joined
  EXPECT_EQ(job.ranks.replaced, (std::vector<std::uint32_t>{1, 1}));
  job.recovery.activate_assignment({0, 1, 2, 3}, 4);
  EXPECT_EQ(job.all<JobStarted>().size(), 1u);
}

TEST(Recovery, WhoLeavesIsEndedOnceTheOthersAreThereAndIsNoLoss) {
  Regrouping job;
  job.recovery.accept_assignment(job.run.assign_gpus({0, 1, 5}));
  EXPECT_EQ(job.ranks.replaced, (std::vector<std::uint32_t>{5}));
  job.ranks.mark_only({0, 1, 2, 3, 5}, &RankState::is_running);
  job.recovery.activate_when_ready(true, 4);
  EXPECT_TRUE(job.ranks.signals.empty()) << "rank 5 runs, but is no member yet";
  job.ranks.set_members({0, 1, 2, 3, 5});
  job.recovery.activate_when_ready(true, 4);
  EXPECT_EQ(job.ranks.signals,
            (std::vector<std::pair<std::uint32_t, int>>{{2, SIGKILL}, {3, SIGKILL}}));
  EXPECT_TRUE(job.all<JobStarted>().empty());
  EXPECT_FALSE(job.recovery.record_exit(2, true));
  job.recovery.activate_assignment({0, 1, 5}, 4);
  EXPECT_EQ(job.all<JobStarted>().size(), 1u);
}

TEST(Recovery, ARankThatWritesItsShardLeavesAfterwards) {
  Regrouping job;
  job.writes = 3;
  job.recovery.accept_assignment(job.run.assign_gpus({0, 1, 2, 5}));
  job.ranks.set_members({0, 1, 2, 3, 5});
  job.recovery.activate_when_ready(false, 4);
  EXPECT_TRUE(job.ranks.signals.empty());
  job.writes = 2;  // stays
  job.recovery.activate_when_ready(false, 4);
  EXPECT_EQ(job.ranks.signals, (std::vector<std::pair<std::uint32_t, int>>{{3, SIGKILL}}));
}

TEST(Recovery, RanksThatShardTheirStateLeaveTogetherUnlessOneHoldsTheCopiesOfAnother) {
  const auto killed = [](const Regrouping& job) {
    std::vector<std::uint32_t> seats;
    for (const auto& [seat, signal] : job.ranks.signals) seats.push_back(seat);
    return seats;
  };
  // Each of two nodes of four ranks holds the copies of the other one.
  Regrouping node(LossResponse::go_on, std::nullopt, true);
  node.recovery.accept_assignment(node.run.assign_gpus({4, 5, 6, 7}));
  node.ranks.set_members({0, 1, 2, 3, 4, 5, 6, 7});
  node.recovery.activate_when_ready(false, 4);
  EXPECT_EQ(killed(node), (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_TRUE(node.all<JobStarted>().empty());
  node.recovery.activate_assignment({4, 5, 6, 7}, 4);
  EXPECT_EQ(node.all<JobStarted>().size(), 1u);

  // Ranks 0 and 2 of four on one node hold the copies of each other, as do 1 and 3.
  Regrouping pair(LossResponse::go_on, std::nullopt, true);
  pair.recovery.accept_assignment(pair.run.assign_gpus({1, 3}));
  pair.recovery.activate_when_ready(false, 4);
  EXPECT_EQ(killed(pair), (std::vector<std::uint32_t>{0})) << "2 holds the last copies";
  Regrouping half(LossResponse::go_on, std::nullopt, true);
  half.recovery.accept_assignment(half.run.assign_gpus({2, 3}));
  half.recovery.activate_when_ready(false, 4);
  EXPECT_EQ(killed(half), (std::vector<std::uint32_t>{0, 1}));
}

TEST(Recovery, ALeavingRankThatDiesBeforeTheOthersHaveJoinedIsLost) {
  Regrouping job;
  job.recovery.accept_assignment(job.run.assign_gpus({0, 1, 2, 5}));
  EXPECT_TRUE(job.recovery.record_exit(3, true));
  job.ranks.set_members({0, 1, 2});
  job.recovery.emit_losses();
  const std::vector<RanksLost> lost = job.all<RanksLost>();
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].ranks, std::vector<RankId>{{3}});
  EXPECT_EQ(job.ranks.replaced, std::vector<std::uint32_t>{5}) << "its own GPU is not used again";
  EXPECT_TRUE(job.run.placement.is_complete({0, 1, 2})) << "the others work meanwhile";
  job.recovery.activate_assignment({0, 1, 2, 5}, 4);
  EXPECT_EQ(job.all<JobStarted>().size(), 1u);
}

TEST(Recovery, AJobThatCannotRunWithFewerReplicasIsHeld) {
  Regrouping job;
  job.least_replicas = 4;
  job.recovery.record_exit(3, true);
  job.recovery.emit_losses();
  EXPECT_TRUE(job.recovery.is_held());
}

TEST(Recovery, ANewerAssignmentEndsTheProcessesOfTheOneBefore) {
  Regrouping job(LossResponse::hold);
  job.recovery.record_exit(3, true);
  job.recovery.emit_losses();
  job.recovery.accept_assignment(job.run.assign_gpus({0, 1, 2, 3}));
  EXPECT_EQ(job.ranks.replaced, (std::vector<std::uint32_t>{3}));
  job.ranks.withdrawn.clear();
  job.recovery.accept_assignment(job.run.assign_gpus({0, 1, 2}));
  EXPECT_EQ(job.ranks.replaced.size(), 1u);
  EXPECT_EQ(std::count(job.ranks.withdrawn.begin(), job.ranks.withdrawn.end(), 3u), 1);
  // Its process was faster: the epoch has it, and it leaves.
  job.ranks.withdrawn.clear();
  job.recovery.activate_assignment({0, 1, 2, 3}, 5);
  EXPECT_EQ(job.ranks.withdrawn, (std::vector<std::uint32_t>{3}));
  EXPECT_TRUE(job.all<JobStarted>().empty());
  EXPECT_FALSE(job.recovery.record_exit(3, true)) << "no loss";
  job.recovery.activate_assignment({0, 1, 2}, 5);
  EXPECT_EQ(job.all<JobStarted>().size(), 1u);
}

TEST(Recovery, AnAssignmentIsNotActivatedAfterTheLastStep) {
  Regrouping job(LossResponse::replace);
  job.recovery.record_exit(1, true);
  job.recovery.emit_losses();
  job.run.world.apply(StepsDone{.job = kLiveJob, .last = 99, .count = 100, .duration = 1}, 5);
  job.recovery.activate_assignment({0, 1, 2, 3}, 100);
  EXPECT_TRUE(job.all<JobStarted>().empty());
}

TEST(Recovery, AnAssignmentComesTrueWithoutWhomNobodyStarts) {
  Regrouping job;
  job.recovery.accept_assignment(job.run.assign_gpus({0, 1, 2, 5}));
  job.recovery.activate_assignment(job.ranks.members(), 4);
  EXPECT_TRUE(job.all<JobStarted>().empty());
  job.ranks.set_members({0, 1, 2});
  job.recovery.abandon_seat(5, 4);
  EXPECT_EQ(job.all<JobStarted>().size(), 1u);
  EXPECT_FALSE(job.recovery.is_deserted());
  job.ranks.set_members({});
  EXPECT_TRUE(job.recovery.is_deserted());
  job.ranks.mark_only({6}, &RankState::is_running);
  EXPECT_FALSE(job.recovery.is_deserted()) << "a process that is no member yet may join";
}

TEST(Recovery, WhoHasNotComeBackToANewControllerIsFencedAndLost) {
  Regrouping job;
  EXPECT_EQ(job.recovery.fence_missing({0, 1, 3}), (std::vector<std::uint32_t>{2}));
  EXPECT_EQ(job.ranks.fenced, (std::vector<std::uint32_t>{2}));
  EXPECT_TRUE(job.recovery.record_exit(2, true));
}

}  // namespace
}  // namespace orrery::live
