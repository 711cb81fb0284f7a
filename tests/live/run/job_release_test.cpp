// Whole live runs whose job leaves its GPUs and comes back, and the same decisions in the
// simulator. The parameters have the bits of the undisturbed run.
#include "live/run/job_release.hpp"

#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "live/run/files/run_files.hpp"
#include "tests/live/slots.hpp"

namespace orrery::live {
namespace {

/// Folder of checkpoints, removed with the object.
struct Saved {
  Saved() { std::filesystem::remove_all(folder); }
  ~Saved() { std::filesystem::remove_all(folder); }
  std::string every(int steps) const {
    return fmt::format("checkpoints={{folder: {}, every: {}, keep: 1}}", folder, steps);
  }
  const std::string folder = ::testing::TempDir() + "orrery_slots." + std::to_string(getpid());
};

/// Leaves the GPUs once step `leave` is done, or once a checkpoint that is requested then is
/// durable, and takes others a fifth of a second later.
Watching leaves(Step leave, bool saves, GpuRuns then) {
  constexpr Nanos kAway = 200'000'000;
  return Watching(kAssigns, [=, back = kNever, left = false](const Observation& seen,
                                                             DecisionList& decisions) mutable {
    const auto* done = shown<StepsDone>(seen);
    const auto* saved = shown<SaveDone>(seen);
    if (left && back == kNever && shown<JobStopped>(seen) == nullptr) return;
    const bool due = done != nullptr && done->last == leave && !left;
    if (due && saves) decisions.add(Save{{0}, Tier::local_disk}, "before it leaves");
    if (!left && (saves ? saved != nullptr && saved->step > leave : due)) {
      left = true;
      decisions.add(Assign{{0}}, "to make room");
    }
    if (shown<JobStopped>(seen) != nullptr) decisions.wake(back = seen.now + kAway);
    const JobInfo* job = seen.jobs.find({0});
    if (seen.now < back || job == nullptr || job->phase != JobPhase::waiting) return;
    back = kNever;
    const auto from = job->saved_at > 0 ? StateFrom::checkpoint : StateFrom::none;
    decisions.add(stand_on(then, from), "room again");
  });
}

/// Runs a release and a restore in both worlds. Checks the events and the bits.
void expect_restored(const std::vector<std::string>& overrides, Step leave, bool saves,
                     const GpuRuns& then) {
  const RunRequest asked = eight_slots(40, overrides);
  Watching live = leaves(leave, saves, then), simulated = leaves(leave, saves, then);
  const Report report = run_in_worker(kProgram, asked, &live);
  const Report modelled = run_in_worker(kSimulator, asked, &simulated);
  EXPECT_EQ(report.unfinished(), "");
  EXPECT_EQ(report.steps_completed(), 40u);
  EXPECT_EQ(report.parameters_sha256(), calm_parameters(eight_slots(40)));
  EXPECT_EQ(report.micro_batches_lost() + report.micro_batches_repeated(), 0u);
  EXPECT_EQ(report.failures_size(), 0);
  EXPECT_EQ(report.ranks_missing(), 0u);
  EXPECT_EQ(modelled.steps_completed(), 40u);
  for (const Watching* each : {&live, &simulated}) {
    for (const Decided& outcome : each->all<Decided>()) {
      EXPECT_EQ(outcome.status, Outcome::applied) << outcome.reason;
    }
    const auto stopped = each->all<JobStopped>();
    const auto started = each->all<JobStarted>();
    ASSERT_EQ(stopped.size(), 1u);
    ASSERT_EQ(started.size(), 2u);
    EXPECT_EQ(started[1].from, stopped[0].kept);
    EXPECT_EQ(started[1].where.gpus, then);
  }
  EXPECT_GE(report.elapsed_s(), 0.2 + 40 * 2e-3 * kBriskPaceMs);
  expect_nothing_left();
}

TEST(JobRelease, AJobLeavesAfterACheckpointAndRestoresItElsewhere) {
  const Saved saved;
  expect_restored({saved.every(1000)}, 9, true, GpuRuns::range({4}, 4));
}

TEST(JobRelease, StepsSinceTheNewestCheckpointAreRepeatedOnMoreGpus) {
  const Saved saved;
  expect_restored({saved.every(10), "survival.restart=1 s"}, 16, false, GpuRuns::range({0}, 8));
}

TEST(JobRelease, WithoutACheckpointAJobBeginsAnew) {
  expect_restored({}, 7, false, {{0}, {1}, {2}});
}

TEST(JobRelease, AShardedJobRestoresOnAnotherNumberOfRanks) {
  const Saved saved;
  expect_restored({saved.every(1000), "job.layout.shard=optimizer"}, 9, true,
                  GpuRuns::range({1}, 6));
}

// ---- restarts -------------------------------------------------------------------------------

/// Restarts the job on `on` from its newest checkpoint after step 16, in both worlds, and checks
/// the events and the bits.
void expect_restarted(const std::vector<std::string>& overrides, const GpuRuns& on) {
  const auto again = [&on] {
    return Watching(kAssigns, [on, restarted = false](const Observation& seen,
                                                      DecisionList& decisions) mutable {
      const auto* done = shown<StepsDone>(seen);
      if (done == nullptr || done->last != 16 || std::exchange(restarted, true)) return;
      decisions.add(stand_on(on, StateFrom::checkpoint), "again");
    });
  };
  const Saved saved;
  std::vector<std::string> all{saved.every(10)};
  all.insert(all.end(), overrides.begin(), overrides.end());
  const RunRequest asked = eight_slots(40, all);
  Watching live = again(), simulated = again();
  const Report report = run_in_worker(kProgram, asked, &live);
  const Report modelled = run_in_worker(kSimulator, asked, &simulated);
  EXPECT_EQ(report.unfinished(), "");
  EXPECT_EQ(report.parameters_sha256(), calm_parameters(eight_slots(40)));
  EXPECT_EQ(report.failures_size(), 0);
  EXPECT_EQ(report.ranks_missing(), 0u);
  for (const Report* each : {&report, &modelled}) {
    EXPECT_EQ(each->steps_completed(), 40u);
    EXPECT_EQ(each->steps_rolled_back(), 7u);
  }
  for (const Watching* each : {&live, &simulated}) {
    for (const Decided& outcome : each->all<Decided>()) {
      EXPECT_EQ(outcome.status, Outcome::applied) << outcome.reason;
    }
    EXPECT_EQ(each->all<JobHeld>().size(), 1u);
    EXPECT_TRUE(each->all<JobStopped>().empty());
    const auto started = each->all<JobStarted>();
    ASSERT_EQ(started.size(), 2u);
    EXPECT_EQ(started[1].from, 10u);
    EXPECT_EQ(started[1].where.gpus, on);
  }
  expect_nothing_left();
}

TEST(JobRestart, AllRanksLoadTheNewestCheckpointWhereTheyAre) {
  expect_restarted({}, GpuRuns::range({0}, 4));
}

TEST(JobRestart, MoreRanksOnOtherGpusLoadIt) { expect_restarted({}, GpuRuns::range({2}, 6)); }

TEST(JobRestart, AShardedJobAndWarmSparesLoadIt) {
  expect_restarted({"job.layout.shard=optimizer", "survival.warm=2"}, GpuRuns::range({3}, 3));
}

TEST(JobRelease, AJobThatIsNeverAssignedAgainEndsTheRunWithThatReason) {
  const auto goes = [] {
    return Watching(kAssigns, [](const Observation& seen, DecisionList& decisions) {
      const auto* done = shown<StepsDone>(seen);
      if (done != nullptr && done->last == 4) decisions.add(Assign{{0}}, "for good");
    });
  };
  const RunRequest asked = eight_slots(20, {"survival.hold_limit=500 ms"});
  Watching live = goes(), simulated = goes();
  const Report report = run_in_worker(kProgram, asked, &live);
  const Report modelled = run_in_worker(kSimulator, asked, &simulated);
  EXPECT_NE(report.unfinished().find("waits for GPUs"), std::string::npos) << report.unfinished();
  EXPECT_EQ(report.steps_completed(), 0u);
  EXPECT_EQ(report.decision_trace_sha256(), modelled.decision_trace_sha256());
  EXPECT_EQ(modelled.steps_completed(), 0u);
  expect_nothing_left();
}

/// Runs a job whose only node goes down with all ranks, after checkpoints, for ever or, if
/// `returns`, for five minutes. Checks that the run ends earlier, with the reason; returns its
/// warnings.
std::string lose_the_only_node(bool returns, const std::string& hold_limit) {
  const Saved saved;
  const std::string fault =
      fmt::format("{{at_time: {} ms, node: 0, down: true, detection: 10 ms{}}}", 30 * kBriskPaceMs,
                  returns ? ", for: 300 s" : "");
  const Report report = run_in_worker(
      kProgram,
      eight_slots(100, {"cluster.nodes=1", saved.every(2), "survival.hold_limit=" + hold_limit,
                        "policies=[{name: recover}]", "faults=[" + fault + "]"}));
  EXPECT_NE(report.unfinished().find(kStateGone), std::string::npos) << report.unfinished();
  EXPECT_LT(report.elapsed_s(), 60);
  EXPECT_EQ(report.failures_size(), 4);
  expect_nothing_left();
  return fmt::format("{}", fmt::join(report.warnings(), "\n"));
}

TEST(JobRestart, AJobWithoutRanksWaitsForItsNodeUntilTheLimitOfAHold) {
  const std::string warnings = lose_the_only_node(true, "500 ms");
  EXPECT_NE(warnings.find("the job waits for GPUs from a policy, at most 0.5 s"),
            std::string::npos)
      << warnings;
}

TEST(JobRestart, AJobWithoutRanksDoesNotWaitIfNothingIsToCome) {
  const std::string warnings = lose_the_only_node(false, "300 s");
  EXPECT_EQ(warnings.find("the job waits for GPUs"), std::string::npos) << warnings;
}

TEST(JobRelease, ADecisionRightAfterIsJudgedAgainstAJobWithoutGpusInBothWorlds) {
  const auto at_once = [] {
    return Watching(kAssigns, [left = false](const Observation& seen,
                                             DecisionList& decisions) mutable {
      const auto* done = shown<StepsDone>(seen);
      if (done == nullptr || done->last != 5 || std::exchange(left, true)) return;
      decisions.add(stand_on(GpuRuns::range({4}, 4), StateFrom::none), "with GPUs: refused");
      decisions.add(Assign{{0}}, "leave");
      decisions.add(Save{{0}, Tier::local_disk}, "too late");
      decisions.add(stand_on(GpuRuns::range({4}, 4)), "no peer is left");
      decisions.add(stand_on(GpuRuns::range({4}, 4), StateFrom::checkpoint), "none yet");
      decisions.add(stand_on(GpuRuns::range({4}, 4), StateFrom::none), "from the start");
    });
  };
  const RunRequest asked = eight_slots(12);
  Watching live = at_once(), simulated = at_once();
  const Report report = run_in_worker(kProgram, asked, &live);
  const Report modelled = run_in_worker(kSimulator, asked, &simulated);
  EXPECT_EQ(report.parameters_sha256(), calm_parameters(asked));
  EXPECT_EQ(report.decision_trace_sha256(), modelled.decision_trace_sha256());
  const auto outcomes = [](const Watching& policy) {
    std::string all;
    for (const Decided& each : policy.all<Decided>()) {
      all += fmt::format("{} {}\n", each.status == Outcome::applied, each.reason);
    }
    return all;
  };
  EXPECT_EQ(outcomes(live), outcomes(simulated));
  EXPECT_EQ(outcomes(live),
            "false expected the state of a peer or a checkpoint for a job with GPUs, found none: "
            "release its GPUs first\n"
            "true \n"
            "false job 0 is not running\n"
            "false job 0 has no replica left to take its state from\n"
            "false job 0 has no checkpoint yet\n"
            "true \n");
  expect_nothing_left();
}

}  // namespace
}  // namespace orrery::live
