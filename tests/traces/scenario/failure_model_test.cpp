// Failures as rates: the drawn faults follow from counts, seed and cluster.
#include "traces/scenario/failure_model.hpp"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/traces/sample_cluster.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery {
namespace {

constexpr double kDay = 86400;

Scenario with(const std::string& failures, std::uint64_t seed = 1) {
  Scenario scenario;
  load_yaml(failures, "failures.yaml", *scenario.mutable_failures());
  fill_defaults(*scenario.mutable_failures());
  scenario.mutable_run()->set_seed(seed);
  Layout& layout = *scenario.mutable_job()->mutable_layout();
  layout.set_tensor(8), layout.set_context(1), layout.set_pipeline(1), layout.set_data(16);
  return scenario;
}

std::map<std::string, std::size_t> by_cause(const std::vector<Fault>& faults) {
  std::map<std::string, std::size_t> counts;
  for (const Fault& fault : faults) ++counts[fault.cause()];
  return counts;
}

double rate_of(const char* profile, double nodes) {
  Failures failures;
  failures.set_profile(profile);
  return interruption_rate(failure_kinds(failures), nodes);
}

TEST(FailureModel, TheCountsOfTheLlama3ProfileCloseExactly) {
  Failures failures;
  failures.set_profile("llama3");
  double unexpected = 0, all = 0;
  for (const FailureKind& kind : failure_kinds(failures)) {
    all += kind.counted().count();
    if (kind.cause() != "planned") unexpected += kind.counted().count();
    EXPECT_EQ(kind.counted().time(), 54 * kDay) << kind.cause();
  }
  EXPECT_EQ(unexpected, 419);
  EXPECT_EQ(all, 466);
  EXPECT_NEAR(rate_of("llama3", 2048) * 54 * kDay, 466, 1e-9) << "on the cluster it was counted on";
}

TEST(FailureModel, MeansBetweenFailuresAreThoseThatThePaperDerives) {
  EXPECT_NEAR(24000 / (2048 * 6.5), 1.803, 1e-3);
  Failures failures;
  failures.set_profile("rsc-1");
  const FailureKind hardware = failure_kinds(failures)[0];
  EXPECT_NEAR(part_mtbf(hardware) / 2048 / 3600, 1.803, 1e-3) << "16,384 GPUs, hours";
  EXPECT_NEAR(part_mtbf(hardware) / 16384 / 3600, 0.225, 1e-3) << "131,072 GPUs";
  EXPECT_NEAR(1 / rate_of("rsc-1", 128) / 3600, 7.9, 0.01) << "1,024 GPUs, with the job's own term";
}

TEST(FailureModel, AsManyComeAsTheRateSaysAndEqualSeedsDrawEqually) {
  const Cluster cluster = testing::sample_cluster(2048);
  double sum = 0;
  const int seeds = 30;
  for (int seed = 1; seed <= seeds; ++seed) {
    const auto faults = drawn_faults(with("{profile: llama3, until: 54 d}", seed), cluster, "");
    sum += static_cast<double>(faults.size());
    for (std::size_t i = 1; i < faults.size(); ++i) {
      ASSERT_LE(faults[i - 1].at_time(), faults[i].at_time());
    }
  }
  // The mean of 30 Poisson counts of 466 and fewer: within four standard deviations.
  EXPECT_NEAR(sum / seeds, 466, 4 * std::sqrt(466.0 / seeds));
  const auto one = drawn_faults(with("{profile: llama3}", 7), cluster, "");
  const auto same = drawn_faults(with("{profile: llama3}", 7), cluster, "");
  const auto other = drawn_faults(with("{profile: llama3}", 8), cluster, "");
  ASSERT_EQ(one.size(), same.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].SerializeAsString(), same[i].SerializeAsString());
  }
  EXPECT_NE(one[0].at_time(), other[0].at_time());
}

TEST(FailureModel, AKindMoreLeavesTheOthersAsTheyWere) {
  const Cluster cluster = testing::sample_cluster(64);
  const std::string first = "{cause: a, part: node, mtbf: 10 d, down: true}";
  const auto few = drawn_faults(with("{kinds: [" + first + "]}"), cluster, "");
  const auto more = drawn_faults(
      with("{kinds: [" + first + ", {cause: b, part: gpu, mtbf: 90 d, down: true}]}"), cluster, "");
  std::vector<Nanos> before, after;
  for (const Fault& fault : few) before.push_back(fault.at_time());
  for (const Fault& fault : more) {
    if (fault.cause() == "a") after.push_back(fault.at_time());
  }
  EXPECT_GT(before.size(), 100u);
  EXPECT_EQ(before, after);
}

TEST(FailureModel, RacksAndRowsFailWholeAtOneInstant) {
  const Cluster cluster = testing::sample_cluster(30);
  const auto faults = drawn_faults(
      with("{nodes_per_rack: 4, racks_per_row: 3, kinds: ["
           "{cause: rack, part: rack, mtbf: 30 d, down: true, lasts: 1 h},"
           "{cause: row, part: row, mtbf: 30 d, rate: 0.5, lasts: 1 h}]}"), cluster, "");
  std::map<Nanos, std::vector<std::uint32_t>> struck;
  std::map<Nanos, std::string> causes;
  for (const Fault& fault : faults) {
    struck[fault.at_time()].push_back(fault.node());
    causes[fault.at_time()] = fault.cause();
  }
  EXPECT_GT(struck.size(), 5u);
  for (const auto& [at, nodes] : struck) {
    const std::uint32_t each = causes[at] == "rack" ? 4 : 12;
    EXPECT_EQ(nodes.front() % each, 0u);
    EXPECT_EQ(nodes.size(), std::min(each, 30 - nodes.front())) << "the last one is not full";
    EXPECT_EQ(nodes.back(), nodes.front() + nodes.size() - 1);
  }
}

TEST(FailureModel, LemonsFailThatManyTimesAsOften) {
  const Cluster cluster = testing::sample_cluster(200);
  const auto faults = drawn_faults(
      with("{until: 300 d, lemons: {share: 10%, times: 9}, kinds: ["
           "{cause: x, part: node, mtbf: 20 d, down: true}]}"), cluster, "");
  std::map<std::uint32_t, int> by_node;
  for (const Fault& fault : faults) ++by_node[fault.node()];
  int lemons = 0, of_lemons = 0;
  for (const auto& [node, count] : by_node) {
    if (count < 60) continue;  // others: 15 in the mean; lemons: 135
    ++lemons;
    of_lemons += count;
  }
  EXPECT_EQ(lemons, 20);
  EXPECT_NEAR(of_lemons / 20.0, 135, 4 * std::sqrt(135 / 20.0));
  const double others = static_cast<double>(faults.size()) - of_lemons;
  EXPECT_NEAR(others / 180, 15, 4 * std::sqrt(15 / 180.0));
}

TEST(FailureModel, WeibullGapsHaveTheirMeanAndTheirShape) {
  const Cluster cluster = testing::sample_cluster(400);
  for (const double shape : {0.7, 3.0}) {
    const auto faults = drawn_faults(
        with("{until: 1000 d, kinds: [{cause: x, part: node, mtbf: 5 d, down: true, shape: " +
             std::to_string(shape) + "}]}"), cluster, "");
    std::map<std::uint32_t, Nanos> last;
    double sum = 0, squares = 0, count = 0;
    for (const Fault& fault : faults) {
      const double gap = to_seconds(fault.at_time() - last[fault.node()]) / kDay;
      last[fault.node()] = fault.at_time();
      sum += gap, squares += gap * gap, ++count;
    }
    const double mean = sum / count, variance = squares / count - mean * mean;
    const double g1 = std::tgamma(1 + 1 / shape), g2 = std::tgamma(1 + 2 / shape);
    EXPECT_NEAR(mean, 5, 0.15) << shape;  // the gap that the end cuts off is missing
    EXPECT_NEAR(std::sqrt(variance) / mean, std::sqrt(g2 / (g1 * g1) - 1), 0.03) << shape;
  }
}

TEST(FailureModel, PlannedWorkComesAtEqualDistances) {
  const Cluster cluster = testing::sample_cluster(4);
  const auto faults = drawn_faults(
      with("{until: 30 d, kinds: [{cause: planned, part: job, mtbf: 3 d, regular: true, "
           "kill: true}]}"), cluster, "");
  ASSERT_EQ(faults.size(), 10u);
  for (std::size_t i = 1; i < faults.size(); ++i) {
    EXPECT_NEAR(to_seconds(faults[i].at_time() - faults[i - 1].at_time()), 3 * kDay, 1e-3);
  }
}

TEST(FailureModel, FlapsLastFromMicrosecondsToMinutesEachMagnitudeAsOften) {
  const Cluster cluster = testing::sample_cluster(64);
  const auto faults = drawn_faults(
      with("{until: 10 d, kinds: [{cause: flap, part: nic, mtbf: 1 d, down: true, lasts: 10 us, "
           "lasts_up_to: 100 s}]}"), cluster, "");
  std::map<int, int> decades;
  for (const Fault& fault : faults) {
    ++decades[static_cast<int>(std::floor(std::log10(to_seconds(fault.for_()))))];
  }
  ASSERT_EQ(decades.size(), 7u);
  for (const auto& [decade, count] : decades) {
    EXPECT_NEAR(count, static_cast<double>(faults.size()) / 7, 150) << decade;
  }
}

TEST(FailureModel, HardwareThatIsDownStaysAwayUntilItIsRepaired) {
  const Cluster cluster = testing::sample_cluster(64);
  const auto faults = drawn_faults(
      with("{repair: 6 h, kinds: [{cause: a, part: node, mtbf: 10 d, down: true},"
           "{cause: b, part: node, mtbf: 10 d, down: true, lasts: 1 h},"
           "{cause: c, part: gpu, mtbf: 10 d, rate: 0.7}]}"), cluster, "");
  for (const Fault& fault : faults) {
    if (fault.cause() == "a") {
      EXPECT_EQ(fault.for_(), 6 * 3600 * kNanosPerSecond);
    }
    if (fault.cause() == "b") {
      EXPECT_EQ(fault.for_(), 3600 * kNanosPerSecond);
    }
    if (fault.cause() == "c") {
      EXPECT_FALSE(fault.has_for_()) << "slow for ever";
    }
  }
  EXPECT_EQ(by_cause(faults).size(), 3u);
}

TEST(FailureModel, TooManyAreRefusedBeforeTheyAreDrawn) {
  const Cluster cluster = testing::sample_cluster(2048);
  EXPECT_THROW(drawn_faults(with("{kinds: [{cause: a, part: nic, mtbf: 1 s, down: true}]}"),
                            cluster, ""), Error);
}

TEST(FailureModel, ATraceIsReplayedAsItWas) {
  const std::string path = "t.csv";
  const auto faults = read_failure_trace(
      path, "time_s,cause,part,index,effect,rate,lasts_s\n"
            "60.5,optics,nic,3,rate,0.5,10\n"
            "7,power,node,1,down,,3600\n"
            "9,crash,rank,5,kill,,\n");
  ASSERT_EQ(faults.size(), 3u);
  EXPECT_EQ(faults[0].cause(), "power");
  EXPECT_EQ(faults[0].node(), 1u);
  EXPECT_EQ(faults[0].for_(), 3600 * kNanosPerSecond);
  EXPECT_TRUE(faults[1].kill());
  EXPECT_EQ(faults[2].nic(), 3u);
  EXPECT_EQ(faults[2].rate(), 0.5);
  const auto complaint = [&](const std::string& row) -> std::string {
    try {
      read_failure_trace(path, "time_s,cause,part,index,effect,rate,lasts_s\n" + row);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(complaint("x,a,node,1,down,,\n").find("time_s: expected a number"), std::string::npos);
  EXPECT_NE(complaint("1,a,tree,1,down,,\n").find("got 'tree'"), std::string::npos);
  EXPECT_NE(complaint("1,a,node,1,kill,,\n").find("expected down or rate"), std::string::npos);
  EXPECT_THROW(read_failure_trace(path, "time_s,cause\n"), Error);
}

TEST(FailureModel, WhatMeansNothingIsSaidWithItsPlace) {
  const auto complaint = [](const std::string& failures) -> std::string {
    const std::string text =
        "name: x\ncluster: {preset: dgx-h100, nodes: 1}\njob:\n  model: {preset: llama3-8b}\n"
        "  sequence_length: 128\n  global_batch: 8\n  layout: {data: 8}\n"
        "run: {steps: 1}\nfailures: " + failures + "\n";
    const auto errors = check_scenario(text, "x.yaml");
    return errors.empty() ? "" : errors.front().what();
  };
  EXPECT_EQ(complaint("{profile: llama3}"), "");
  EXPECT_NE(complaint("{profile: lama3}").find("llama3"), std::string::npos);
  EXPECT_NE(complaint("{kinds: [{cause: a, part: node, mtbf: 1 d, kill: true}]}")
                .find("expected down or rate of a node"), std::string::npos);
  EXPECT_NE(complaint("{kinds: [{cause: a, part: job, mtbf: 1 d, rate: 0.5}]}")
                .find("expected kill, stop or slow of a job"), std::string::npos);
  EXPECT_NE(complaint("{kinds: [{cause: a, part: nic, mtbf: 1 d, down: true, lasts: 2 s, "
                      "lasts_up_to: 1 s}]}").find("longer than lasts"), std::string::npos);
}

}  // namespace
}  // namespace orrery
