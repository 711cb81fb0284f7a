#include "sim/worlds.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/sim/run.hpp"

namespace orrery::sim {
namespace {

using testing::simulate;
using testing::simulate_example;
using Overrides = std::vector<std::string>;

constexpr const char* kTwo = "two-jobs-one-spine.yaml";

const JobOutcome& named(const Report& report, const std::string& name) {
  for (const JobOutcome& job : report.jobs()) {
    if (job.name() == name) return job;
  }
  throw Error(ErrorKind::internal, "no job " + name);
}

/// Name, start and end of each recorded job.
std::vector<std::string> recorded(const Report& report) {
  std::vector<std::string> rows;
  for (const JobOutcome& job : report.jobs()) {
    if (job.kind() != "recorded") continue;
    rows.push_back(fmt::format("{} {} {}", job.name(), job.started_s(), job.ended_s()));
  }
  return rows;
}

/// A job on four nodes astride units 0 and 1, another on four astride units 1 and 2. One spine; the
/// gradients of both cross the uplinks of unit 1.
LoadedScenario small_pair(const std::string& more, const Overrides& overrides = {}) {
  return parse_scenario(fmt::format(R"(
name: first
cluster:
  nodes: 9
  node: {{gpu: H100, gpus_per_node: 8, nics_per_node: 8, nic_bandwidth: 400 Gbps}}
  fabric: {{nodes_per_unit: 3, spines: 1, spine_link_bandwidth: 50 Gbps}}
job:
  model: {{layers: 8, hidden: 2048, heads: 16, feed_forward: 8192, vocabulary: 32000}}
  sequence_length: 2048
  global_batch: 32
  layout: {{tensor: 8, data: 4}}
  overlap: false
jobs:
  - name: second
    first_gpu: 32
    steps: 200
    job:
      model: {{layers: 8, hidden: 2048, heads: 16, feed_forward: 8192, vocabulary: 32000}}
      sequence_length: 2048
      global_batch: 32
      layout: {{tensor: 8, data: 4}}
      overlap: false
run: {{steps: 200}}
noise: {{compute_cv: 0, sample_cv: 0, staleness: 0 ms}}
{})",
                                    more),
                        "pair.yaml", overrides);
}

/// Two jobs that compute for a while and then exchange, over and over, over one link with max-min
/// sharing: mean step times, by hand.
std::pair<double, double> by_hand(double compute_a, double exchange_a, double compute_b,
                                  double exchange_b) {
  struct Job {
    double compute, exchange;
    double left;  // rest of the present part
    bool exchanges = false;
    std::vector<double> ends = {};
  };
  Job jobs[2] = {{compute_a, exchange_a, compute_a}, {compute_b, exchange_b, compute_b}};
  double now = 0;
  while (std::min(jobs[0].ends.size(), jobs[1].ends.size()) < 400) {
    const double rate = jobs[0].exchanges && jobs[1].exchanges ? 0.5 : 1;
    double next = 1e9;
    for (const Job& job : jobs) next = std::min(next, job.left / (job.exchanges ? rate : 1));
    now += next;
    for (Job& job : jobs) {
      job.left -= next * (job.exchanges ? rate : 1);
      if (job.left > 1e-12) continue;
      if (job.exchanges) job.ends.push_back(now);
      job.exchanges = !job.exchanges;
      job.left = job.exchanges ? job.exchange : job.compute;
    }
  }
  const auto mean = [](const std::vector<double>& ends) {
    return (ends.back() - ends[9]) / static_cast<double>(ends.size() - 10);
  };
  return {mean(jobs[0].ends), mean(jobs[1].ends)};
}

TEST(Worlds, TwoJobsOf256GpusShareASpineMaxMin) {
  const Report together = simulate_example(kTwo, {});
  const Report apart = simulate_example(kTwo, {"jobs[0].first_gpu=512"});
  const double alone = apart.step_time_s(), exchange = apart.phases().exchange_s();
  ASSERT_GT(exchange, 0.3 * alone) << "the spine is what they wait for";
  EXPECT_NEAR(together.step_time_s() / (alone + exchange), 1, 0.02);
  const JobOutcome& second = named(together, "second");
  EXPECT_NEAR(second.step_time_s() / (alone + exchange), 1, 0.02);
  EXPECT_EQ(second.step_time_alone_s(), named(apart, "second").step_time_s());
}

/// The example, but a policy places the second job.
Report placed_by(const std::string& placement) {
  const std::string path = std::string(ORRERY_SOURCE_DIR) + "/examples/" + kTwo;
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto put = [&text](const std::string& old, const std::string& other) {
    const std::size_t at = text.find(old);
    ensure(at != std::string::npos, "the example says '" + old + "'");
    text.replace(at, old.size(), other);
  };
  put("first_gpu: 256", "submit: 0 s");
  put("- name: fifo", "- name: fifo\n    parameters: {placement: " + placement + "}");
  return simulate(parse_scenario(text, path, {}));
}

TEST(Worlds, PlacedByTopologyTwoJobsOf256GpusDoNotMeet) {
  const Report counted = placed_by("count"), topology = placed_by("topology");
  const JobOutcome &met = named(counted, "second"), &apart = named(topology, "second");
  EXPECT_GT(met.step_time_s(), 1.3 * met.step_time_alone_s());
  for (const char* name : {"two-jobs-one-spine", "second"}) {
    const JobOutcome& job = named(topology, name);
    EXPECT_EQ(job.step_time_s(), job.step_time_alone_s()) << name;
  }
  EXPECT_EQ(apart.step_time_alone_s(), met.step_time_alone_s()) << "two units either way";
}

/// The example's first job beside recorded ones that compute the same.
TEST(Worlds, RecordedJobsOfSimulatedSpeedMeetTrainingJobs) {
  const std::string kind =
      "{job: {model: {preset: llama3-8b}, sequence_length: 8192, global_batch: 64, "
      "layout: {tensor: 8, data: 32}, overlap: false, stack: nemo}}";
  const Report apart = simulate_example(kTwo, {"jobs[0].first_gpu=512"});
  const Report beside = simulate_example(
      kTwo, {"jobs=[]", "recorded.trace=one-spine-jobs.csv", "recorded.conditions.speed=simulated",
             "recorded.conditions.kinds=[" + kind + "]"});
  const double by_hand = apart.step_time_s() + apart.phases().exchange_s();
  EXPECT_NEAR(beside.step_time_s() / by_hand, 1, 0.02);
  EXPECT_EQ(beside.recorded().speed(), "simulated");
  EXPECT_EQ(beside.recorded().jobs_completed(), 2u);
  EXPECT_NEAR(beside.recorded().slowdown_max() / (by_hand / apart.step_time_s()), 1, 0.02);
}

TEST(Worlds, ConditionsThatAScenarioSaysOtherwiseAreRefused) {
  const std::vector<std::string> down = {"recorded.conditions.failures=5"};
  EXPECT_THROW(simulate_example(kTwo, down), Error);
}

TEST(Worlds, JobsApartAreNotSlowedAtAllAndRecordedOnesNever) {
  const Report together = simulate_example(kTwo, {});
  const Report apart = simulate_example(kTwo, {"jobs[0].first_gpu=512"});
  for (const char* name : {"two-jobs-one-spine", "second"}) {
    const JobOutcome& job = named(apart, name);
    EXPECT_EQ(job.step_time_s(), job.step_time_alone_s()) << name;
    EXPECT_EQ(job.ended_s(), apart.elapsed_s()) << name;
  }
  EXPECT_EQ(recorded(together).size(), 40u);
  EXPECT_EQ(recorded(together), recorded(apart));
}

TEST(Worlds, UnequalJobsTakeTheirMaxMinShares) {
  const std::string later = "jobs[0].submit=1h";
  const Report first = simulate(small_pair("", {later}));
  const double exchange = first.phases().exchange_s();
  for (const std::string batch : {"32", "64", "160"}) {
    for (const std::string hidden : {"1024", "2048"}) {
      const std::string of = " of batch " + batch + " and hidden " + hidden;
      // The second job's own times, of a first job like it.
      const Report alone = simulate(
          small_pair("", {"job.global_batch=" + batch, "job.model.hidden=" + hidden, later}));
      const double other = alone.phases().exchange_s();
      const auto [a, b] =
          by_hand(first.step_time_s() - exchange, exchange, alone.step_time_s() - other, other);
      Overrides unequal = {"jobs[0].job.global_batch=" + batch,
                           "jobs[0].job.model.hidden=" + hidden, "jobs[0].steps=1000000"};
      // One of them never ends while the other runs.
      EXPECT_NEAR(simulate(small_pair("", unequal)).step_time_s() / a, 1, 0.02) << of;
      unequal.back() = "run.steps=1000000";
      const Report together = simulate(small_pair("", unequal));
      EXPECT_NEAR(named(together, "second").step_time_s() / b, 1, 0.02) << of;
    }
  }
}

TEST(Worlds, FoldedAndInFullDetailTheyTakeAsLong) {
  const Report folded = simulate(small_pair(""));
  const Report full = simulate(small_pair(""), {.full_detail = true});
  EXPECT_GT(folded.step_time_s(), 1.05 * named(folded, "first").step_time_alone_s());
  for (const char* name : {"first", "second"}) {
    EXPECT_NEAR(named(folded, name).step_time_s(), named(full, name).step_time_s(), 1e-6);
  }
}

/// From its arrival on, and until the first of them ends.
TEST(Worlds, OnlyWhileBothRunTheyMeet) {
  const Report alone = simulate(small_pair("", {"jobs[0].submit=1h"}));
  const Report short_one = simulate(small_pair("", {"jobs[0].steps=50"}));
  const Report both = simulate(small_pair(""));
  EXPECT_GT(short_one.elapsed_s(), alone.elapsed_s());
  EXPECT_LT(short_one.elapsed_s(), both.elapsed_s());
  const double slow = both.step_time_s(), fast = alone.step_time_s();
  // Fifty steps of the other, one under way at its end.
  EXPECT_NEAR(short_one.elapsed_s(), 50 * slow + 150 * fast, 2 * (slow - fast));
  EXPECT_EQ(named(alone, "second").started_s(), 3600);
}

TEST(Worlds, AJobWithoutAPlaceWaitsForAPolicy) {
  const Overrides full = {"cluster.nodes=4", "jobs[0].first_gpu=0"};
  const Report placed = simulate(small_pair("policies: [{name: fifo}]\n", full));
  EXPECT_EQ(named(placed, "second").started_s(), named(placed, "first").ended_s());
  EXPECT_EQ(named(placed, "second").steps(), 200u);
  const Report nobody = simulate(small_pair("", full));
  EXPECT_FALSE(named(nobody, "second").has_started_s()) << "nobody places it";
  EXPECT_EQ(nobody.steps_completed(), 200u);
}

TEST(Worlds, WhatBreaksStrikesWhoStandsThere) {
  const std::string slow = "faults:\n  - {at_time: 1 s, gpu: 40, rate: 0.5}\n";
  const Overrides apart = {"cluster.fabric.spine_link_bandwidth=4 Tbps", "run.steps=100",
                           "jobs[0].steps=100"};
  const Report well = simulate(small_pair("", apart));
  const Report struck = simulate(small_pair(slow, apart));
  EXPECT_EQ(named(struck, "first").ended_s(), named(well, "first").ended_s());
  EXPECT_GT(named(struck, "second").ended_s(), 1.2 * named(well, "second").ended_s());
  const Report down =
      simulate(small_pair("faults:\n  - {at_time: 1 s, node: 5, down: true}\n", apart));
  EXPECT_EQ(named(down, "first").ended_s(), named(well, "first").ended_s());
  EXPECT_EQ(down.failures_size(), 0) << "the report is about the first job";
  EXPECT_NE(named(down, "second").ended_s(), named(well, "second").ended_s());
}

TEST(Worlds, EqualSeedsGiveEqualBytes) {
  const Overrides noisy = {"noise.compute_cv=0.05", "run.steps=40"};
  const Report once = simulate(small_pair("", noisy)), again = simulate(small_pair("", noisy));
  EXPECT_EQ(once.decision_log_sha256(), again.decision_log_sha256());
  EXPECT_EQ(once.SerializeAsString(), again.SerializeAsString());
  const Report other =
      simulate(small_pair("", {"noise.compute_cv=0.05", "run.steps=40", "run.seed=2"}));
  EXPECT_NE(named(once, "second").ended_s(), named(other, "second").ended_s());
  EXPECT_NE(named(once, "first").ended_s(), named(once, "second").ended_s()) << "noise of its own";
}

TEST(Worlds, OthersThatCannotRunAreRefusedWithTheirPlace) {
  const auto refusal = [](const Overrides& overrides) {
    try {
      simulate(small_pair("", overrides));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal({"jobs[0].first_gpu=48"}), ::testing::HasSubstr("from GPU 48 on"));
  EXPECT_THAT(refusal({"jobs[0].job.layout.data=5"}),
              ::testing::HasSubstr("pair.yaml:20:21: error: global_batch = 32 must be a multiple"));
  EXPECT_THAT(refusal({"faults=[{at_step: 3, gpu: 1, rate: 0.5}]"}),
              ::testing::HasSubstr("write at_time"));
}

}  // namespace
}  // namespace orrery::sim
