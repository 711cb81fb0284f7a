#include "sim/estimates/predict/own_runs.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "sim/estimates/predict/prediction.hpp"
#include "tests/traces/published_row.hpp"
#include "traces/published/table_defaults.hpp"
#include "traces/workload/stacks.hpp"

namespace orrery::estimates {
namespace {

/// Runs that take `factor` times as long as they are predicted to.
std::vector<OwnRun> slow_runs(int count, double factor) {
  std::vector<OwnRun> runs;
  for (int i = 0; i < count; ++i) {
    TableRow row = llama_row();
    row.gbs = *row.gbs * static_cast<std::uint32_t>(i + 1);
    const double predicted = predict_run("a", published_run(row)).iter_time_s;
    runs.push_back({"run" + std::to_string(i), published_run(row), factor * predicted});
  }
  return runs;
}

/// Returns the posterior of runs whose parts are not known.
Shrunk shrunk(const std::vector<double>& deviations, double prior_spread) {
  std::vector<OwnDeviation> runs;
  for (const double each : deviations) runs.push_back({each, {}, {}});
  return shrink(runs, {.spread = prior_spread});
}

TEST(Shrink, MoreRunsMoveFurtherAndClaimMore) {
  double before = 0, width = 1;
  for (const std::size_t count : {1, 3, 5, 10}) {
    const Shrunk of = shrunk(std::vector<double>(count, 0.4), 0.3);
    EXPECT_GT(of.shift, before) << count;
    EXPECT_LT(of.shift, 0.4) << count;
    EXPECT_LT(of.spread, width) << count;
    before = of.shift, width = of.spread;
  }
  EXPECT_GT(before, 0.38);
}

TEST(Shrink, ClaimsNoMoreThanRunsThatWereLeftOutSupport) {
  const std::vector<double> apart{-0.8, 0.8, -0.7, 0.7, 0};
  const Shrunk of = shrunk(apart, 0.1);
  EXPECT_GE(of.spread, 0.6);  // a run is 0.7 from the others on average
  EXPECT_NEAR(of.shift, 0, 0.01);
}

TEST(Shrink, OneRunLeavesTheSpreadOfAFamily) {
  // S' = 0.0338 / 2.1753, h = 0.0731 / (0.0731 + S'); 2.1753 degrees of freedom: t(90%) is 1.817.
  EXPECT_NEAR(shrunk({0}, 0.3).spread, std::sqrt(0.015537 * 1.8247) * 1.817 / 1.2816, 0.003);
}

TEST(Shrink, RunsOnBothSidesOfThePredictionShiftNothing) {
  EXPECT_EQ(shrunk({-0.14, -0.04, 0.06, -0.12, 0.01}, 0.6).shift, 0);
  EXPECT_LT(shrunk({-0.44, -0.34, -0.24, -0.42, -0.29}, 0.6).shift, -0.3);
}

/// Three of five runs that are alike by chance, of a family with a median near 0: their deviations
/// are no larger than those of runs of one software among themselves.
TEST(Shrink, DeviationsWithinTheSpreadOfRunsShiftNothing) {
  EXPECT_EQ(shrunk({-0.121, -0.128, -0.136, -0.061, -0.031}, 0.62).shift, 0);
  EXPECT_LT(shrunk({-0.181, -0.188, -0.196, -0.121, -0.091}, 0.62).shift, -0.15);
}

/// The fits are multiplied by the share that serves the runs which are left out best.
TEST(Shrink, RunsThatDisagreeShiftByAShare) {
  // Fits to two of three runs: 0.19, 0.34, 0.34. The weighted median of the ratios is 0.2 / 0.34.
  EXPECT_NEAR(shrunk({0.5, 0.2, 0.2}, 0.6).shift, 0.173, 0.005);
  // Fits to the other runs: -0.15 four times, -0.29 for the last one. All of each fit is used.
  EXPECT_NEAR(shrunk({-0.3, -0.3, -0.3, -0.3, 0.3}, 0.6).shift, -0.175, 0.005);
}

/// Most software does not deviate from a stack that was fitted on its GPUs, and one run may be an
/// outlier: what the run shifts grows from 0 to a part of its deviation and falls again.
TEST(Shrink, OneRunShiftsAFittedStackOnlyIfItIsFarAway) {
  const auto one = [](double value) {
    return shrink({{value, {0.5, 0.2, 0.1, 0.1}, {}}}, {.spread = 0.2, .is_fitted_here = true});
  };
  for (const double small : {0.0, 0.3, -0.3, 0.6, 3.0}) EXPECT_EQ(one(small).shift, 0) << small;
  EXPECT_NEAR(one(0.8).shift, 0.34, 0.03);
  EXPECT_DOUBLE_EQ(one(-0.8).shift, -one(0.8).shift);
  EXPECT_EQ(one(0.8).parts, PartShares{});
  // 90% of Student's t with 3 degrees of freedom: 1.638 x 0.2, and the deviation beside.
  EXPECT_GT(one(0).spread, 0.2 * 1.638 / 1.2816);
  EXPECT_LT(one(0).spread, 0.2 * 1.638 / 1.2816 + 0.02);
  EXPECT_GT(one(0.8).spread, one(0.3).spread);
  EXPECT_GT(shrunk({0.3}, 0.6).shift, 0.2) << "any other software deviates";
}

TEST(Shrink, AWidePriorGivesWay) {
  EXPECT_GT(shrunk({0.4}, 1).shift, shrunk({0.4}, 0.2).shift);
  EXPECT_DOUBLE_EQ(shrunk({0, 0, 0}, 0.3).shift, 0);
}

/// Runs deviate by their share of attention, not by a common factor.
TEST(Shrink, ThePartThatIsSlowIsFound) {
  std::vector<OwnDeviation> runs;
  for (const double share : {0.05, 0.1, 0.3, 0.5, 0.7}) {
    runs.push_back({0.6 * share, {0.9 - share, share, 0.05, 0.05}, {}});
  }
  const Shrunk of = shrink(runs, {.spread = 0.3});
  EXPECT_GT(of.parts[1], of.parts[0] + 0.2);
  const double rich = of.shift_of({0, {0.3, 0.6, 0.05, 0.05}, {}}),
               poor = of.shift_of({0, {0.88, 0.02, 0.05, 0.05}, {}});
  EXPECT_NEAR(rich, 0.36, 0.08);
  EXPECT_NEAR(poor, 0.01, 0.08);
  EXPECT_GT(of.shift, poor);
  EXPECT_LT(of.shift, rich);
}

/// Run that deviates by 0.8 of its share of attention if its kernels are of the first generation.
OwnDeviation attention_run(double share, bool is_older) {
  PartShares shares{0.9 - share, share, 0.05, 0.05};
  if (is_older) shares[kFlash1] = share;
  return {is_older ? 0.8 * share : 0.0, shares, {}};
}

/// Only runs with older kernels of attention deviate: these kernels are slow, attention is not.
TEST(Shrink, KernelsOfAttentionAreToldApart) {
  const Shrunk of =
      shrink({attention_run(0.2, false), attention_run(0.5, false), attention_run(0.2, true),
              attention_run(0.5, true), attention_run(0.7, true)},
             {.spread = 0.3});
  EXPECT_NEAR(of.shift_of(attention_run(0.6, true)), 0.48, 0.1);
  EXPECT_NEAR(of.shift_of(attention_run(0.6, false)), 0, 0.1);
  EXPECT_EQ(of.parts[kFlash2], 0) << "no run uses it";
}

TEST(Shrink, AKernelThatAllRunsUseIsAttention) {
  std::vector<OwnDeviation> older, newest;
  for (const double share : {0.1, 0.2, 0.5, 0.6, 0.7}) {
    older.push_back(attention_run(share, true));
    newest.push_back(older.back());
    newest.back().shares[kFlash1] = 0;
  }
  const Shrunk of = shrink(older, {.spread = 0.3}), as = shrink(newest, {.spread = 0.3});
  EXPECT_EQ(of.parts, as.parts);
  EXPECT_EQ(of.parts[kFlash1], 0);
  EXPECT_GT(of.parts[kAttention], 0.2);
  EXPECT_EQ(of.spread, as.spread);
}

/// Run that takes longer by `value` than predicted, of which a time for each expert explains
/// `explained` and a natural load nothing.
OwnDeviation expert_run(double value, double explained) {
  OwnDeviation run{.value = value, .shares = {0.6, 0.1, 0.2, 0.1}, .under_pair = {}};
  for (std::size_t pair = 0; pair < kExpertPairs; ++pair) {
    const auto steps = static_cast<double>(pair / kNaturalLoads.size());
    run.under_pair[pair] = explained * steps;
  }
  return run;
}

/// Two runs with graphs of the whole iteration are as predicted, three without are slow by the
/// second time. No part tells them apart.
TEST(Shrink, TheTimeForEachExpertIsFound) {
  const std::vector<OwnDeviation> runs{expert_run(0.02, 0), expert_run(0.5, 0.25),
                                       expert_run(-0.02, 0), expert_run(1.0, 0.5),
                                       expert_run(0.72, 0.35)};
  const Shrunk of = shrink(runs, {.spread = 0.4});
  EXPECT_EQ(of.pair, 2 * kNaturalLoads.size());
  EXPECT_NEAR(of.shift_of(expert_run(0, 0)), 0, 0.02);
  EXPECT_NEAR(of.shift_of(expert_run(0, 0.3)), 0.6, 0.02);
  EXPECT_LT(of.spread, 0.25);
  EXPECT_NE(part_factors(of).find(", 200 us of the host more for each expert"), std::string::npos)
      << part_factors(of);
}

TEST(Shrink, DeviationsWithinTheSpreadOfRunsChooseNoTimeForExperts) {
  const std::vector<OwnDeviation> runs{expert_run(0, 0), expert_run(0.12, 0.12), expert_run(0, 0),
                                       expert_run(0.1, 0.1)};
  EXPECT_EQ(shrink(runs, {.spread = 0.4}).pair, 0u);
  EXPECT_EQ(shrink({expert_run(0.5, 0.5)}, {.spread = 0.4}).pair, 0u) << "one run tells nothing";
}

/// Four layers of 64 experts, 8 of a token, on 64 GPUs; two micro-batches.
TableRow expert_row(std::uint32_t ep, const char* graphs) {
  TableRow row = llama_row();
  row.model = std::string("mine");
  row.n_params_b.reset();
  row.layers = 4;
  row.ffn = 2048;
  row.moe_experts = 64, row.moe_topk = 8;
  row.tp = row.pp = row.vpp = 1;
  row.dp = 64, row.ep = ep;
  row.seq_parallel = 0;
  row.overlap = std::string("none");
  row.framework = std::string("a framework of one's own");
  row.graphs = std::string(graphs);
  row.seq_len = 1024;
  take_defaults(row, {});
  return row;
}

/// Two micro-batches, forward and backward, four layers: 16 passes, each with 64 / ep experts.
TEST(OwnRuns, TheHostTakesItsTimeForEachExpertOfARank) {
  for (const std::uint32_t ep : {8u, 16u}) {
    for (const char* graphs : {"none", "partial", "full"}) {
      PublishedRun run = published_run(expert_row(ep, graphs));
      ASSERT_EQ(run.refusal, "");
      const double before = predict_run("a", run).iter_time_s;
      SoftwareStack stack = software_stack(run.job.stack());
      stack.set_host_each_expert(100'000);
      use_stack(stack, run);
      const double expected = graphs == std::string("full") ? 0 : 16 * (64.0 / ep) * 100e-6;
      EXPECT_NEAR(predict_run("a", run).iter_time_s - before, expected, 1e-9) << ep << graphs;
    }
  }
}

TEST(OwnRuns, PairsChangeTheRunsThatFeelThem) {
  const auto changes = [](const char* graphs, const char* balance) {
    TableRow row = expert_row(8, graphs);
    row.balance = std::string(balance);
    const PublishedRun run = published_run(row);
    return deviation_of(0, run, software_stack(run.job.stack())).under_pair;
  };
  constexpr std::size_t kTime = kNaturalLoads.size(), kLoad = 1;
  EXPECT_EQ(changes("full", "forced"), decltype(OwnDeviation::under_pair){});
  const auto launched = changes("none", "forced"), natural = changes("full", "natural"),
             both = changes("none", "natural");
  EXPECT_GT(launched[kTime], 0.001);
  EXPECT_EQ(launched[kLoad], 0);
  EXPECT_EQ(launched[kTime + kLoad], launched[kTime]);
  EXPECT_EQ(natural[kTime], 0);
  EXPECT_GT(natural[kLoad], 0.001);
  EXPECT_EQ(natural[kTime + kLoad], natural[kLoad]);
  EXPECT_EQ(both[kTime], launched[kTime]);
  EXPECT_GT(both[kTime + kLoad], std::max(both[kTime], both[kLoad]));
}

/// Runs of a software whose host takes 400 us for each expert: those with full graphs keep their
/// times, the stack has the host's time.
TEST(OwnRuns, RunsWithFullGraphsStayWhereTheHostIsSlow) {
  std::vector<OwnRun> runs;
  for (const char* graphs : {"full", "none"}) {
    for (const std::uint32_t ep : {4u, 8u, 16u}) {
      const PublishedRun run = published_run(expert_row(ep, graphs));
      PublishedRun slow = run;
      SoftwareStack stack = software_stack(run.job.stack());
      stack.set_host_each_expert(400'000);
      use_stack(stack, slow);
      runs.push_back({graphs, run, predict_run("slow", slow).iter_time_s});
    }
  }
  const OwnStack own = fit_own_stack(runs, "mine");
  EXPECT_NEAR(static_cast<double>(own.stack.host_each_expert()), 400e3, 4e3)
      << part_factors(own.shrunk);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_NEAR(own.after_s[i] / runs[i].measured_s, 1, 0.01) << i;
  }
  for (std::size_t full = 0; full < 3; ++full) {
    EXPECT_NEAR(own.after_s[full] / own.before_s[full], 1, 0.01) << full;
  }
}

TEST(OwnRuns, SharesOfOlderKernelsAreThoseOfAttention) {
  for (const auto& [words, part] :
       {std::pair{"EFFICIENT_ATTENTION", kFlash1}, std::pair{"FLASH_ATTENTION", kFlash2}}) {
    TableRow row = llama_row();
    row.attention = words;
    const PublishedRun run = published_run(row);
    const PartShares shares = deviation_of(0, run, software_stack(run.job.stack())).shares;
    EXPECT_GT(shares[kAttention], 0.01) << words;
    EXPECT_EQ(shares[part], shares[kAttention]) << words;
    EXPECT_EQ(shares[part == kFlash1 ? kFlash2 : kFlash1], 0) << words;
  }
}

/// The stack of runs of two kernels, one of which is slow, prices each kernel as it is.
TEST(OwnRuns, TheStackPricesEachKernelOfAttention) {
  std::vector<OwnRun> runs;
  for (const std::uint32_t length : {4096u, 8192u, 16384u}) {
    for (const char* words : {"EFFICIENT_ATTENTION", "flash_attention_3"}) {
      TableRow row = llama_row();
      row.seq_len = length;
      row.attention = words;
      row.recompute = "full";
      const PublishedRun run = published_run(row);
      ASSERT_EQ(run.refusal, "");
      SoftwareStack slow = software_stack(run.job.stack());
      slow.set_attention_flash_1(0.2);
      PublishedRun measured = run;
      use_stack(slow, measured);
      runs.push_back({words, run, predict_run("slow", measured).iter_time_s});
    }
  }
  const OwnStack own = fit_own_stack(runs, "mine");
  EXPECT_LT(own.stack.attention_flash_1(), 0.7) << part_factors(own.shrunk);
  EXPECT_EQ(own.stack.attention_flash_2(), 1);
  EXPECT_NE(own.stack.source(0).find(", flash-1 x "), std::string::npos) << own.stack.source(0);
  for (std::size_t i = 0; i < runs.size(); i += 2) {
    const double older = own.after_s[i] / own.before_s[i],
                 newest = own.after_s[i + 1] / own.before_s[i + 1];
    EXPECT_GT(older, newest + 0.05) << i;
    EXPECT_LT(own.after_s[i], runs[i].measured_s) << i << ": shrunk";
  }
}

TEST(OwnRuns, SharesOfThePartsAreThoseOfTheStep) {
  const std::vector<OwnRun> runs = slow_runs(1, 1);
  const SoftwareStack& stack = software_stack(runs[0].run.job.stack());
  const PartShares shares = deviation_of(0, runs[0].run, stack).shares;
  double all = 0;
  for (std::size_t part = 0; part < kFlash1; ++part) {
    EXPECT_GE(shares[part], 0);
    all += shares[part];
  }
  EXPECT_GT(shares[kProducts], 0.3) << "products take most of the step";
  EXPECT_GT(all, 0.9) << "with the host's part, nothing is left";
  EXPECT_LT(all, 1.02);
}

TEST(OwnRuns, TimesOfTheStackReachTheShift) {
  for (const double factor : {0.7, 1.5}) {
    const std::vector<OwnRun> runs = slow_runs(5, factor);
    const OwnStack own = fit_own_stack(runs, "mine");
    EXPECT_NEAR(std::exp(own.shrunk.median), factor, 1e-9);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const double reached = std::log(own.after_s[i] / own.before_s[i]);
      EXPECT_NEAR(reached, own.shrunk.shift, 0.02) << factor << " run " << i;
    }
    EXPECT_NEAR(own.after_s[0] / runs[0].measured_s, 1, 0.05);
    EXPECT_EQ(own.stack.name(), "mine");
    EXPECT_EQ(own.stack.kin(), runs[0].run.job.stack());
  }
}

TEST(OwnRuns, IntervalsCountWhereTheRunsWereMeasured) {
  const std::vector<OwnRun> runs = slow_runs(5, 1.3);
  const OwnStack own = fit_own_stack(runs, "mine");
  PublishedRun run = runs[0].run;
  *run.job.mutable_software() = own.stack;
  const Prediction here = predict_run("a", run);
  EXPECT_EQ(here.distance, "own runs");
  EXPECT_EQ(here.state, PredictionState::measured);
  EXPECT_NEAR(std::log(here.p90_s / here.iter_time_s), 1.2815516 * own.shrunk.spread, 1e-6);
  run.job.set_precision("fp8");
  const Prediction other = predict_run("a", run);
  EXPECT_NE(other.distance, "own runs");
  EXPECT_NE(other.state, PredictionState::measured);
  PublishedRun shipped = run;
  shipped.job.clear_software();
  const Prediction before = predict_run("a", shipped);
  EXPECT_EQ(other.distance, before.distance);
  EXPECT_NEAR(other.p90_s / other.iter_time_s, before.p90_s / before.iter_time_s, 1e-9);
}

TEST(OwnRuns, OneRunShiftsAnUnknownFrameworkAndNoFittedStack) {
  const auto shift_of = [](const std::string& framework) {
    TableRow row = llama_row();
    row.framework = framework;
    const PublishedRun run = published_run(row);
    const double predicted = predict_run("a", run).iter_time_s;
    return fit_own_stack({{"a", run, 1.3 * predicted}}, "mine").shrunk.shift;
  };
  EXPECT_EQ(shift_of("NeMo/Megatron-Core"), 0);
  EXPECT_NEAR(shift_of("a framework of one's own"), 0.25, 0.03);
}

TEST(OwnRuns, RunsOfTwoStacksAreRefused) {
  std::vector<OwnRun> runs = slow_runs(2, 1);
  runs[1].run.job.set_stack("megatron-core");
  EXPECT_THROW(fit_own_stack(runs, "mine"), Error);
  EXPECT_THROW(fit_own_stack({}, "mine"), Error);
}

}  // namespace
}  // namespace orrery::estimates
