// Whole runs under power budgets: time, energy and equality of folded and full simulation.
#include <cmath>

#include <gtest/gtest.h>

#include "tests/sim/run.hpp"

namespace orrery::testing {
namespace {

LoadedScenario job(const std::string& budget, const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides{"run.steps=400"};
  if (!budget.empty()) overrides.push_back("power=" + budget);
  overrides.insert(overrides.end(), more.begin(), more.end());
  return small_scenario(1, 1, 8, {}, overrides);
}

TEST(PowerBudget, AFlatCapCostsTheCubeRootOfTheClockOfProductsOnly) {
  const Report free = simulate(job(""));
  const Report capped = simulate(job("{limits: [{share: 80%}]}"));
  const double slower = capped.step_time_s() / free.step_time_s();
  // Hosts of 2 kW: 7.6 kW a node; (0.8 x 7600 - 2000) / 8 = 510 W a GPU.
  const double clock = std::cbrt((510.0 - 75) / 625);
  EXPECT_GT(slower, 1.02);
  EXPECT_LT(slower, 1 / clock) << "kernels that the memory limits keep their rate";
  EXPECT_LT(capped.energy_j(), free.energy_j());
  EXPECT_NEAR(capped.energy_use().products_j() / free.energy_use().products_j(),
              510.0 / 700 / clock, 1e-6)
      << "as many products, each longer and with less power";
  EXPECT_NEAR(capped.energy_use().memory_j() / free.energy_use().memory_j(), 1, 1e-6)
      << "450 W are within the cap";
}

TEST(PowerBudget, FollowingTheLimitIsFasterThanItsLowestValue) {
  const Report free = simulate(job(""));
  const double whole = free.elapsed_s();
  const std::string limit = "[{share: 70%, from: 0 s, until: " + std::to_string(whole / 4) +
                            " s, every: " + std::to_string(whole / 2) + " s}]";
  const Report flat = simulate(job("{spend: flat, limits: " + limit + "}"));
  const Report follow = simulate(job("{spend: follow, limits: " + limit + "}"));
  const Report pause = simulate(job("{spend: pause, limits: " + limit + "}"));
  EXPECT_LT(free.elapsed_s(), follow.elapsed_s());
  EXPECT_LT(follow.elapsed_s(), flat.elapsed_s());
  EXPECT_LT(flat.elapsed_s(), pause.elapsed_s());
  EXPECT_NEAR(follow.elapsed_s(), (free.elapsed_s() + flat.elapsed_s()) / 2,
              0.02 * free.elapsed_s());
  EXPECT_NEAR(pause.elapsed_s(), 2 * whole, 0.1 * whole);
  EXPECT_GT(pause.energy_use().idle_j(), 0);
  EXPECT_EQ(follow.steps_completed(), 400u);
  EXPECT_EQ(pause.steps_completed(), 400u);
}

TEST(PowerBudget, FoldedAndFullSimulationAgree) {
  const double whole = simulate(job("")).elapsed_s();
  const std::string limit = "{limits: [{share: 75%, from: 0 s, until: " +
                            std::to_string(whole / 7) + " s, every: " + std::to_string(whole / 3) +
                            " s}]}";
  const Report folded = simulate(job(limit));
  const Report full = simulate(job(limit), {.full_detail = true});
  EXPECT_NEAR(folded.elapsed_s() / full.elapsed_s(), 1, 1e-9);
  EXPECT_NEAR(folded.energy_j() / full.energy_j(), 1, 1e-9);
  EXPECT_EQ(folded.steps_completed(), full.steps_completed());
}

TEST(PowerBudget, ThePolicysCapsAreThoseOfTheSite) {
  const double whole = simulate(job("")).elapsed_s();
  const auto limits = [&](const char* share) {
    return "[{share: " + std::string(share) + ", from: 0 s, until: " + std::to_string(whole / 4) +
           " s, every: " + std::to_string(whole / 2) + " s}]";
  };
  const auto by_policy = [&](const std::string& spend, bool full = false) {
    return simulate(job("", {"policies=[{name: power-budget, parameters: {spend: " + spend +
                             ", limits: " + limits("70%") + "}}]"}),
                    {.full_detail = full});
  };
  const Report follow = simulate(job("{spend: follow, limits: " + limits("70%") + "}"));
  const Report even = by_policy("even");
  EXPECT_DOUBLE_EQ(even.elapsed_s(), follow.elapsed_s());
  EXPECT_NEAR(even.energy_j() / follow.energy_j(), 1, 1e-9);
  EXPECT_NEAR(by_policy("even", true).elapsed_s() / even.elapsed_s(), 1, 1e-9) << "folded or not";
  const Report pause = simulate(job("{spend: pause, limits: " + limits("70%") + "}"));
  const Report paused = by_policy("pause");
  EXPECT_DOUBLE_EQ(paused.elapsed_s(), pause.elapsed_s());
  EXPECT_NEAR(paused.energy_use().idle_j() / pause.energy_use().idle_j(), 1, 1e-9);
  EXPECT_EQ(paused.steps_completed(), 400u);
}

TEST(PowerBudget, TheFirstOfTwoJobsKeepsItsFullPower) {
  const auto two = [&](const std::string& spend) {
    const std::string other =
        "jobs=[{name: second, first_gpu: 8, steps: 400, job: {model: {preset: llama3-8b}, "
        "sequence_length: 4096, global_batch: 16, layout: {data: 8, shard: optimizer}}}]";
    std::vector<std::string> overrides{"cluster.nodes=2", other, "run.memory=warn"};
    if (!spend.empty()) {
      overrides.push_back("policies=[{name: power-budget, parameters: {spend: " + spend +
                          ", limits: [{share: 85%}]}}]");
    }
    return simulate(job("", overrides));
  };
  const Report free = two(""), even = two("even"), first = two("priority"), pause = two("pause");
  ASSERT_EQ(first.jobs_size(), 2);
  EXPECT_DOUBLE_EQ(first.jobs(0).ended_s(), free.jobs(0).ended_s());
  EXPECT_GT(even.jobs(0).ended_s(), free.jobs(0).ended_s());
  EXPECT_GT(first.jobs(1).ended_s(), even.jobs(1).ended_s()) << "the second one has what is left";
  EXPECT_DOUBLE_EQ(pause.jobs(0).ended_s(), free.jobs(0).ended_s());
  EXPECT_NEAR(pause.jobs(1).ended_s(), free.jobs(0).ended_s() + free.jobs(1).ended_s(),
              0.02 * pause.jobs(1).ended_s())
      << "it pauses until the first one has ended";
}

TEST(PowerBudget, AHeldJobEndsTheRunAlsoUnderLimitsThatRepeat) {
  const Report held = simulate(
      job("", {"survival.on_loss=hold", "faults=[{at_step: 20, rank: 1, kill: true}]",
               "policies=[{name: power-budget, parameters: {limits: [{share: 70%, from: 0 s, "
               "until: 1 s, every: 2 s}]}}]"}));
  EXPECT_EQ(held.steps_completed(), 20u);
}

TEST(PowerBudget, EnergyFollowsTheActivityOfALongRun) {
  const Report even = simulate(job(""));
  const Report waits = simulate(job("", {"job.global_batch=8", "job.micro_batch=1"}));
  EXPECT_NEAR(even.energy_use().products_j() + even.energy_use().memory_j() +
                  even.energy_use().communication_j() + even.energy_use().waiting_j() +
                  even.energy_use().idle_j() + even.energy_use().host_j() +
                  even.energy_use().site_j(),
              even.energy_j(), 1e-6 * even.energy_j());
  EXPECT_LT(waits.node_power_w(), even.node_power_w())
      << "smaller products leave more time to communication and the memory";
}

}  // namespace
}  // namespace orrery::testing
