// Failures drawn from rates: they follow from counts, seed and cluster, and have no end.
#include "traces/scenario/failure_stream.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "tests/traces/sample_cluster.hpp"
#include "traces/scenario/fault_script.hpp"
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

/// Draws the failures up to `until`, if given, or of the first `days`.
std::vector<Fault> drawn_faults(const Scenario& scenario, const Cluster& cluster,
                                double days = 60) {
  const Nanos end =
      scenario.failures().has_until() ? scenario.failures().until() : to_nanos(days * kDay);
  FailureStream stream(scenario, cluster);
  std::vector<Fault> faults;
  while (stream.next_time() <= end && stream.next_time() != kNever) {
    for (Fault& fault : stream.pop_failure()) faults.push_back(std::move(fault));
  }
  return faults;
}

TEST(FailureStream, AsManyComeAsTheRateSaysAndEqualSeedsDrawEqually) {
  const Cluster cluster = testing::sample_cluster(2048);
  double sum = 0;
  const int seeds = 30;
  for (int seed = 1; seed <= seeds; ++seed) {
    const auto faults = drawn_faults(with("{profile: llama3, until: 54 d}", seed), cluster);
    sum += static_cast<double>(faults.size());
    for (std::size_t i = 1; i < faults.size(); ++i) {
      ASSERT_LE(faults[i - 1].at_time(), faults[i].at_time());
    }
  }
  // The mean of 30 Poisson counts of 466 and fewer: within four standard deviations.
  EXPECT_NEAR(sum / seeds, 466, 4 * std::sqrt(466.0 / seeds));
  const auto one = drawn_faults(with("{profile: llama3}", 7), cluster);
  const auto same = drawn_faults(with("{profile: llama3}", 7), cluster);
  const auto other = drawn_faults(with("{profile: llama3}", 8), cluster);
  ASSERT_EQ(one.size(), same.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].SerializeAsString(), same[i].SerializeAsString());
  }
  EXPECT_NE(one[0].at_time(), other[0].at_time());
}

TEST(FailureStream, AKindMoreLeavesTheOthersAsTheyWere) {
  const Cluster cluster = testing::sample_cluster(64);
  const std::string first = "{cause: a, part: node, mtbf: 10 d, down: true}";
  const auto few = drawn_faults(with("{kinds: [" + first + "]}"), cluster);
  const auto more = drawn_faults(
      with("{kinds: [" + first + ", {cause: b, part: gpu, mtbf: 90 d, down: true}]}"), cluster);
  std::vector<Nanos> before, after;
  for (const Fault& fault : few) before.push_back(fault.at_time());
  for (const Fault& fault : more) {
    if (fault.cause() == "a") after.push_back(fault.at_time());
  }
  EXPECT_GT(before.size(), 100u);
  EXPECT_EQ(before, after);
}

TEST(FailureStream, RacksAndRowsFailWholeAtOneInstant) {
  const Cluster cluster = testing::sample_cluster(30);
  const auto faults =
      drawn_faults(with("{nodes_per_rack: 4, racks_per_row: 3, kinds: ["
                        "{cause: rack, part: rack, mtbf: 30 d, down: true, lasts: 1 h},"
                        "{cause: row, part: row, mtbf: 30 d, rate: 0.5, lasts: 1 h}]}"),
                   cluster);
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

TEST(FailureStream, LemonsFailThatManyTimesAsOften) {
  const Cluster cluster = testing::sample_cluster(200);
  const auto faults = drawn_faults(with("{until: 300 d, lemons: {share: 10%, times: 9}, kinds: ["
                                        "{cause: x, part: node, mtbf: 20 d, down: true}]}"),
                                   cluster);
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

TEST(FailureStream, WeibullGapsHaveTheirMeanAndTheirShape) {
  const Cluster cluster = testing::sample_cluster(400);
  for (const double shape : {0.7, 3.0}) {
    const auto faults = drawn_faults(
        with("{until: 1000 d, kinds: [{cause: x, part: node, mtbf: 5 d, down: true, shape: " +
             std::to_string(shape) + "}]}"),
        cluster);
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

TEST(FailureStream, PlannedWorkComesAtEqualDistances) {
  const Cluster cluster = testing::sample_cluster(4);
  const auto faults = drawn_faults(
      with("{until: 30 d, kinds: [{cause: planned, part: job, mtbf: 3 d, regular: true, "
           "kill: true}]}"),
      cluster);
  ASSERT_EQ(faults.size(), 10u);
  for (std::size_t i = 1; i < faults.size(); ++i) {
    EXPECT_NEAR(to_seconds(faults[i].at_time() - faults[i - 1].at_time()), 3 * kDay, 1e-3);
  }
}

TEST(FailureStream, FlapsLastFromMicrosecondsToMinutesEachMagnitudeAsOften) {
  const Cluster cluster = testing::sample_cluster(64);
  const auto faults = drawn_faults(
      with("{until: 10 d, kinds: [{cause: flap, part: nic, mtbf: 1 d, down: true, lasts: 10 us, "
           "lasts_up_to: 100 s}]}"),
      cluster);
  std::map<int, int> decades;
  for (const Fault& fault : faults) {
    ++decades[static_cast<int>(std::floor(std::log10(to_seconds(fault.for_()))))];
  }
  ASSERT_EQ(decades.size(), 7u);
  for (const auto& [decade, count] : decades) {
    EXPECT_NEAR(count, static_cast<double>(faults.size()) / 7, 150) << decade;
  }
}

TEST(FailureStream, HardwareThatIsDownStaysAwayUntilItIsRepaired) {
  const Cluster cluster = testing::sample_cluster(64);
  const auto faults =
      drawn_faults(with("{repair: 6 h, kinds: [{cause: a, part: node, mtbf: 10 d, down: true},"
                        "{cause: b, part: node, mtbf: 10 d, down: true, lasts: 1 h},"
                        "{cause: c, part: gpu, mtbf: 10 d, rate: 0.7}]}"),
                   cluster);
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

TEST(FailureStream, RepairsWaitForACrew) {
  const Cluster cluster = testing::sample_cluster(64);
  const std::string kinds =
      "kinds: [{cause: a, part: node, mtbf: 4 d, down: true, repair: {median: 2 h, p90: 9 h}},"
      "{cause: planned, part: node, mtbf: 8 d, regular: true, down: true, lasts: 1 h, "
      "notice: 2 h}, {cause: slow, part: gpu, mtbf: 10 d, rate: 0.7, lasts: 1 h}]}";
  const auto free = drawn_faults(with("{" + kinds), cluster);
  const auto two = drawn_faults(with("{crews: 2, " + kinds), cluster);
  ASSERT_EQ(free.size(), two.size());
  std::vector<Nanos> crews(2, 0);  // the same by hand
  std::size_t waited = 0;
  for (std::size_t i = 0; i < two.size(); ++i) {
    EXPECT_EQ(two[i].at_time(), free[i].at_time()) << "crews change no failure";
    if (two[i].cause() != "a") {
      EXPECT_EQ(two[i].for_(), free[i].for_()) << "planned work and slow parts need no crew";
      continue;
    }
    Nanos& crew = *std::min_element(crews.begin(), crews.end());
    const Nanos begin = std::max(crew, two[i].at_time());
    waited += begin > two[i].at_time();
    crew = begin + free[i].for_();
    EXPECT_EQ(two[i].at_time() + two[i].for_(), crew);
  }
  EXPECT_GT(waited, 10u);
}

TEST(FailureStream, PlannedWorkIsAnnouncedAndForgotten) {
  const Cluster cluster = testing::sample_cluster(64);
  const Scenario scenario = with(
      "{kinds: [{cause: planned, part: node, mtbf: 10 d, regular: true, down: true, lasts: 1 h, "
      "notice: 2 h}, {cause: flap, part: nic, mtbf: 60 min, down: true, lasts: 1 s}]}");
  constexpr Nanos kHour = 3600 * kNanosPerSecond;
  std::vector<Fault> planned;
  for (const Fault& fault : drawn_faults(scenario, cluster, 3)) {
    if (fault.cause() == "planned") planned.push_back(fault);
  }
  ASSERT_GT(planned.size(), 10u);
  FaultScript script(scenario, cluster);
  for (const Fault& fault : planned) {
    const Part node{PartKind::node, fault.node()};
    const Nanos begin = fault.at_time();
    if (begin < 3 * kHour) continue;
    EXPECT_FALSE(script.removals({0, begin - 2 * kHour - 1}).contains(node));
    const auto announced = script.removals({0, begin - 2 * kHour});
    ASSERT_TRUE(announced.contains(node));
    EXPECT_EQ(announced.at(node).at, begin);
    EXPECT_EQ(announced.at(node).back_at, begin + kHour);
    EXPECT_TRUE(script.removals({0, begin + kHour - 1}).contains(node));
    EXPECT_FALSE(script.removals({0, begin + kHour}).contains(node));
    if (script.is_worth_forgetting()) script.forget_before(begin - 2 * kHour - 1, 0);
  }
}

TEST(FailureStream, EachDurationIsDrawnFromItsOwnNumbers) {
  const Cluster cluster = testing::sample_cluster(64);
  const std::string kind = "{cause: a, part: node, mtbf: 30 d, down: true";
  const std::string repair = ", repair: {median: 2 h, sigma: 0.5}";
  const std::string restart = ", restart: {values: [4 min, 12 h]}";
  const auto plain = drawn_faults(with("{kinds: [" + kind + "}]}"), cluster, 600);
  const auto repaired = drawn_faults(with("{kinds: [" + kind + repair + "}]}"), cluster, 600);
  const auto all = drawn_faults(
      with("{kinds: [" + kind + repair + restart +
           ", detection: {fixed: 9 s}, corrupted: {median: 1 h, sigma: 1}}, "
           "{cause: b, part: gpu, mtbf: 900 d, down: true, restart: {median: 1 h, p90: 1 d}}]}"),
      cluster, 600);
  std::vector<Fault> own;
  std::copy_if(all.begin(), all.end(), std::back_inserter(own),
               [](const Fault& fault) { return fault.cause() == "a"; });
  ASSERT_EQ(plain.size(), repaired.size());
  ASSERT_EQ(plain.size(), own.size());
  double logs = 0;
  int nights = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(plain[i].at_time(), own[i].at_time()) << "instants do not depend on durations";
    EXPECT_EQ(plain[i].node(), own[i].node());
    EXPECT_EQ(repaired[i].for_(), own[i].for_()) << "nor repairs on restarts";
    EXPECT_FALSE(plain[i].has_restart());
    EXPECT_EQ(own[i].detection(), 9 * kNanosPerSecond);
    EXPECT_GT(own[i].corrupted(), 0);
    EXPECT_FALSE(plain[i].has_corrupted());
    logs += std::log(to_seconds(own[i].for_()) / 7200);
    nights += own[i].restart() == 12 * 3600 * kNanosPerSecond ? 1 : 0;
  }
  const auto count = static_cast<double>(own.size());
  ASSERT_GT(count, 1000);
  EXPECT_NEAR(logs / count, 0, 4 * 0.5 / std::sqrt(count)) << "the median";
  EXPECT_NEAR(nights / count, 0.5, 2 / std::sqrt(count));
  EXPECT_GT(all.size(), own.size());
}

TEST(FailureStream, FailuresHaveNoEndAndComeAsOftenInEveryYear) {
  const Cluster cluster = testing::sample_cluster(100);
  for (const char* kind : {"{cause: x, part: node, mtbf: 50 d, down: true}",
                           "{cause: x, part: node, mtbf: 50 d, down: true, shape: 2}",
                           "{cause: x, part: node, mtbf: 50 d, down: true, regular: true}",
                           "{cause: x, part: job, mtbf: 12 h, kill: true}"}) {
    std::map<int, int> by_year;
    Nanos last = 0;
    for (const Fault& fault :
         drawn_faults(with(std::string("{kinds: [") + kind + "]}"), cluster, 5 * 365)) {
      ASSERT_LE(last, fault.at_time());
      last = fault.at_time();
      ++by_year[static_cast<int>(to_seconds(last) / kDay / 365)];
    }
    ASSERT_EQ(by_year.size(), 5u) << kind;
    for (const auto& [year, count] : by_year) EXPECT_NEAR(count, 730, 120) << kind << year;
  }
}

TEST(FailureStream, ALimitCutsTheSameFailuresOff) {
  const Cluster cluster = testing::sample_cluster(100);
  const std::string kinds =
      "kinds: [{cause: x, part: node, mtbf: 50 d, down: true},"
      "{cause: y, part: gpu, mtbf: 90 d, rate: 0.5, lasts: 1 h, lasts_up_to: 9 h}]";
  const auto endless = drawn_faults(with("{" + kinds + "}"), cluster, 30);
  const auto limited = drawn_faults(with("{until: 30 d, " + kinds + "}"), cluster);
  ASSERT_EQ(endless.size(), limited.size());
  for (std::size_t i = 0; i < endless.size(); ++i) {
    EXPECT_EQ(endless[i].SerializeAsString(), limited[i].SerializeAsString());
  }
}

TEST(FailureStream, AKindWithoutARateNeverFails) {
  const Cluster cluster = testing::sample_cluster(4);
  const Scenario none =
      with("{kinds: [{cause: x, part: node, counted: {count: 0, time: 1 d}, down: true}]}");
  EXPECT_EQ(FailureStream(none, cluster).next_time(), kNever);
  const Scenario rare =
      with("{kinds: [{cause: x, part: node, mtbf: 1e10 d, down: true, shape: 3}]}");
  EXPECT_EQ(FailureStream(rare, cluster).next_time(), kNever) << "after 285 years";
}

TEST(FailureStream, DrawnFailuresLieBetweenTheScenariosOwnFaults) {
  const Cluster cluster = testing::sample_cluster(16);
  Scenario scenario = with("{kinds: [{cause: x, part: node, mtbf: 16 h, down: true}]}");
  for (int hour = 0; hour < 2000; hour += 100) {
    Fault& fault = *scenario.add_faults();
    fault.set_at_time((hour + 1) * 3600 * kNanosPerSecond);
    fault.set_rank(0);
    fault.set_kill(true);
  }
  const FaultScript script(scenario, cluster);
  scenario.clear_faults();
  const FaultScript drawn(scenario, cluster);
  for (int hour = 10; hour < 2000; hour += 100) {
    const Moment at{0, hour * 3600 * kNanosPerSecond};
    const auto own = static_cast<std::uint64_t>(hour / 100 + 1);
    EXPECT_EQ(script.begun_count(at), drawn.begun_count(at) + own);
    const auto next = script.next_strike({}, at.now, kNever);
    const auto of_drawn = drawn.next_strike({}, at.now, kNever);
    ASSERT_TRUE(next && of_drawn);
    EXPECT_EQ(next->at,
              std::min(of_drawn->at, ((hour / 100 + 1) * 100 + 1) * 3600 * kNanosPerSecond))
        << hour;
  }
}

TEST(FailureStream, TheirNumberHasNoLimit) {
  const Cluster cluster = testing::sample_cluster(2048);
  const Scenario often = with(
      "{kinds: [{cause: a, part: nic, mtbf: 1 s, down: true},"
      "{cause: b, part: nic, mtbf: 20 s, down: true, shape: 2}]}");
  FaultScript script(often, cluster);
  EXPECT_NEAR(static_cast<double>(script.begun_count({0, kNanosPerSecond})), 16384, 2000);
  EXPECT_LT(script.faults_in_memory(), 30'000u) << "of a trillion in 60 days";
}

TEST(FailureStream, AScriptOfManyFailuresKeepsThoseNearThePresentOnly) {
  const Cluster cluster = testing::sample_cluster(64);
  const Scenario scenario = with(
      "{repair: 10 min, kinds: [{cause: flap, part: nic, mtbf: 3 min, down: true, lasts: 1 s},"
      "{cause: old, part: gpu, mtbf: 20 min, rate: 0.5, lasts: 1 h, shape: 2}]}");
  FaultScript script(scenario, cluster);
  FaultScript whole(scenario, cluster);
  std::size_t most = 0;
  constexpr Nanos kHour = 3600 * kNanosPerSecond;
  for (Nanos now = 0; now < 20 * kHour; now += kHour) {
    EXPECT_EQ(script.conditions({0, now}), whole.conditions({0, now}));
    if (script.is_worth_forgetting()) script.forget_before(now, 10 * kHour);
    most = std::max(most, script.faults_in_memory());
  }
  EXPECT_GT(whole.faults_in_memory(), 200'000u);
  EXPECT_LT(most, 100'000u);
  const Moment end{0, 20 * kHour};
  EXPECT_EQ(script.begun_count(end), whole.begun_count(end));
  EXPECT_EQ(script.begun_by_cause({-1, 10 * kHour}, end),
            whole.begun_by_cause({-1, 10 * kHour}, end));
}

}  // namespace
}  // namespace orrery
