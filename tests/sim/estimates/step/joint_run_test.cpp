#include "sim/estimates/step/joint_run.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "sim/estimates/step/settled_steps.hpp"
#include "sim/estimates/step/shared_rates.hpp"

namespace orrery::estimates {
namespace {

/// Returns the flows of a job that computes, and then sends 10 bytes.
FlowGraph job_of(double compute_s) {
  return {.kinds = {{.slots = {{0, 1}}, .queue = 0}},
          .points = {{.kind = 0, .bytes = 10, .earliest = compute_s, .after = {}},
                     {.after = {{0, 0}}}}};
}

/// Returns the group of jobs that share one link of 20 bytes/s.
FlowGroup group_of(const std::vector<FlowGraph>& jobs) {
  FlowGroup group;
  group.links.push_back({.bandwidth = 20, .crossings = {}});
  for (std::uint32_t job = 0; job < jobs.size(); ++job) {
    group.lanes.push_back({.job = job, .graph = &jobs[job], .rates = {20}});
    group.links[0].crossings.push_back({job, 0, 1});
  }
  return group;
}

TEST(JointRun, EqualJobsShareTheLinkInEachStep) {
  const std::vector<FlowGraph> jobs(2, job_of(1));
  const std::vector<double> means = mean_steps(group_of(jobs));
  ASSERT_EQ(means.size(), 2u);
  EXPECT_DOUBLE_EQ(means[0], 2) << "1 s, and 10 bytes at 10 bytes/s";
  EXPECT_EQ(means[0], means[1]);
}

TEST(JointRun, AFlowIsSlowOnlyWhileAnotherOneIsThere) {
  const std::vector<FlowGraph> jobs{job_of(1), job_of(1.25)};
  const std::vector<std::vector<double>> steps = first_steps(group_of(jobs), 2);
  // Alone until 1.25 s, 5 bytes; both until 1.75 s; the second one has 5 bytes left.
  EXPECT_DOUBLE_EQ(steps[0][0], 1.75);
  EXPECT_DOUBLE_EQ(steps[1][0], 2);
  // 2.75 s to 3.25 s and 3.25 s to 3.75 s: the flows do not meet again.
  EXPECT_DOUBLE_EQ(steps[0][1], 1.5);
  EXPECT_DOUBLE_EQ(steps[1][1], 1.75);
}

TEST(StepDurations, TheFirstEightStepsDoNotCount) {
  StepDurations steps;
  for (const double each : {3, 1, 1, 1, 1, 1, 1, 1}) steps.add_step(each);
  EXPECT_EQ(steps.counted(), 0u);
  steps.add_step(2);
  steps.add_step(4);
  EXPECT_EQ(steps.counted(), 2u);
  EXPECT_DOUBLE_EQ(steps.mean(), 3);
  EXPECT_EQ(steps.closest_to_mean(), 8u);
  EXPECT_EQ(steps.range(), (std::pair<double, double>{2, 4}));
  EXPECT_EQ(steps.first(3), (std::vector<double>{3, 1, 1}));
}

/// Returns the number of steps of a job after which the rule ends, and of a slower one.
std::pair<std::size_t, std::size_t> ends_after(double slow, double spread) {
  StepDurations fast, other;
  while (!are_settled({&fast, &other})) {
    const std::size_t step = fast.count();
    fast.add_step(1 + (step % 2 == 0 ? spread : -spread));
    if (static_cast<double>(step) >= slow * static_cast<double>(other.count())) {
      other.add_step(slow);
    }
  }
  return {fast.count(), other.count()};
}

TEST(StepDurations, TheFastestJobHas256StepsUnlessAllTakeEquallyLong) {
  EXPECT_EQ(ends_after(1, 0).first, 16u);
  EXPECT_EQ(ends_after(1.5, 0).first, 264u);
  EXPECT_EQ(ends_after(1.5, 0.1).first, 264u) << "halves of equal means";
  const auto [fast, slow] = ends_after(20, 0);
  EXPECT_EQ(slow, 40u) << "each job has 32 counted steps";
  EXPECT_GT(fast, 264u);
}

/// Flows share links max-min if each one is at its largest rate, or crosses a full link on which no
/// flow has a larger rate.
void expect_max_min(const std::vector<double>& largest, const std::vector<SharedRates::Link>& links,
                    const std::vector<std::uint32_t>& counts, const double* rates) {
  std::vector<bool> is_limited(largest.size());
  for (std::size_t kind = 0; kind < largest.size(); ++kind) {
    EXPECT_LE(rates[kind], largest[kind] * (1 + 1e-9));
    is_limited[kind] = counts[kind] == 0 || rates[kind] >= largest[kind] * (1 - 1e-9);
  }
  for (const SharedRates::Link& link : links) {
    double used = 0, most = 0;
    for (const auto& [kind, times] : link.crossings) {
      used += counts[kind] * times * rates[kind];
      if (counts[kind] > 0) most = std::max(most, rates[kind]);
    }
    EXPECT_LE(used, link.bandwidth * (1 + 1e-9));
    if (used < link.bandwidth * (1 - 1e-9)) continue;
    for (const auto& [kind, times] : link.crossings) {
      if (rates[kind] >= most * (1 - 1e-9)) is_limited[kind] = true;
    }
  }
  for (std::size_t kind = 0; kind < largest.size(); ++kind) EXPECT_TRUE(is_limited[kind]) << kind;
}

TEST(SharedRates, RatesOfRandomFlowsAreMaxMin) {
  Rng draw(11);
  for (int round = 0; round < 40; ++round) {
    const auto kinds = static_cast<std::uint32_t>(1 + draw.below(6));
    std::vector<double> largest;
    for (std::uint32_t kind = 0; kind < kinds; ++kind) largest.push_back(1 + draw.below(20));
    std::vector<SharedRates::Link> links(1 + draw.below(5));
    for (SharedRates::Link& link : links) {
      link.bandwidth = 1 + static_cast<double>(draw.below(30));
      for (std::uint32_t kind = 0; kind < kinds; ++kind) {
        if (draw.below(2) == 0) link.crossings.push_back({kind, 1.0 + draw.below(3)});
      }
    }
    SharedRates rates(largest, links);
    std::vector<std::uint32_t> counts(kinds);
    for (int change = 0; change < 60; ++change) {
      const auto kind = static_cast<std::uint32_t>(draw.below(kinds));
      if (counts[kind] > 0 && draw.below(2) == 0) {
        --counts[kind];
        rates.remove_flow(kind);
      } else {
        ++counts[kind];
        rates.add_flow(kind);
      }
      expect_max_min(largest, links, counts, rates.rates());
    }
  }
}

TEST(SharedRates, FlowsOfTheExample) {
  SharedRates rates({6, 10}, {{.bandwidth = 10, .crossings = {{0, 1}, {1, 1}}}});
  rates.add_flow(1);
  EXPECT_DOUBLE_EQ(rates.rates()[1], 10);
  rates.add_flow(0);
  EXPECT_DOUBLE_EQ(rates.rates()[0], 5);
  EXPECT_DOUBLE_EQ(rates.rates()[1], 5);
  rates.add_flow(1);
  EXPECT_DOUBLE_EQ(rates.rates()[0], 10.0 / 3);
  rates.remove_flow(1);
  rates.remove_flow(1);
  EXPECT_DOUBLE_EQ(rates.rates()[0], 6);
  EXPECT_EQ(rates.rates()[1], 0);
}

}  // namespace
}  // namespace orrery::estimates
