#include "sim/planning/long_run.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "topologies/builder.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::sim {
namespace {

constexpr Nanos kSecond = kNanosPerSecond, kHour = 3600 * kSecond;

/// Scenario of 64 GPUs with these failures.
LoadedScenario scenario_with(const std::string& failures) {
  return parse_scenario(R"(
name: long
cluster: {preset: dgx-h100, nodes: 8}
job: {model: {preset: llama3-8b}, sequence_length: 8192, global_batch: 64, layout: {data: 64}}
run: {steps: 10}
failures: )" + failures + "\n",
                        "<test>", {});
}

struct Played {
  explicit Played(const std::string& section, std::uint64_t seed = 1)
      : loaded(scenario_with(section)),
        cluster(build_cluster(loaded.scenario.cluster(), {})),
        failures(loaded.scenario, cluster, seed) {}
  LoadedScenario loaded;
  Cluster cluster;
  Interruptions failures;
};

LongRun usual() {
  return {.steps = 1000,
          .step = 10 * kSecond,
          .every = 100,
          .stall = 5 * kSecond,
          .write = 20 * kSecond,
          .detection = 30 * kSecond,
          .restart = 240 * kSecond,
          .regroup = 60 * kSecond,
          .nodes = 8,
          .cluster_nodes = 8};
}

void expect_parts_sum_up(const LongRun& run, const RunCourse& course) {
  EXPECT_EQ(course.elapsed, static_cast<Nanos>(run.steps) * run.step + course.checkpoints +
                                course.lost_work + course.detection + course.recovery +
                                course.waiting + course.displaced);
  if (!run.slowdown) {
    EXPECT_EQ(course.displaced, 0);
  }
}

TEST(LongRun, WithoutFailuresHasStepsAndStalls) {
  Played played("{kinds: []}");
  const RunCourse course = play_run(usual(), played.failures);
  EXPECT_TRUE(course.finished);
  EXPECT_EQ(course.elapsed, 10'045 * kSecond);
  EXPECT_EQ(course.failures, 0u);
}

TEST(LongRun, ACheckpointWaitsForTheOneBeforeIt) {
  Played played("{kinds: []}");
  LongRun run = usual();
  run.write = 1500 * kSecond;  // longer than 100 steps: every second one is left out
  EXPECT_EQ(play_run(run, played.failures).elapsed, 10'025 * kSecond);
}

/// One planned failure of the job: its instant is the mean times a random share.
TEST(LongRun, ALossCostsWorkSinceTheCheckpointAndTheWayBack) {
  Played played("{kinds: [{cause: kill, part: job, mtbf: 9000 s, regular: true, kill: true}]}");
  const Nanos at = played.failures.at(0).at;
  ASSERT_GT(at, 0);
  ASSERT_LT(at, 9000 * kSecond);
  ASSERT_FALSE(played.failures.at(0).node);
  const RunCourse course = play_run(usual(), played.failures);
  expect_parts_sum_up(usual(), course);
  EXPECT_GE(course.failures, 1u);
  EXPECT_LE(course.failures, 2u);
  EXPECT_EQ(course.detection, static_cast<Nanos>(course.failures) * 30 * kSecond);
  EXPECT_EQ(course.recovery, static_cast<Nanos>(course.failures) * 300 * kSecond);
  EXPECT_LT(course.lost_work, static_cast<Nanos>(course.failures) * 1030 * kSecond);
}

/// A process that is lost on healthy hardware is there again while the others regroup; the job
/// regroups once more with the process.
TEST(LongRun, AReplacementFromAPeerRepeatsNoStep) {
  Played played("{kinds: [{cause: kill, part: job, mtbf: 3000 s, regular: true, kill: true}]}");
  LongRun run = usual();
  run.recovery = Recovery::replace, run.replicas = 8;
  const RunCourse course = play_run(run, played.failures);
  expect_parts_sum_up(run, course);
  const auto failures = static_cast<Nanos>(course.failures);
  ASSERT_GE(failures, 2);
  EXPECT_EQ(course.recovery, failures * 2 * run.regroup);
  EXPECT_LT(course.lost_work, failures * (run.step + run.stall)) << "the cut step alone";
  run.recovery = Recovery::restart;
  EXPECT_GT(play_run(run, played.failures).lost_work, failures * 2 * run.step);
}

TEST(LongRun, AReplacementOnAnotherNodeHasToStart) {
  Played played("{kinds: [{cause: node, part: node, mtbf: 100 h, down: true}], repair: 1 h}");
  LongRun run = usual();
  run.steps = 20'000, run.nodes = 6;
  run.recovery = Recovery::replace, run.replicas = 6, run.replacement = 240 * kSecond;
  const RunCourse course = play_run(run, played.failures);
  expect_parts_sum_up(run, course);
  ASSERT_GE(course.failures, 1u);
  EXPECT_NEAR(to_seconds(course.recovery), static_cast<double>(course.failures) * (210 + 60), 300);
  EXPECT_LT(course.lost_work, static_cast<Nanos>(course.failures) * 15 * kSecond);
}

TEST(LongRun, WithoutACompleteReplicaAllRanksRestart) {
  Played played("{kinds: [{cause: kill, part: job, mtbf: 3000 s, regular: true, kill: true}]}");
  LongRun run = usual();
  const Nanos restarted = play_run(run, played.failures).elapsed;
  run.recovery = Recovery::replace, run.replicas = 1;
  EXPECT_EQ(play_run(run, played.failures).elapsed, restarted);
}

TEST(LongRun, PartsSumUpWithManyFailures) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Played played("{profile: llama3, scale: 30, repair: 5 min}", seed);
    const LongRun run = usual();
    const RunCourse course = play_run(run, played.failures);
    ASSERT_TRUE(course.finished) << seed;
    EXPECT_GE(course.failures, 1u) << seed;
    expect_parts_sum_up(run, course);
    EXPECT_EQ(play_run(run, played.failures).elapsed, course.elapsed) << "played again";
  }
}

TEST(LongRun, SparesReplaceWaiting) {
  const char* const kLosses =
      "{kinds: [{cause: node, part: node, mtbf: 40 h, down: true}], "
      "repair: 12 h}";
  Nanos without = 0, with = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Played played(kLosses, seed);
    LongRun run = usual();
    run.steps = 20'000;
    run.nodes = 8;
    without += play_run(run, played.failures).waiting;
    run.nodes = 5;
    with += play_run(run, played.failures).waiting;
  }
  EXPECT_GT(without, 20 * 12 * kHour);
  EXPECT_LT(with, without / 4);
}

TEST(LongRun, StepsTakeLongerOnASpareUntilALaterLoss) {
  Played played("{kinds: [{cause: node, part: node, mtbf: 40 h, down: true}], repair: 1 h}");
  LongRun run = usual();
  run.steps = 20'000;
  run.nodes = 7;
  const RunCourse plain = play_run(run, played.failures);
  std::vector<std::vector<std::uint32_t>> seen;
  run.slowdown = [&seen](const std::vector<std::uint32_t>& nodes) {
    seen.push_back(nodes);
    return std::count(nodes.begin(), nodes.end(), 7u) > 0 ? 1.5 : 1.0;
  };
  const RunCourse slow = play_run(run, played.failures);
  ASSERT_GT(seen.size(), 1u);
  EXPECT_EQ(std::count(seen[0].begin(), seen[0].end(), 7u), 1) << "the spare has joined";
  for (const auto& nodes : seen) {
    EXPECT_EQ(nodes.size(), 7u);
    EXPECT_EQ(std::set<std::uint32_t>(nodes.begin(), nodes.end()).size(), 7u) << "each node once";
  }
  for (std::size_t i = 1; i < seen.size(); ++i) {
    EXPECT_NE(seen[i], seen[i - 1]) << "a loss that moves no rank prices no step";
  }
  expect_parts_sum_up(run, slow);
  EXPECT_GT(slow.displaced, kHour);
  EXPECT_LT(slow.displaced, static_cast<Nanos>(run.steps) * run.step / 2);
  EXPECT_GT(slow.elapsed, plain.elapsed + kHour);
}

TEST(LongRun, FailuresOfSparesDoNotStopTheJob) {
  Played played("{kinds: [{cause: node, part: node, mtbf: 200 h, down: true}], repair: 1 s}");
  LongRun run = usual();
  run.steps = 50'000;
  const std::uint64_t all = play_run(run, played.failures).failures;
  run.nodes = 1;
  const std::uint64_t one = play_run(run, played.failures).failures;
  EXPECT_GT(all, 2 * one);
}

TEST(LongRun, IsGivenUpWithoutProgress) {
  Played played("{kinds: [{cause: kill, part: job, mtbf: 100 s, kill: true}]}");
  const RunCourse course = play_run(usual(), played.failures);
  EXPECT_FALSE(course.finished);
}

TEST(Interruptions, LeaveSlowPartsAndNetworksOut) {
  const char* const kMixed =
      "{kinds: [{cause: hot, part: gpu, mtbf: 4 h, rate: 0.7, lasts: 1 h}, "
      "{cause: flap, part: nic, mtbf: 1 h, down: true, lasts: 1 s}, "
      "{cause: kill, part: job, mtbf: 10 h, kill: true}]}";
  Played played(kMixed);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_FALSE(played.failures.at(i).node);
  EXPECT_EQ(causes_left_out(played.loaded.scenario.failures()),
            (std::vector<std::string>{"hot", "flap"}));
}

TEST(Interruptions, NoneFollowsTheLast) {
  Played played("{kinds: [{cause: kill, part: job, mtbf: 10 h, kill: true}], until: 30 h}");
  std::size_t i = 0;
  while (played.failures.at(i).at != kNever) ++i;
  EXPECT_LT(i, 20u);
  EXPECT_EQ(played.failures.at(i + 5).at, kNever);
}

}  // namespace
}  // namespace orrery::sim
