#include "traces/scenario/scenario.hpp"

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/error.hpp"
#include "topologies/builder.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery {
namespace {

constexpr const char* kTransformer = R"(name: test
cluster:
  preset: dgx-h100
  nodes: 4
job:
  model:
    preset: llama3-8b
  sequence_length: 4096
  global_batch: 64
  layout:
    tensor: 4
    pipeline: 2
    data: 4
faults:
  - at_step: 3
    rank: 5
    slow: 2
run:
  steps: 10
)";

std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

/// Line and message of the first problem, or "" if there is none.
std::string problem(const std::string& text) {
  try {
    parse_scenario(text, "test.yaml", {});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_TRUE(error.source_place().has_value());
    return std::to_string(error.source_place() ? error.source_place()->line : 0) + ": " +
           error.message();
  }
  return "";
}

void expect_problem(const std::string& text, const std::string& line, const std::string& word) {
  const std::string said = problem(text);
  EXPECT_EQ(said.substr(0, said.find(':')), line) << said;
  EXPECT_NE(said.find(word), std::string::npos) << said;
}

TEST(Scenario, DefaultsAndPresetsAreFilledIn) {
  const Scenario scenario = parse_scenario(kTransformer, "test.yaml", {}).scenario;
  EXPECT_EQ(scenario.job().model().layers(), 32u);
  EXPECT_EQ(scenario.job().model().kv_heads(), 8u);
  EXPECT_EQ(scenario.cluster().node().gpus_per_node(), 8u);
  EXPECT_EQ(scenario.job().precision(), "bf16");
  EXPECT_TRUE(scenario.job().overlap());
  EXPECT_EQ(scenario.run().seed(), 1u);
}

TEST(Scenario, WhatStandsBesideAPresetWins) {
  const auto loaded = parse_scenario(
      with(kTransformer, "preset: llama3-8b", "preset: llama3-8b\n    layers: 16"), "t", {});
  EXPECT_EQ(loaded.scenario.job().model().layers(), 16u);
  EXPECT_EQ(loaded.scenario.job().model().hidden(), 4096u);
}

TEST(Scenario, OverridesAreCheckedLikeTheFile) {
  const auto loaded =
      parse_scenario(kTransformer, "t", {"cluster.nodes=8", "job.layout.data=8", "run.seed=7"});
  EXPECT_EQ(loaded.scenario.job().layout().data(), 8u);
  EXPECT_EQ(loaded.scenario.run().seed(), 7u);
  EXPECT_THROW(parse_scenario(kTransformer, "t", {"job.layout.data=8"}), Error);  // 64 > 32 GPUs
  EXPECT_THROW(parse_scenario(kTransformer, "t", {"run.seed"}), Error);
  EXPECT_THROW(parse_scenario(kTransformer, "t", {"run.sed=7"}), Error);
}

TEST(Scenario, TokensAreSteps) {
  const auto steps = [](const std::string& length) {
    const std::string text = with(kTransformer, "steps: 10", length);
    return parse_scenario(text, "test.yaml", {}).scenario.run().steps();
  };
  const std::uint64_t step = 64 * 4096;
  EXPECT_EQ(steps("tokens: " + std::to_string(10 * step)), 10u);
  EXPECT_EQ(steps("tokens: " + std::to_string(10 * step + 1)), 11u);
  EXPECT_EQ(steps("tokens: 1500000000000"), 5722046u);
  EXPECT_EQ(steps("tokens: 1"), 1u);
  expect_problem(with(kTransformer, "steps: 10", "steps: 10\n  tokens: 10"), "20", "tokens");
  expect_problem(with(kTransformer, "steps: 10", "seed: 10"), "19", "steps");
}

TEST(Scenario, CrossFieldProblemsHaveTheirPlace) {
  const std::string text = kTransformer;
  expect_problem(with(text, "data: 4", "data: 8"), "11", "32 GPUs");
  expect_problem(with(text, "tensor: 4\n    pipeline: 2\n    data: 4",
                      "tensor: 16\n    pipeline: 1\n    data: 2"),
                 "11", "stays inside a node");
  expect_problem(with(text, "tensor: 4", "tensor: 3"), "11", "heads");
  expect_problem(with(text, "pipeline: 2\n    data: 4", "pipeline: 33\n    data: 1"), "12",
                 "32 layers");
  expect_problem(with(text, "global_batch: 64", "global_batch: 66"), "9", "multiple");
  expect_problem(with(text, "global_batch: 64", "global_batch: 64\n  micro_batch: 32"), "9",
                 "multiple");
  expect_problem(with(text, "preset: llama3-8b", "preset: llama3-8bb"), "7", "llama3-8b");
  expect_problem(with(text, "preset: llama3-8b", "layers: 8"), "7", "hidden");
}

TEST(Scenario, FaultsHaveOneTriggerOneTargetAndOneKind) {
  const std::string text = kTransformer;
  expect_problem(with(text, "at_step: 3\n    ", ""), "15",
                 "expected exactly one of at_step and at_time in faults[0], got none");
  expect_problem(with(text, "at_step: 3", "at_step: 3\n    at_time: 1 s"), "16",
                 "exactly one of at_step and at_time in faults[0], got 'at_time' beside 'at_step'");
  expect_problem(with(text, "    rank: 5\n", ""), "15", "exactly one of rank, gpu, node, nic");
  expect_problem(with(text, "rank: 5", "rank: 5\n    nic: 2"), "17", "beside 'rank' of line 16");
  expect_problem(with(text, "slow: 2", "slow: 2\n    kill: true"), "18", "exactly one");
  expect_problem(with(text, "    slow: 2\n", ""), "15", "exactly one of slow, ramp, kill");
  expect_problem(with(text, "slow: 2", "kill: false"), "17", "'kill' can only be true");
  expect_problem(with(text, "rank: 5", "rank: 32"), "16", "ranks 0 to 31");
  expect_problem(with(with(text, "at_step: 3", "at_time: 3 s"), "slow: 2",
                      "ramp: {slow: 2, steps: 4}"),
                 "17", "at_step");
  EXPECT_EQ(problem(with(text, "at_step: 3", "at_step: 0")), "");
}

TEST(Scenario, FaultsEndOnTheAxisOnWhichTheyBegan) {
  const std::string text = kTransformer;
  const std::string timed = with(text, "at_step: 3", "at_time: 3 s");
  expect_problem(with(text, "slow: 2", "slow: 2\n    until_step: 3"), "18", "before it");
  expect_problem(with(timed, "slow: 2", "slow: 2\n    until_step: 9"), "18", "before it");
  expect_problem(with(text, "slow: 2", "kill: true\n    until_step: 9"), "18", "stays dead");
  expect_problem(with(text, "slow: 2", "stop: true\n    until_step: 9"), "18", "at an instant");
  expect_problem(with(timed, "slow: 2", "stop: true\n    for: 1 ms"), "18", "after which the rank");
  EXPECT_EQ(problem(with(timed, "slow: 2", "stop: true\n    for: 9 h")), "");
  expect_problem(with(text, "slow: 2", "slow: 2\n    for: 3 s"), "18", "needs at_time");
  expect_problem(with(timed, "slow: 2", "slow: 2\n    until_time: 3 s"), "18", "after at_time");
  expect_problem(with(timed, "slow: 2", "slow: 2\n    until_time: 4 s\n    for: 1 s"), "19",
                 "exactly one of until_step, until_time and for");
  EXPECT_EQ(problem(with(text, "slow: 2", "slow: 2\n    until_time: 3 s")), "");
  EXPECT_EQ(problem(with(timed, "slow: 2", "slow: 2\n    until_time: 4 s")), "");
  EXPECT_EQ(problem(with(timed, "slow: 2", "slow: 2\n    for: 1 ns")), "");
}

TEST(Scenario, PlannedRemovalsAreAnnouncedOnTheAxisOnWhichTheyBegin) {
  const std::string text = with(with(kTransformer, "rank: 5", "node: 3"), "slow: 2", "down: true");
  const std::string timed = with(text, "at_step: 3", "at_time: 3 s");
  EXPECT_EQ(problem(with(text, "down: true", "down: true\n    notice_steps: 9")), "");
  EXPECT_EQ(problem(with(timed, "down: true",
                         "down: true\n    notice: 9 s\n    for: 1 s\n    test: 2 s")),
            "");
  expect_problem(with(text, "down: true", "down: true\n    notice: 9 s"), "18", "write at_time");
  expect_problem(with(timed, "down: true", "down: true\n    notice_steps: 2"), "18",
                 "write at_step");
  expect_problem(with(timed, "down: true", "down: true\n    notice: 1 s\n    notice_steps: 2"),
                 "19", "notice_steps");
  expect_problem(with(timed, "down: true", "rate: 0.5\n    notice: 1 s"), "18",
                 "expected 'notice' of a GPU or node that goes down");
  expect_problem(with(with(timed, "node: 3", "nic: 3"), "down: true",
                      "down: true\n    for: 1 s\n    test: 1 s"),
                 "19", "expected 'test' of a GPU or node that goes down");
  expect_problem(with(timed, "down: true", "down: true\n    test: 2 s"), "18",
                 "found no end of the fault");
}

TEST(Scenario, FaultsHitPartsThatTheClusterHas) {
  const std::string text = kTransformer;
  const auto hits = [&](const std::string& target, const std::string& kind) {
    return with(with(text, "rank: 5", target), "slow: 2", kind);
  };
  for (const char* part : {"gpu: 31", "node: 3", "nic: 31", "link: 7", "leaf: 7", "spine: 0",
                           "plane: 7", "storage: 0", "nics: 30%", "gpus: 2%"}) {
    EXPECT_EQ(problem(hits(part, "down: true")), "") << part;
    EXPECT_EQ(problem(hits(part, "rate: 0.5")), "") << part;
  }
  expect_problem(hits("gpu: 32", "down: true"), "16", "there is no gpu 32: the cluster's are 0 to");
  expect_problem(hits("leaf: 8", "rate: 0.5"), "16", "no leaf 8");
  expect_problem(hits("storage: 1", "rate: 0.5"), "16", "no storage 1");
  expect_problem(hits("nics: 130%", "rate: 0.5"), "16", "between 0 and 100%");
  expect_problem(hits("gpus: 1%", "rate: 0.5"), "16", "so small a share of 32 is none");
  expect_problem(hits("nics: 0.3", "rate: 0.5"), "16", "needs a unit: write for example 30%");
  expect_problem(hits("nic: 3", "link_down: true"), "17",
                 "expected one of down, rate for a nic, got 'link_down'");
  expect_problem(hits("rank: 3", "rate: 0.5"), "17",
                 "expected one of slow, ramp, kill, link_slow, link_down, stop for a rank");
  expect_problem(hits("nic: 3", "rate: 2"), "17", "between 0.001 and 1");
}

TEST(Scenario, SharesOfHugeClustersStayOfReasonableSize) {
  std::string faults;
  for (int i = 0; i < 10; ++i) faults += "\n  - {at_step: 1, gpus: 100%, rate: 0.5}";
  const std::string text = with(with(kTransformer, "nodes: 4", "nodes: 131072"),
                                "\n  - at_step: 3\n    rank: 5\n    slow: 2", faults);
  expect_problem(text, "24", "faults hit 10485760 parts, at most 10000000 may be");
}

TEST(Scenario, TheBuiltInModelNeedsAPaceAndPureDataParallelism) {
  const std::string named = with(kTransformer, "preset: llama3-8b", "builtin: language-model");
  const std::string builtin = with(named, "tensor: 4\n    pipeline: 2\n    ", "");
  expect_problem(with(builtin, "rank: 5", "rank: 1"), "7", "pace");
  const std::string paced =
      with(with(builtin, "rank: 5", "rank: 1"), "faults:", "  pace: {micro_batch: 40 ms}\nfaults:");
  EXPECT_EQ(problem(paced), "");
  expect_problem(with(paced, "data: 4", "data: 4\n    tensor: 2"), "12", "tensor must be 1");
}

TEST(Scenario, CheckFindsEveryCrossFieldProblem) {
  const std::string text =
      with(with(kTransformer, "global_batch: 64", "global_batch: 66"), "rank: 5", "rank: 99");
  EXPECT_EQ(check_scenario(text, "test.yaml").size(), 2u);
  EXPECT_EQ(check_scenario(text, "test.yaml", 1).size(), 1u);
  EXPECT_TRUE(check_scenario(kTransformer, "test.yaml").empty());
}

TEST(Scenario, HashLeavesOutTheSeedOnly) {
  const auto hash = [](const std::vector<std::string>& overrides) {
    return scenario_hash(parse_scenario(kTransformer, "t", overrides).scenario);
  };
  EXPECT_EQ(hash({}), hash({"run.seed=9"}));
  EXPECT_EQ(hash({}), hash({"job.precision=bf16"}));
  EXPECT_NE(hash({}), hash({"run.steps=11"}));
}

TEST(Scenario, RanksChangeOnlyWhereTheScenarioIsElastic) {
  auto rigid = parse_scenario(kTransformer, "t", {});
  set_ranks(rigid, 32);
  EXPECT_THROW(set_ranks(rigid, 16), Error);
  auto elastic = parse_scenario(kTransformer, "t", {"elastic=true"});
  set_ranks(elastic, 16);
  EXPECT_EQ(elastic.scenario.job().layout().data(), 2u);
  EXPECT_THROW(set_ranks(elastic, 20), Error);   // no multiple of 8
  EXPECT_THROW(set_ranks(elastic, 24), Error);   // 64 sequences over three replicas
  EXPECT_THROW(set_ranks(elastic, 512), Error);  // more than there are GPUs
}

TEST(Scenario, IdealMakespanByHand) {
  EXPECT_NEAR(ideal_makespan({1, 1, 1.0 / 3, 1}, 40, 0.04), 0.48, 1e-12);
  EXPECT_NEAR(ideal_makespan({1, 1, 1, 1}, 40, 0.04), 0.4, 1e-12);
  EXPECT_NEAR(ideal_makespan({1, 1, 1}, 4, 1), 2, 1e-12);
  EXPECT_NEAR(ideal_makespan({1, 0.001}, 3, 1), 3, 1e-12);
}

RC_GTEST_PROP(Scenario, IdealMakespanIsTheBestOfAllAssignments, ()) {
  const auto raw = *rc::gen::container<std::vector<int>>(3, rc::gen::inRange(1, 9));
  const std::vector<double> speeds(raw.begin(), raw.end());
  const auto count = *rc::gen::inRange(1u, 13u);
  double best = 1e9;
  for (std::uint32_t a = 0; a <= count; ++a) {
    for (std::uint32_t b = 0; a + b <= count; ++b) {
      best = std::min(best, std::max({a / speeds[0], b / speeds[1], (count - a - b) / speeds[2]}));
    }
  }
  RC_ASSERT(std::abs(ideal_makespan(speeds, count, 1) - best) < 1e-9);
}

class Example : public testing::TestWithParam<const char*> {};

TEST_P(Example, LoadsChecksAndHasAStepGraph) {
  const std::string path = std::string(ORRERY_SOURCE_DIR) + "/examples/" + GetParam() + ".yaml";
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::vector<Error> errors = check_scenario(text, path);
  for (const Error& error : errors) ADD_FAILURE() << error.what();
  const auto loaded = load_scenario(path, {});
  EXPECT_EQ(loaded.scenario.name(), GetParam());
  StepGraph graph(loaded.scenario.job());
  EXPECT_FALSE(graph.program(0, graph.micro_batches() / graph.data()).ops.empty());
  EXPECT_GE(build_cluster(loaded.scenario.cluster(), loaded.places).gpus(), graph.ranks());
}

INSTANTIATE_TEST_SUITE_P(Shipped, Example,
                         testing::Values("llama3-70b-512-h100", "straggler-4-ranks",
                                         "ramp-4-ranks", "noise-4-ranks"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(ExampleMain, FitsItsGpusAndCrossesTheSpine) {
  const auto loaded = load_scenario(
      std::string(ORRERY_SOURCE_DIR) + "/examples/llama3-70b-512-h100.yaml", {});
  const Cluster cluster = build_cluster(loaded.scenario.cluster(), loaded.places);
  StepGraph graph(loaded.scenario.job());
  EXPECT_EQ(graph.ranks(), 512u);
  EXPECT_GE(cluster.units(), 2u);
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    EXPECT_LT(graph.memory(stage, 16).total().value, cluster.gpu_model().memory.value) << stage;
  }
}

}  // namespace
}  // namespace orrery
