#include "sim/training/loss_events.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "sim/training/assignments.hpp"
#include "sim/training/job_faults.hpp"
#include "tests/sim/training/lone_job.hpp"

namespace orrery::sim {
namespace {

using testing::LoneJob;

TEST(LossEvents, AKilledRankCutsTheStepAndIsToldOnceItIsDetected) {
  LoneJob job("  - {at_time: 1 ms, rank: 2, kill: true}\n");
  job.start();
  job.open_step();
  EXPECT_EQ(job.state().step_end(), kNanosPerSecond / 1000);
  job.close_step();
  EXPECT_TRUE(job.state().losses.is_undetected({2}));
  EXPECT_EQ(job.state().step, 0u) << "the step is repeated";
  EXPECT_TRUE(job.events_of<RanksLost>().empty());

  // A snapshot between the loss and its detection.
  LoneJob read(job, [&job](const JobInWorld& here) { return read_state(here, job.bytes()); });
  EXPECT_TRUE(read.state().losses.is_undetected({2}));
  EXPECT_EQ(read.bytes(), job.bytes());

  const Nanos noticed = job.state().losses.next_noticed();
  EXPECT_EQ(noticed, job.state().now + job.here.survival().detection());
  for (LoneJob* each : {&job, &read}) {
    each->state().now = noticed;
    notice_losses(each->here, each->state());
    EXPECT_EQ(each->events_of<RanksLost>().size(), 1u);
    EXPECT_EQ(each->state().fit().graph().data(), 3u);
    EXPECT_EQ(each->state().resume_at, noticed + job.here.survival().regroup());
    EXPECT_TRUE(next_losses(each->info(), each->state(), {}, 0, kNever).empty());
  }
}

TEST(LossEvents, FaultsOfOneInstantAreDrainedOnceForEachRankAndSilentRanksComeLast) {
  LoneJob job(
      "  - {at_time: 1 s, rank: 0, stop: true}\n  - {at_time: 1 s, rank: 1, stop: true}\n"
      "  - {at_time: 1 s, gpu: 1, down: true}\n  - {at_time: 1 s, rank: 3, kill: true}\n");
  job.start();
  const Nanos now = job.state().now = kNanosPerSecond;
  EXPECT_EQ(next_report_time(job.state().faults), kNever);
  std::vector<std::pair<std::uint32_t, bool>> struck;
  for (const StruckRank& each : drain_losses(job.info(), job.state(), {}, now, now + 1)) {
    struck.emplace_back(each.rank.value, each.fault.silent);
  }
  EXPECT_EQ(struck, (std::vector<std::pair<std::uint32_t, bool>>{
                        {1, false}, {3, false}, {0, true}}));
  EXPECT_EQ(next_report_time(job.state().faults), now) << "the lost GPU is reported";
  EXPECT_TRUE(drain_losses(job.info(), job.state(), {}, now, now + 1).empty());
}

TEST(LossEvents, ARankThatDiesWhileTheJobIsStalledIsLostToo) {
  LoneJob job("  - {at_time: 5 s, rank: 1, kill: true}\n");
  job.start();
  stall_until(job.state(), 9 * kNanosPerSecond, GpuUse::checkpoint);
  job.state().now = 5 * kNanosPerSecond;
  apply_faults_between_steps(job.here, job.state());
  EXPECT_TRUE(job.state().losses.is_undetected({1}));
  EXPECT_FALSE(can_begin_step(job.here, job.state()));
  EXPECT_FALSE(is_given_up(job.state()));
}

TEST(LossEvents, ASilentRankIsSuspectedBeforeItIsLost) {
  LoneJob job("  - {at_time: 1 ms, rank: 3, stop: true}\n");
  job.start();
  job.run_steps(1);
  job.state().now = job.state().losses.next_suspected(job.state().now);
  notice_losses(job.here, job.state());
  ASSERT_EQ(job.events_of<RanksSuspected>().size(), 1u);
  EXPECT_TRUE(job.events_of<RanksLost>().empty());
  job.state().now = job.state().losses.next_noticed();
  notice_losses(job.here, job.state());
  ASSERT_EQ(job.events_of<RanksLost>().size(), 1u);
  EXPECT_EQ(job.events_of<RanksSuspected>().size(), 1u) << "the loss ends the suspicion";
  EXPECT_TRUE(job.info().suspected.empty());
  EXPECT_EQ(job.state().now, kNanosPerSecond / 1000 + job.here.survival().heartbeat_timeout());
}

TEST(LossEvents, AStoppedRankThatIsHeardAgainReturnsUnlessItsPlaceIsTaken) {
  for (const bool is_taken : {false, true}) {
    LoneJob job("  - {at_time: 1 ms, rank: 3, stop: true, for: 3000 s}\n");
    job.start();
    job.run_steps(1);
    job.state().now = job.state().losses.next_noticed();
    notice_losses(job.here, job.state());
    ASSERT_EQ(job.events_of<RanksLost>().size(), 1u);
    job.state().pending.reset();
    review_heard_ranks(job.here, job.state());
    EXPECT_FALSE(job.state().pending) << "it is silent";
    const Nanos heard = job.state().next_heard_rank();
    EXPECT_EQ(heard, kNanosPerSecond / 1000 + 3000 * kNanosPerSecond);
    LoneJob read(job, [&job](const JobInWorld& here) { return read_state(here, job.bytes()); });
    EXPECT_EQ(read.state().next_heard_rank(), heard);
    if (is_taken) {
      const Standing where = job.state().fits.first->where();
      job.decide_in_world(Assign{{0}, where.gpus, where.layout, StateFrom::peer});
      job.state().pending = PendingAssignment{where, StateFrom::peer, job.state().now};
      job.state().resume_at = 0;
      change_between_steps(job.here, job.state());
    }
    job.state().now = heard;
    review_heard_ranks(job.here, job.state());
    ASSERT_EQ(job.state().pending.has_value(), !is_taken);
    if (is_taken) continue;
    job.state().now = job.state().pending->ready;
    change_between_steps(job.here, job.state());
    EXPECT_TRUE(job.info().lost.empty());
    EXPECT_EQ(job.state().fit().graph().data(), 4u);
    EXPECT_TRUE(job.state().fenced.empty());
  }
}

TEST(LossEvents, WithoutAWholeReplicaTheNewRanksLoadTheCheckpoint) {
  for (const int replicas : {1, 2}) {
    LoneJob job("  - {at_time: 1 ms, rank: 0, kill: true}\n", {}, replicas);
    job.start();
    job.open_step();
    job.close_step();
    job.state().now = job.state().losses.next_noticed();
    const Standing where = job.state().fits.first->where();
    job.decide_in_world(Configure{{0}, OnLoss{LossResponse::replace}});
    job.state().pending = PendingAssignment{where, StateFrom::peer, job.state().now};
    notice_losses(job.here, job.state());
    const PendingAssignment& pending = *job.state().pending;
    EXPECT_EQ(pending.state, replicas > 1 ? StateFrom::peer : StateFrom::checkpoint);
    EXPECT_EQ(pending.ready > job.state().now, replicas == 1) << "a restart takes longer";
  }
}

}  // namespace
}  // namespace orrery::sim
