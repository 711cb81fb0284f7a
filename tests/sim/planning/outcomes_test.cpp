#include "sim/planning/outcomes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "policies/parameters.pb.h"
#include "sim/planning/run_policies.hpp"

namespace orrery::sim {
namespace {

TEST(Outcomes, QuantilesOfValues) {
  const Quantiles some = quantiles_of({3, 1, 2});
  EXPECT_DOUBLE_EQ(some.p50, 2);
  EXPECT_DOUBLE_EQ(some.p10, 1.2);
  EXPECT_DOUBLE_EQ(some.p90, 2.8);
  const double never = std::numeric_limits<double>::infinity();
  const Quantiles half = quantiles_of({1, 2, never, never});
  EXPECT_DOUBLE_EQ(half.p10, 1.3);
  EXPECT_EQ(half.p90, never);
  EXPECT_EQ(quantiles_of({}).p50, never);
}

TEST(Outcomes, StepFactorsMeetTheQuantiles) {
  estimates::Interval interval;
  interval.p2_5_s = 7, interval.p10_s = 9, interval.p90_s = 12, interval.p97_5_s = 15;
  EXPECT_NEAR(step_factor(interval, 10, 0), 1, 1e-12);
  EXPECT_NEAR(step_factor(interval, 10, 1.281552), 1.2, 1e-9);
  EXPECT_NEAR(step_factor(interval, 10, -1.281552), 0.9, 1e-9);
  EXPECT_NEAR(step_factor(interval, 10, 1.959964), 1.5, 1e-9);
  EXPECT_NEAR(step_factor(interval, 10, -1.959964), 0.7, 1e-9);
  for (double z = -4; z < 4; z += 0.1) {
    EXPECT_LT(step_factor(interval, 10, z), step_factor(interval, 10, z + 0.1)) << z;
  }
}

PlanBasis small_basis() {
  PlanQuestion question;
  question.job.model = "llama3-8b";
  question.job.global_batch = 256;
  question.tokens = 1e11;
  return basis_of(question, "dgx-h100", 64);
}

TEST(Outcomes, ErrorsOfTheStepPriceAreStandardNormal) {
  const PlanBasis basis = small_basis();
  Weather weather(basis, 100);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < weather.seeds(); ++i) {
    sum += weather.error(i);
    squares += weather.error(i) * weather.error(i);
  }
  EXPECT_NEAR(sum, 0, 1e-6);
  EXPECT_NEAR(squares / 100, 1, 0.05);
}

TEST(Outcomes, CandidatesAreThoseOfLayoutsAndMore) {
  const PlanBasis basis = small_basis();
  const auto all = find_candidates(basis, 0.05);
  const estimates::LayoutSearch search = estimates::search_layouts(
      basis.scenario.job(), basis.cluster, {basis.habits, basis.assumed.empty()});
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front().job_nodes, 8u);
  EXPECT_EQ(all.front().priced.estimate.step_s, search.layouts.front().estimate.step_s);
  EXPECT_TRUE(std::any_of(all.begin(), all.end(),
                          [](const Candidate& each) { return each.job_nodes == 7; }));
  for (const Candidate& each : all) {
    EXPECT_NEAR(each.global_batch, 256, 12.8);
    const Job job = job_of(basis, each);
    EXPECT_EQ(estimates::estimate_step(job, cluster_of(basis, each.job_nodes)).step_s,
              each.priced.estimate.step_s);
  }
}

TEST(Outcomes, TheRunHasDalysInterval) {
  const PlanBasis basis = small_basis();
  const Candidate first = find_candidates(basis, 0).front();
  const LongRun run = long_run_of(basis, first);
  EXPECT_EQ(run.steps, static_cast<std::uint64_t>(std::ceil(1e11 / (256 * 8192.0))));
  EXPECT_GE(static_cast<Nanos>(run.every) * run.step, run.stall + run.write);
  EXPECT_EQ(long_run_of(basis, first, 7).every, 7u);
  Weather weather(basis, 50);
  const double best = failures_only(run, weather, 50).p50;
  for (const std::uint64_t other : {run.every / 8 + 1, run.every * 8}) {
    EXPECT_LT(best, failures_only(long_run_of(basis, first, other), weather, 50).p50) << other;
  }
}

TEST(Outcomes, TheBestPoliciesOfTheSetAreChosen) {
  const PlanBasis basis = small_basis();
  const Candidate first = find_candidates(basis, 0).front();
  Weather weather(basis, 100);
  PlanQuestion question;
  const ChosenPolicies usual = choose_policies(question, basis, first, {}, {}, weather);
  ASSERT_GE(usual.tried.size(), 2u);
  EXPECT_EQ(usual.tried.front().policies.interval, 1);
  for (const TriedPolicies& each : usual.tried) {
    EXPECT_EQ(each.policies.recovery, Recovery::restart);
    EXPECT_GE(each.end_s * 1.0006, usual.tried.front().end_s - usual.gain_s);
  }
  question.recoveries = {Recovery::restart, Recovery::replace};
  const ChosenPolicies any = choose_policies(question, basis, first, {}, {}, weather);
  EXPECT_EQ(any.tried.front().policies.recovery, Recovery::restart) << "the default is first";
  EXPECT_EQ(any.policies.recovery, Recovery::replace);
  EXPECT_GT(any.gain_s, 0);
  EXPECT_NE(any.why.find("instead of restart"), std::string::npos) << any.why;
  Candidate alone = first;
  alone.priced.choice.shard = Sharding::parameters;
  EXPECT_EQ(choose_policies(question, basis, alone, {}, {}, weather).policies.recovery,
            Recovery::restart);
  const ChosenPolicies fixed = choose_policies(question, basis, first, 7, {}, weather);
  for (const TriedPolicies& each : fixed.tried) EXPECT_EQ(each.every, 7u);
}

TEST(Outcomes, TheRecoveryOfAScenarioIsSet) {
  PlanBasis basis = small_basis();
  set_recovery(Recovery::replace, basis.scenario);
  RecoverParameters parameters;
  ASSERT_TRUE(basis.scenario.policies(0).parameters().UnpackTo(&parameters));
  EXPECT_EQ(parameters.how(), "replace");
}

}  // namespace
}  // namespace orrery::sim
