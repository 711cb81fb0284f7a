#include "sim/planning/training_spec.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "sim/planning/graded_run.hpp"
#include "topologies/builder.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::sim {
namespace {

/// Scenario that passes each rule, with changes.
Scenario good_with(std::vector<std::string> changes = {}) {
  return parse_scenario(R"(
name: good
cluster: {preset: dgx-h100, nodes: 9, price: {carbon: 400}}
job:
  model: {preset: llama3-8b}
  sequence_length: 8192
  global_batch: 256
  stack: nemo
  layout: {tensor: 1, pipeline: 1, data: 64, shard: optimizer}
  recompute: full
failures: {profile: llama3, repair: 6 h, scale: 4}
survival: {on_loss: hold, detection: 30 s, heartbeat_timeout: 30 s, restart: 4 min, regroup: 60 s}
live: {metrics: run.prom}
checkpoints: {folder: checkpoints, every: 130, stall: 5 s, write: 30 s}
policies: [{name: recover, parameters: {how: restart}}, {name: predictive-rebalance}]
run: {tokens: 100000000000}
)",
                        "<test>", changes)
      .scenario;
}

SpecFinding finding_of(const SpecReport& report, const std::string& rule) {
  for (const SpecFinding& each : report.findings) {
    if (each.rule == rule) return each;
  }
  ADD_FAILURE() << "no rule " << rule;
  return {};
}

SpecFinding after(const std::string& rule, std::vector<std::string> changes) {
  return finding_of(grade_scenario(good_with(std::move(changes))), rule);
}

TEST(TrainingSpec, AGoodScenarioFailsNothingButTheLayout) {
  const SpecReport report = grade_scenario(good_with());
  for (const SpecFinding& each : report.findings) {
    if (each.rule == "configure.layout") continue;
    EXPECT_NE(each.grade, SpecGrade::fail)
        << each.rule << ": expected " << each.expected << ", found " << each.found;
    EXPECT_TRUE(each.fix.empty()) << each.rule;
  }
  EXPECT_EQ(report.findings.size(), report.count_of(SpecGrade::pass) +
                                        report.count_of(SpecGrade::fail) +
                                        report.count_of(SpecGrade::unknown));
}

struct Case {
  const char* rule;
  std::vector<std::string> changes;
  bool gains;  ///< the fix saves time
};

/// Each rule fails for a scenario that breaks it, and names a fix.
TEST(TrainingSpec, EachRuleCanFail) {
  const std::vector<Case> cases{
      {"configure.layout", {"job.layout.tensor=8", "job.layout.data=8"}, true},
      {"configure.memory", {"job.recompute=none", "job.micro_batch=2", "run.memory=warn"}, false},
      {"configure.bubble",
       {"job.layout.pipeline=8", "job.layout.data=8", "job.global_batch=64"},
       true},
      {"synchronise.overlap",
       {"job.overlap=false", "cluster.node.nic_bandwidth=25 Gbps", "job.global_batch=64"},
       true},
      {"synchronise.shard", {"job.layout.shard=nothing"}, false},
      {"checkpoint.interval", {"checkpoints.every=700"}, true},
      {"checkpoint.durable", {"checkpoints.write=2 h"}, false},
      {"checkpoint.stall", {"checkpoints.stall=2 min"}, true},
      {"recover.restart", {"survival.restart=40 min"}, true},
      {"recover.policy", {"policies=[{name: predictive-rebalance}]"}, false},
      {"recover.spares", {"cluster.nodes=8", "failures.repair=2 d"}, true},
      {"monitor.detection", {"survival.detection=10 min"}, true},
      {"monitor.slow-ranks", {"policies=[{name: recover}]"}, false},
      {"cluster.network",
       {"cluster.node.nic_bandwidth=25 Gbps", "job.global_batch=64"},
       true},
      {"cluster.rails", {"cluster.node.nics_per_node=4"}, false},
      {"cluster.price", {"cluster.price.carbon=0"}, false},
  };
  for (const Case& each : cases) {
    const SpecFinding finding = after(each.rule, each.changes);
    EXPECT_EQ(finding.grade, SpecGrade::fail) << each.rule << ": found " << finding.found;
    EXPECT_FALSE(finding.fix.empty()) << each.rule;
    EXPECT_NE(finding.gain.has_value(), !finding.no_gain.empty()) << each.rule;
    if (!each.gains) continue;
    ASSERT_TRUE(finding.gain) << each.rule;
    EXPECT_GT(*finding.gain, 0) << each.rule;
    EXPECT_LT(*finding.gain, 1) << each.rule;
  }
}

/// A gain is known or has its reason, whatever the grade.
TEST(TrainingSpec, EachFindingHasAGainOrAReason) {
  for (const auto& changes :
       std::vector<std::vector<std::string>>{{},
                                             {"policies=[{name: recover}]"},
                                             {"job.layout.tensor=8", "job.layout.data=8"},
                                             {"cluster.price.carbon=0"}}) {
    for (const SpecFinding& each : grade_scenario(good_with(changes)).findings) {
      EXPECT_NE(each.gain.has_value(), !each.no_gain.empty()) << each.rule << ": " << each.no_gain;
    }
  }
  Scenario scenario = good_with();
  scenario.clear_failures();
  const SpecFinding planned = finding_of(grade_scenario(scenario), "recover.planned");
  EXPECT_FALSE(planned.gain);
  EXPECT_NE(planned.no_gain.find("changes the plan"), std::string::npos) << planned.no_gain;
}

/// A change that cannot be made has its problem as the reason.
TEST(TrainingSpec, AnImpossibleChangeHasNoGainAndSaysWhy) {
  const GradedRun run(good_with());
  const PredictedGain none = run.gain_of([](Scenario& scenario) {
    scenario.mutable_job()->mutable_layout()->set_pipeline(1000);
  });
  EXPECT_FALSE(none.share);
  EXPECT_NE(none.reason.find("impossible"), std::string::npos) << none.reason;
}

TEST(TrainingSpec, AScenarioWithoutPlansFailsTheRulesAboutThem) {
  Scenario scenario = good_with();
  scenario.clear_failures();
  scenario.clear_checkpoints();
  scenario.mutable_live()->clear_metrics();
  const SpecReport report = grade_scenario(scenario);
  EXPECT_EQ(finding_of(report, "recover.planned").grade, SpecGrade::fail);
  const SpecFinding written = finding_of(report, "checkpoint.written");
  EXPECT_EQ(written.grade, SpecGrade::fail);
  ASSERT_TRUE(written.gain);
  EXPECT_GT(*written.gain, 0.2) << "without checkpoints each loss costs the whole run";
  EXPECT_EQ(finding_of(report, "checkpoint.interval").grade, SpecGrade::unknown);
  EXPECT_EQ(finding_of(report, "monitor.metrics").grade, SpecGrade::fail);
  EXPECT_NE(report.basis.find("assumed"), std::string::npos);
}

/// The predicted gain is the gain of the scenario with the fix.
TEST(TrainingSpec, TheGainIsThatOfTheFixedScenario) {
  const Scenario bad = good_with({"checkpoints.every=700"});
  const SpecFinding finding = finding_of(grade_scenario(bad), "checkpoint.interval");
  ASSERT_EQ(finding.set.size(), 1u);
  const SpecReport fixed = grade_scenario(good_with({finding.set[0]}));
  EXPECT_EQ(finding_of(fixed, "checkpoint.interval").grade, SpecGrade::pass);
  const GradedRun run(bad);
  const std::string& set = finding.set[0];
  const auto every = static_cast<std::uint64_t>(std::stoull(set.substr(set.find('=') + 1)));
  const auto again = run.gain_of(
      [&](Scenario& to) { to.mutable_checkpoints()->set_every(every); });
  EXPECT_EQ(finding.gain, again.share);
  EXPECT_TRUE(again.reason.empty());
}

TEST(TrainingSpec, WorkWithoutAJobIsRefused) {
  const LoadedScenario loaded = parse_scenario(
      "name: one\ncluster: {preset: dgx-h100, nodes: 2}\n"
      "collective: {kind: all-reduce, size: 1 GiB}\nrun: {steps: 1}\n",
      "<test>", {});
  EXPECT_THROW(grade_scenario(loaded.scenario), Error);
}

RunFacts good_facts() {
  RunFacts facts{.elapsed_s = 1000, .worked_s = 980, .steps = 98};
  facts.step_s.assign(98, 10);
  facts.standstill_s = {12};
  facts.repeated_s = {10};
  facts.stalls_s = {0.5, 0.5};
  facts.saves = 2;
  return facts;
}

SpecFinding fact_of(const RunFacts& facts, const std::string& rule) {
  const std::vector<SpecFinding> all = grade_facts(facts);
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const SpecFinding& each) { return each.rule == rule; });
  return found == all.end() ? SpecFinding{} : *found;
}

TEST(TrainingSpec, FactsOfARunCanFailEachOfTheirRules) {
  for (const SpecFinding& each : grade_facts(good_facts())) {
    EXPECT_EQ(each.grade, SpecGrade::pass) << each.rule << ": " << each.found;
  }
  RunFacts idle = good_facts();
  idle.elapsed_s = 2000;
  EXPECT_EQ(fact_of(idle, "run.goodput").grade, SpecGrade::fail);
  RunFacts slow = good_facts();
  slow.standstill_s = {1000, 1200};
  EXPECT_EQ(fact_of(slow, "run.recovery").grade, SpecGrade::fail);
  RunFacts repeated = good_facts();
  repeated.repeated_s = {30};
  EXPECT_EQ(fact_of(repeated, "run.lost-work").grade, SpecGrade::fail);
  RunFacts failed = good_facts();
  failed.saves_failed = 1;
  EXPECT_EQ(fact_of(failed, "run.checkpoints").grade, SpecGrade::fail);
  RunFacts spread = good_facts();
  std::fill(spread.step_s.begin(), spread.step_s.begin() + 20, 15);
  EXPECT_EQ(fact_of(spread, "run.spread").grade, SpecGrade::fail);
  // 20 steps of 15 s may take 11 s: 80 s of the 1,080 s of all steps, which were 980 s of 1,000.
  EXPECT_NEAR(*fact_of(spread, "run.spread").gain, 80.0 / 1080 * 0.98, 1e-9);
  EXPECT_FALSE(fact_of(failed, "run.checkpoints").gain);
  EXPECT_FALSE(fact_of(failed, "run.checkpoints").no_gain.empty());
  const RunFacts nothing;
  EXPECT_EQ(fact_of(nothing, "run.recovery").grade, SpecGrade::unknown);
  EXPECT_EQ(fact_of(nothing, "run.checkpoints").grade, SpecGrade::unknown);
}

TEST(TrainingSpec, ClustersAreGradedAlone) {
  const Scenario scenario = good_with({"cluster.nodes=64", "cluster.fabric.spines=4"});
  const SpecReport report = grade_cluster(build_cluster(scenario.cluster(), {}, "cluster"));
  EXPECT_EQ(report.subject, "cluster");
  EXPECT_EQ(finding_of(report, "cluster.fabric").grade, SpecGrade::fail);
  EXPECT_FALSE(finding_of(report, "cluster.fabric").gain);
  EXPECT_NE(finding_of(report, "cluster.fabric").no_gain.find("no training job"),
            std::string::npos);
  EXPECT_EQ(finding_of(report, "cluster.rails").grade, SpecGrade::pass);
}

}  // namespace
}  // namespace orrery::sim
