// A twin beside the replay of a log: its forecasts are scored and change nothing; the choice by
// forecasts is never far behind the active policy.
#include "sim/forecast/twin.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "policies/run/registry.hpp"
#include "sim/forecast/policy_choice.hpp"
#include "sim/replay/job_replay.hpp"
#include "tests/sim/logged_job.hpp"

namespace orrery::sim {
namespace {

constexpr FutureOptions kShort{.samples = 6, .horizon = 4 * 3600 * kNanosPerSecond};

/// Jobs of four users; each user's jobs last for a time of their own. Load about 1.
std::vector<TraceJob> log_of_users(int count) {
  Rng rng(7);
  std::vector<TraceJob> jobs;
  std::int64_t at = 0;
  for (int i = 0; i < count; ++i) {
    const auto user = static_cast<std::int64_t>(rng.below(4));
    at += static_cast<std::int64_t>(rng.below(700));
    TraceJob job = test::logged_job(std::to_string(i), at, 1u << rng.below(3),
                                    (60 << (2 * user)) + static_cast<std::int64_t>(rng.below(30)));
    job.user = "user-" + std::to_string(user);
    jobs.push_back(job);
  }
  return jobs;
}

JobReplay replay_of(const std::string& policy) {
  JobReplay replay;
  replay.set_nodes(1);
  replay.set_gpus_per_node(8);
  replay.set_policy(policy);
  replay.set_placement("count");
  replay.set_estimates("learned");
  return replay;
}

TEST(Twin, ForecastsAreScoredAndChangeNothing) {
  const std::vector<TraceJob> log = log_of_users(600);
  const JobReplay replay = replay_of("fifo");
  const auto policy = make_stack(replay);
  std::size_t known = 0;
  Twin::Options options;
  options.active = replay;
  options.alternatives = {replay_of("srtf")};
  options.every = 3000 * kNanosPerSecond;
  options.futures = kShort;
  options.at_known = [&known](const KnownForecast&) { ++known; };
  Twin twin(*policy, options);
  const JobsReport beside = replay_jobs(log, replay, twin);
  const JobsReport alone = replay_jobs(log, replay);
  EXPECT_EQ(beside.jct_mean_s(), alone.jct_mean_s());
  EXPECT_EQ(beside.decisions(), alone.decisions());
  const TwinReport report = twin.report();
  ASSERT_FALSE(report.starts.empty());
  ASSERT_FALSE(report.ends.empty());
  EXPECT_GT(report.forecasts, 20u);
  EXPECT_EQ(known, report.starts.back().forecasts + report.ends.back().forecasts);
  EXPECT_GT(report.starts.back().coverage95, 0.85);
  EXPECT_LT(report.all.model_mean_log, report.all.by_size_mean_log / 2);
  EXPECT_LT(report.second_half.model_median, 1.5);
  ASSERT_EQ(report.policies.size(), 2u);
  EXPECT_GE(report.regret[0], 0);
  EXPECT_EQ(report.node_loss.samples, 6u);
  for (const CostForecast& cost : {report.node_loss.wait_s, report.node_loss.jct_s}) {
    EXPECT_LE(cost.low95, cost.low80);
    EXPECT_LE(cost.low80, cost.median);
    EXPECT_LE(cost.median, cost.high80);
    EXPECT_LE(cost.high80, cost.high95);
  }
  EXPECT_GT(report.node_loss.jct_s.mean, 0);
  EXPECT_GT(report.node_loss.lost_gpu_s.mean, 0);
}

TEST(PolicyChoice, SwitchesToThePolicyWithShorterWaits) {
  const std::vector<TraceJob> log = log_of_users(600);
  std::vector<PolicySwitch> switches;
  PolicyChoice::Options options;
  options.candidates = {replay_of("fifo"), replay_of("srtf")};
  options.every = 3000 * kNanosPerSecond;
  options.futures = kShort;
  options.thresholds = {.least_gain = 0.05, .least_forecasts = 12, .in_a_row = 3};
  options.at_switch = [&switches](const PolicySwitch& made) { switches.push_back(made); };
  PolicyChoice choice(options);
  const JobsReport chosen = replay_jobs(log, replay_of("fifo"), choice);
  const JobsReport fifo = replay_jobs(log, replay_of("fifo"));
  ASSERT_FALSE(switches.empty());
  EXPECT_EQ(switches[0].to, "srtf");
  EXPECT_EQ(chosen.jobs_out(), 600u);
  EXPECT_LT(chosen.queue_mean_s(), fifo.queue_mean_s());
}

TEST(PolicyChoice, OfEqualPoliciesStaysWithTheActiveOne) {
  const std::vector<TraceJob> log = log_of_users(300);
  std::size_t switches = 0;
  PolicyChoice::Options options;
  options.candidates = {replay_of("fifo"), replay_of("fifo")};
  options.every = 3000 * kNanosPerSecond;
  options.futures = kShort;
  options.at_switch = [&switches](const PolicySwitch&) { ++switches; };
  PolicyChoice choice(options);
  const JobsReport chosen = replay_jobs(log, replay_of("fifo"), choice);
  EXPECT_EQ(switches, 0u);
  EXPECT_EQ(chosen.jct_mean_s(), replay_jobs(log, replay_of("fifo")).jct_mean_s());
}

}  // namespace
}  // namespace orrery::sim
