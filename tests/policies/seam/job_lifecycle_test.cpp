#include "policies/seam/job_lifecycle.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

/// Four replicas of one rank on GPUs 0 to 3, 40 micro-batches, at most 20 a replica.
JobInfo running_job(LossResponse response = LossResponse::go_on) {
  JobInfo job;
  job.spec = toy::job();
  job.phase = JobPhase::running;
  job.epoch = {1};
  job.gpus = toy::gpus(0, 4);
  job.layout = job.spec.layout;
  job.now.set_setting(Shares{{10, 10, 10, 10}});
  job.now.set_setting(OnLoss{response});
  return job;
}

/// The job after a loss of ranks, as World leaves it.
JobInfo lost_ranks(std::vector<RankId> ranks, LossResponse response = LossResponse::go_on) {
  JobInfo job = running_job(response);
  job.lost = std::move(ranks);
  std::vector<std::uint32_t> shares(4, 0);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    if (!job.is_lost({rank})) shares[rank] = 40 / (4 - static_cast<std::uint32_t>(job.lost.size()));
  }
  job.now.set_setting(Shares{shares});
  return job;
}

Assign to(GpuRuns gpus) {
  const auto data = static_cast<std::uint32_t>(gpus.size());
  return {.job = {0}, .gpus = std::move(gpus), .layout = {.data = data}};
}

TEST(JobLifecycle, SilentRanksAreSuspectedUntilTheyAreHeardOrLost) {
  JobInfo job = running_job();
  EXPECT_FALSE(suspicion_of(job, {}));
  const auto suspected = suspicion_of(job, {{3}, {1}, {3}});
  ASSERT_TRUE(suspected);
  EXPECT_EQ(suspected->job, job.spec.id);
  EXPECT_EQ(suspected->ranks, (std::vector<RankId>{{1}, {3}}));
  job.suspected = suspected->ranks;
  EXPECT_FALSE(suspicion_of(job, {{1}, {3}})) << "the policies know";
  EXPECT_EQ(suspicion_of(job, {{3}})->ranks, std::vector<RankId>{{3}}) << "rank 1 is heard again";

  job.lost = {{3}}, job.suspected = {{1}};  // World has applied the loss of rank 3
  EXPECT_FALSE(suspicion_of(job, {{1}, {3}})) << "a loss needs no event of its own";
  EXPECT_TRUE(suspicion_of(job, {})->ranks.empty());
}

TEST(JobLifecycle, AnAssignmentIsVoidOnceAGpuOnWhichItStartsAProcessIsLost) {
  const auto is_void = [](const JobInfo& job, std::uint32_t lost) {
    return is_assignment_void(job, [lost](GpuId gpu) { return gpu.value != lost; });
  };
  JobInfo job = running_job();
  EXPECT_FALSE(is_void(job, 1)) << "none is pending";
  job.next = Standing{toy::gpus(0, 6), {.data = 6}};
  EXPECT_TRUE(is_void(job, 5));
  EXPECT_FALSE(is_void(job, 6)) << "the assignment does not name it";
  EXPECT_FALSE(is_void(job, 1)) << "a rank works there, whose loss follows";
  job.lost = {{1}};
  EXPECT_TRUE(is_void(job, 1));
  job.phase = JobPhase::held;
  EXPECT_FALSE(is_void(job, 1)) << "a job on hold keeps its assignment";
}

TEST(JobLifecycle, AJobThatLeavesItsGpusBeginsAgainAtAStepThatItHasDone) {
  JobInfo job = running_job();
  job.step = 12;
  EXPECT_EQ(stop_of(job, 8).kept, 8u);
  EXPECT_EQ(stop_of(job, 0).job, job.spec.id);
  EXPECT_THROW(stop_of(job, 13), Error);
}

TEST(JobLifecycle, OnlyRanksThatWorkAreSuspected) {
  JobInfo job = running_job();
  EXPECT_FALSE(suspicion_of(job, {{4}, {7}})) << "the job has four ranks";
  job.is_restarting = true;
  EXPECT_FALSE(suspicion_of(job, {{0}}));
  job.is_restarting = false, job.gpus.clear();
  EXPECT_FALSE(suspicion_of(job, {{0}}));
}

TEST(JobLifecycle, ARankIsSuspectedAfterHalfOfTheTimeoutOfItsHeartbeat) {
  EXPECT_EQ(suspicion_time(2 * kNanosPerSecond), kNanosPerSecond);
}

TEST(JobLifecycle, TheStateIsLostWithTheLastWholeReplica) {
  EXPECT_FALSE(after_loss(lost_ranks({{0}, {1}, {2}}), true).is_state_lost);
  JobInfo job = running_job();
  job.lost = {{0}, {1}, {2}, {3}};
  EXPECT_TRUE(after_loss(job, true).is_state_lost);
}

TEST(JobLifecycle, EveryGpuHasOneRole) {
  JobInfo job = lost_ranks({{3}});
  EXPECT_EQ(role_of(job, {2}), ProcessRole::working);
  EXPECT_EQ(role_of(job, {3}), ProcessRole::none);
  EXPECT_EQ(rank_on(job, {2}), RankId{2});
  EXPECT_FALSE(rank_on(job, {3}));
  EXPECT_FALSE(rank_on(job, {9}));
  job.next = Standing{{{GpuId{0}, GpuId{1}, GpuId{4}}}, {.data = 3}};
  EXPECT_EQ(role_of(job, {0}), ProcessRole::working);
  EXPECT_EQ(role_of(job, {2}), ProcessRole::leaving);
  EXPECT_EQ(role_of(job, {3}), ProcessRole::none);
  EXPECT_EQ(role_of(job, {4}), ProcessRole::starting);
}

TEST(JobLifecycle, ARestartEndsAllRanksAndStartsThoseOfItsGpus) {
  JobInfo job = running_job();
  Assign again = to({{0}, {1}, {5}});
  for (const StateFrom state : {StateFrom::none, StateFrom::checkpoint}) {
    again.state = state;
    EXPECT_TRUE(is_restart(job, again));
  }
  EXPECT_FALSE(is_restart(job, Assign{{0}})) << "a release";
  again.state = StateFrom::peer;
  EXPECT_FALSE(is_restart(job, again));
  EXPECT_EQ(count_working_ranks(job), 4u);
  job.next = Standing{again.gpus, again.layout};
  job.is_restarting = true;
  EXPECT_EQ(count_working_ranks(job), 0u);
  EXPECT_EQ(role_of(job, {0}), ProcessRole::starting);
  EXPECT_EQ(role_of(job, {2}), ProcessRole::none);
  const AssignmentOrders orders = orders_of(job, again);
  EXPECT_EQ(orders.start, (std::vector<GpuId>{{0}, {1}, {5}}));
  EXPECT_TRUE(orders.abandons_step);
  job.gpus.clear();
  again.state = StateFrom::checkpoint;
  EXPECT_FALSE(is_restart(job, again)) << "it waits, and only starts";
}

TEST(JobLifecycle, AJobRestartsFromACheckpointWhereItIs) {
  const Cluster cluster = toy::cluster(4, 4);
  World world(cluster);
  toy::run_on(world, toy::job());
  const JobInfo& job = world.jobs()[{0}];
  const auto objection = [&world](const Assign& assign) {
    return world.objection(Decision{.what = assign});
  };
  const Assign again = toy::assign(0, 0, 4, StateFrom::checkpoint);
  EXPECT_EQ(objection(again), "job 0 has no checkpoint yet");
  world.apply(StepsDone{{0}, 5, 6}, 4);
  world.apply(SaveDone{.job = {0}, .step = 4}, 5);
  EXPECT_EQ(objection(toy::assign(0, 0, 4, StateFrom::peer)), "job 0 is placed there already");
  world.announce_decision({.id = 0, .what = again});
  world.apply(Decided{0, Outcome::applied, ""}, 6);
  EXPECT_TRUE(job.is_restarting);
  EXPECT_TRUE(job.is_placed());
  EXPECT_EQ(objection(again), "job 0 is being assigned already");
  world.apply(JobHeld{{0}}, 6);
  EXPECT_EQ(objection(again), "") << "the newest assignment of a job on hold counts";
  EXPECT_EQ(objection(toy::assign(0, 0, 4, StateFrom::peer)),
            "job 0 has no replica left to take its state from");
  world.apply(toy::started(world, 0, toy::standing(0, 4), 4), 7);
  EXPECT_FALSE(job.is_restarting);
  EXPECT_EQ(job.step, 4u);
  EXPECT_EQ(job.saved, 4u);
}

TEST(JobLifecycle, ALossNamesItsRanksOnceInTheNextEpoch) {
  const RanksLost lost = loss_of(running_job(), {{2}, {1}, {2}});
  EXPECT_EQ(lost.ranks, (std::vector<RankId>{{1}, {2}}));
  EXPECT_EQ(lost.epoch, Epoch{2});
}

TEST(JobLifecycle, AfterALossTheJobGoesOnOrIsHeld) {
  EXPECT_FALSE(after_loss(lost_ranks({{1}}), true).held);
  EXPECT_FALSE(after_loss(lost_ranks({{1}}, LossResponse::replace), true).held);
  EXPECT_TRUE(after_loss(lost_ranks({{1}}, LossResponse::hold), true).held);
  EXPECT_TRUE(after_loss(lost_ranks({{1}}), false).held) << "no job with three replicas";
  JobInfo crowded = lost_ranks({{1}});
  crowded.now.set_setting(Shares{{10, 10, 10, 10}});
  EXPECT_TRUE(after_loss(crowded, true).held) << "no room for the work of replica 1";
  JobInfo waiting = lost_ranks({{1}});
  waiting.phase = JobPhase::held;
  EXPECT_TRUE(after_loss(waiting, true).held) << "a held job stays held";
}

TEST(JobLifecycle, APendingAssignmentReplacesTheLostRanksThatItNames) {
  JobInfo job = lost_ranks({{1}, {3}});
  EXPECT_FALSE(after_loss(job, true).is_assigned);
  EXPECT_TRUE(after_loss(job, true).replace.empty());
  job.next = Standing{toy::gpus(0, 3), {.data = 3}};
  EXPECT_TRUE(after_loss(job, true).is_assigned);
  EXPECT_EQ(after_loss(job, true).replace, std::vector<GpuId>{{1}});
}

const auto kAnyNumber = [](std::uint32_t) { return true; };

TEST(JobLifecycle, ASilentRankThatIsHeardAgainReturnsToItsPlace) {
  for (const LossResponse response : {LossResponse::go_on, LossResponse::hold}) {
    const JobInfo job = lost_ranks({{2}}, response);
    const ReturnOrders orders = returns_of(job, {{2}, {7}}, kAnyNumber);
    EXPECT_EQ(orders.readmit, std::vector<GpuId>{{2}});
    EXPECT_EQ(orders.end, std::vector<GpuId>{{7}}) << "the job does not use that GPU";
    const JobStarted start = start_after_return(job, {{2}});
    EXPECT_EQ(start.where, (Standing{job.gpus, job.layout}));
    EXPECT_EQ(start.epoch, Epoch{2});
    EXPECT_TRUE(start.lost.empty());
  }
}

TEST(JobLifecycle, ARankReturnsWhileOthersStayLostIfTheJobCanRunThen) {
  const JobInfo goes_on = lost_ranks({{2}, {3}});
  EXPECT_EQ(returns_of(goes_on, {{3}}, kAnyNumber).readmit, std::vector<GpuId>{{3}});
  EXPECT_EQ(start_after_return(goes_on, {{3}}).lost, std::vector<RankId>{{2}});
  const ReturnOrders refused = returns_of(goes_on, {{3}}, [](auto n) { return n != 3; });
  EXPECT_TRUE(refused.readmit.empty() && refused.end.empty()) << "it waits";
  const JobInfo held = lost_ranks({{2}, {3}}, LossResponse::hold);
  const ReturnOrders waits = returns_of(held, {{3}}, kAnyNumber);
  EXPECT_TRUE(waits.readmit.empty() && waits.end.empty()) << "it waits for the other one";
  EXPECT_EQ(returns_of(held, {{3}, {2}}, kAnyNumber).readmit.size(), 2u);
  JobInfo large = lost_ranks({{1}, {2}, {3}});
  EXPECT_EQ(returns_of(large, {{3}}, kAnyNumber).readmit.size(), 1u) << "20 micro-batches each";
  large.spec.max_micro_batches = 19;
  EXPECT_TRUE(returns_of(large, {{3}}, kAnyNumber).readmit.empty());
}

TEST(JobLifecycle, AReturnYieldsToAnAssignment) {
  JobInfo job = lost_ranks({{2}, {3}});
  job.next = Standing{{{GpuId{0}, GpuId{1}, GpuId{2}, GpuId{4}}}, {.data = 4}};
  const ReturnOrders orders = returns_of(job, {{2}, {3}}, kAnyNumber);
  EXPECT_EQ(orders.readmit, std::vector<GpuId>{{2}}) << "the assignment would start a rank there";
  EXPECT_EQ(orders.end, std::vector<GpuId>{{3}}) << "its place is gone";
  job.is_restarting = true;
  job.next.reset();
  EXPECT_EQ(returns_of(job, {{2}}, kAnyNumber).end, std::vector<GpuId>{{2}});
  EXPECT_EQ(returns_of(running_job(), {{2}}, kAnyNumber).readmit, std::vector<GpuId>{{2}})
      << "its loss is not reported yet";
}

TEST(JobLifecycle, AnAssignmentStartsMissingRanksAndKeepsTheOthersAtWork) {
  const AssignmentOrders same = orders_of(running_job(), to(toy::gpus(0, 4)));
  EXPECT_TRUE(same.start.empty());
  EXPECT_FALSE(same.abandons_step);
  const AssignmentOrders replaced = orders_of(lost_ranks({{1}}), to(toy::gpus(0, 4)));
  EXPECT_EQ(replaced.start, std::vector<GpuId>{{1}});
  EXPECT_FALSE(replaced.abandons_step);
  const AssignmentOrders grown = orders_of(running_job(), to(toy::gpus(0, 6)));
  EXPECT_EQ(grown.start, (std::vector<GpuId>{{4}, {5}}));
  EXPECT_FALSE(grown.abandons_step);
  const AssignmentOrders moved = orders_of(running_job(), to(toy::gpus(1, 4)));
  EXPECT_EQ(moved.start, std::vector<GpuId>{{4}});
  EXPECT_FALSE(moved.abandons_step) << "rank 0 works until the new rank has joined";
  EXPECT_TRUE(orders_of(running_job(), to(toy::gpus(0, 3))).abandons_step);
  EXPECT_FALSE(orders_of(lost_ranks({{3}}), to(toy::gpus(0, 3))).abandons_step);
}

TEST(JobLifecycle, AStartIsANewEpochAndNotAfterTheLastStep) {
  JobInfo job = running_job();
  const JobStarted start = start_of(job, 7, {toy::gpus(0, 2), {.data = 2}});
  EXPECT_EQ(start.epoch, Epoch{2});
  EXPECT_EQ(start.from, 7u);
  EXPECT_EQ(start.where.gpus.size(), 2u);
  job.spec.steps = 8;
  job.step = 7;
  EXPECT_FALSE(has_done_all_steps(job));
  job.step = 8;
  EXPECT_TRUE(has_done_all_steps(job));
  job.spec.steps = 0;
  EXPECT_FALSE(has_done_all_steps(job)) << "the number of steps is unknown";
}

}  // namespace
}  // namespace orrery
