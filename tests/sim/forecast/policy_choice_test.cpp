// A choice whose forecasts are wrong for days: jobs that were short so far become long. The guard
// sees the realised waits and returns to the first policy.
#include "sim/forecast/policy_choice.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "sim/replay/job_replay.hpp"
#include "tests/sim/logged_job.hpp"

namespace orrery::sim {
namespace {

constexpr std::int64_t kHour_s = 3600;

JobReplay replay_of(const std::string& policy) {
  JobReplay replay;
  replay.set_nodes(1);
  replay.set_gpus_per_node(8);
  replay.set_policy(policy);
  replay.set_placement("count");
  replay.set_estimates("learned");
  return replay;
}

/// For `short_h` hours many short jobs behind a few of two hours, where las is much better than
/// fifo; then bursts of jobs that end 150 s after las has put them behind all newer ones. The
/// durations of the first hours let las expect that such jobs run on for long.
std::vector<TraceJob> log_that_changes(std::int64_t short_h, int bursts) {
  Rng rng(3);
  std::vector<TraceJob> jobs;
  const auto add = [&jobs](std::int64_t at, std::int64_t duration) {
    jobs.push_back(test::logged_job(std::to_string(jobs.size()), at, 8, duration));
  };
  std::int64_t at = 0;
  for (int i = 0; at < short_h * kHour_s; ++i) {
    add(at, i % 12 == 0 ? 2 * kHour_s : 60 + static_cast<std::int64_t>(rng.below(240)));
    at += static_cast<std::int64_t>(rng.below(1800));
  }
  for (int burst = 0; burst < bursts; ++burst) {
    for (int i = 0; i < 40; ++i) {
      add(at, 2400);
      at += static_cast<std::int64_t>(rng.below(2400));
    }
    at += 24 * kHour_s;
  }
  return jobs;
}

struct Outcome {
  double wait_s = 0;
  std::vector<PolicySwitch> switches;
};

Outcome choose(const std::vector<TraceJob>& log, std::uint32_t check_every) {
  Outcome out;
  PolicyChoice::Options options;
  options.candidates = {replay_of("fifo"), replay_of("las")};
  options.every = kHour_s * kNanosPerSecond;
  options.futures.samples = 4;
  options.check_every = check_every;
  options.at_switch = [&out](const PolicySwitch& made) { out.switches.push_back(made); };
  PolicyChoice choice(options);
  out.wait_s = replay_jobs(log, replay_of("fifo"), choice).queue_mean_s();
  return out;
}

double wait_under(const std::vector<TraceJob>& log, const std::string& policy) {
  return replay_jobs(log, replay_of(policy)).queue_mean_s();
}

TEST(PolicyChoice, ReturnsToTheFirstPolicyIfForecastsProveWrong) {
  const std::vector<TraceJob> log = log_that_changes(60, 100);
  const double fifo = wait_under(log, "fifo");
  EXPECT_LT(fifo, wait_under(log, "las"));
  EXPECT_GT(choose(log, 1u << 30).wait_s, 1.02 * fifo);
  const Outcome guarded = choose(log, 24);
  EXPECT_LE(guarded.wait_s, 1.02 * fifo);
  ASSERT_GE(guarded.switches.size(), 2u);
  EXPECT_EQ(guarded.switches[0].to, "las");
  EXPECT_FALSE(guarded.switches[0].is_return);
  EXPECT_EQ(guarded.switches[1].to, "fifo");
  EXPECT_TRUE(guarded.switches[1].is_return);
  EXPECT_GT(guarded.switches[1].forecast_from, 1.05 * guarded.switches[1].forecast_to);
}

}  // namespace
}  // namespace orrery::sim
