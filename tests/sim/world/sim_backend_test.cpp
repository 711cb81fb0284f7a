#include "sim/world/sim_backend.hpp"
#include "sim/worlds.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/util/delimited_message_util.h>
#include <gtest/gtest.h>

#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"
#include "traces/trace.pb.h"
#include "traces/workload/gradient_codec.hpp"
#include "traces/workload/model.hpp"

namespace orrery::sim {
namespace {

using testing::numbers_in_child;
using testing::simulate;
using testing::simulate_example;
using testing::small_scenario;

double parts(const Report& report) {
  const Breakdown& all = report.breakdown();
  return all.compute() + all.exposed_communication() + all.bubble() + all.waiting() + all.lost();
}

TEST(SimBackend, MainJobSimulatesOneIterationOfAThousand) {
  const Report report = simulate_example("llama3-70b-512-h100.yaml", {}, "static");
  EXPECT_EQ(report.steps_completed(), 1001u);
  EXPECT_EQ(report.iterations_simulated(), 1u);
  EXPECT_EQ(report.iterations_fast_forwarded(), 1000u);
  EXPECT_EQ(report.rank_classes(), 1u);
  EXPECT_EQ(report.micro_batches_lost(), 0u);
  EXPECT_EQ(report.micro_batches_repeated(), 0u);
  EXPECT_NEAR(parts(report), 1, 1e-9);
  EXPECT_NEAR(report.elapsed_s(), 1001 * report.step_time_s(), 1e-6);
  EXPECT_DOUBLE_EQ(report.goodput(), 1);
  EXPECT_GT(report.mfu(), 0.3);
  EXPECT_LT(report.mfu(), 0.55);
}

TEST(SimBackend, RestingPolicyIsSkippedToo) {
  const Report report = simulate_example("llama3-70b-512-h100.yaml", {}, "predictive-rebalance");
  EXPECT_EQ(report.steps_completed(), 1001u);
  EXPECT_EQ(report.iterations_simulated(), 1u);
  EXPECT_EQ(report.decisions(), 0u);
}

TEST(SimBackend, MainJobsFlowsCrossTheSpine) {
  const auto with = [](const std::string& spine) {
    return simulate_example("llama3-70b-512-h100.yaml",
                            {"run.steps=2", "cluster.fabric.spine_link_bandwidth=" + spine},
                            "static")
        .step_time_s();
  };
  EXPECT_GT(with("200 Gbps"), with("400 Gbps") * 1.01);
}

TEST(SimBackend, FaultsEndFastForward) {
  const Report report = simulate(small_scenario(
      1, 1, 8, "faults:\n  - {at_step: 100, rank: 3, slow: 2, until_step: 150}\n",
      {"run.steps=1000"}));
  EXPECT_EQ(report.steps_completed(), 1000u);
  EXPECT_EQ(report.iterations_simulated(), 2u);
  EXPECT_EQ(report.rank_classes(), 2u);
  EXPECT_EQ(report.faults_injected(), 1u);
  ASSERT_EQ(report.step_times_s_size(), 1000);
  EXPECT_EQ(report.step_times_s(99), report.step_times_s(0));
  EXPECT_GT(report.step_times_s(100), 1.5 * report.step_times_s(99));
  EXPECT_EQ(report.step_times_s(149), report.step_times_s(100));
  EXPECT_EQ(report.step_times_s(150), report.step_times_s(0));
  EXPECT_EQ(report.step_time_s(), report.step_times_s(0));
  EXPECT_LT(report.goodput(), 1);
}

TEST(SimBackend, StragglerStaticAgainstPredictive) {
  const Report left_alone = simulate_example("straggler-4-ranks.yaml", {}, "static");
  const Report steered = simulate_example("straggler-4-ranks.yaml", {}, "predictive-rebalance");
  ASSERT_TRUE(steered.has_ideal_step_time_s());
  EXPECT_DOUBLE_EQ(steered.ideal_step_time_s(), 0.48);
  EXPECT_NEAR(left_alone.step_time_s(), 1.2, 0.05);
  EXPECT_LE(steered.step_time_s(), 1.15 * steered.ideal_step_time_s());
  EXPECT_GE(steered.decisions(), 1u);
  EXPECT_EQ(steered.micro_batches_lost(), 0u);
  EXPECT_EQ(steered.micro_batches_repeated(), 0u);
  EXPECT_NEAR(parts(steered), 1, 1e-9);
}

/// The step from which the first shift of a recorded run holds.
std::uint64_t first_shift(const std::string& log) {
  std::ifstream file(log, std::ios::binary);
  google::protobuf::io::IstreamInputStream stream(&file);
  LogRecord record;
  while (google::protobuf::util::ParseDelimitedFromZeroCopyStream(&record, &stream, nullptr)) {
    for (const DecisionRecord& decision : record.call().decisions()) {
      if (decision.configure().what().has_shares()) return decision.at_step();
    }
  }
  return ~std::uint64_t{0};
}

// 1% more each step from step 20 on: the rank passes 1.1 x the others after step 30.
TEST(SimBackend, RampIsActedOnBeforeItIsLate) {
  for (int seed = 1; seed <= 8; ++seed) {
    const std::string log = ::testing::TempDir() + fmt::format("ramp-{}.log", seed);
    const Report report = simulate_example("ramp-4-ranks.yaml",
                                           {fmt::format("run.seed={}", seed)}, {},
                                           {.full_detail = false, .record = log, .timeline = {}});
    EXPECT_GT(first_shift(log), 20u) << "seed " << seed;
    EXPECT_LE(first_shift(log), 30u) << "seed " << seed;
    EXPECT_LE(report.step_time_s(), 1.15 * report.ideal_step_time_s()) << "seed " << seed;
  }
}

TEST(SimBackend, SameSeedSameReport) {
  const auto bytes = [](const std::string& seed) {
    return simulate_example("straggler-4-ranks.yaml", {"run.seed=" + seed})
        .SerializeAsString();
  };
  EXPECT_EQ(bytes("7"), bytes("7"));
  EXPECT_NE(bytes("7"), bytes("8"));
}

/// Settings under which the survivors lack the memory for the micro-batches of a lost replica.
const std::vector<std::string> kNoRoom{"job.max_share=1", "survival={on_loss: go-on}"};

TEST(SimBackend, KilledRankEndsTheRunWithItsCauseWhereNobodyHasRoom) {
  const Report report = simulate(
      small_scenario(1, 1, 8, "faults:\n  - {at_step: 4, rank: 3, kill: true}\n", kNoRoom));
  EXPECT_EQ(report.steps_completed(), 4u);
  ASSERT_EQ(report.failures_size(), 1);
  EXPECT_EQ(report.failures(0).cause(), "rank 3 killed");
  EXPECT_NEAR(report.failures(0).time_s(), report.elapsed_s(), 1e-9);
}

TEST(SimBackend, KillDuringAStepLosesThatStep) {
  const LoadedScenario calm = small_scenario(1, 1, 8);
  const double step = simulate(calm).step_time_s();
  const std::string at = std::to_string(static_cast<long>(2.5 * step * 1e9)) + " ns";
  const Report report = simulate(
      small_scenario(1, 1, 8, "faults:\n  - {at_time: " + at + ", rank: 3, kill: true}\n",
                     kNoRoom));
  EXPECT_EQ(report.steps_completed(), 2u);
  ASSERT_EQ(report.failures_size(), 1);
  EXPECT_NEAR(report.failures(0).time_s(), 2.5 * step, 1e-6);
  EXPECT_GT(report.breakdown().lost(), 0.1);
  EXPECT_GT(report.gpu_utilization(), 0.99);  // up to the last commit, as elapsed_s
}

TEST(SimBackend, TheOthersGoOnWithoutAKilledRankUntilAReplacementIsThere) {
  const double step = simulate_example("kill-one-rank.yaml", {"faults=[]"}).step_time_s();
  const Report report = simulate_example(
      "kill-one-rank.yaml", {fmt::format("faults=[{{at_time: {} ns, rank: 2, kill: true}}]",
                                         static_cast<long>(5.6 * step * 1e9))});
  EXPECT_EQ(report.steps_completed(), 30u);
  EXPECT_EQ(report.micro_batches_lost(), 0u);
  EXPECT_EQ(report.micro_batches_repeated(), 0u);
  EXPECT_EQ(report.micro_batches_recomputed(), 4 * 2u);  // two each were done
  ASSERT_EQ(report.failures_size(), 1);
  const FailureReport& failure = report.failures(0);
  EXPECT_NEAR(failure.time_s(), 5.6 * step, 1e-6);
  EXPECT_NEAR(failure.detected_s(), failure.time_s() + 0.010, 1e-6);
  EXPECT_NEAR(failure.working_s(), failure.detected_s() + 0.040, 1e-6);
  EXPECT_GT(failure.resumed_s(), failure.working_s() + 6 * 0.040);  // one of them has six
  EXPECT_GT(failure.replaced_s(), failure.time_s() + 1);
  EXPECT_NEAR(report.step_times_s(29), step, 0.01 * step);
  EXPECT_GT(report.breakdown().lost(), 0);
}

TEST(SimBackend, WithoutAReplacementTheJobStaysSmall) {
  const std::vector<std::string> shrink{"policies[0].parameters.how=shrink"};
  const Report report = simulate_example("kill-one-rank.yaml", shrink);
  EXPECT_EQ(report.steps_completed(), 30u);
  EXPECT_FALSE(report.failures(0).has_replaced_s());
  EXPECT_NEAR(report.step_times_s(29), 6 * 0.040, 0.002);
  // Three replicas behave as four: the step that is simulated once equals every step.
  const std::string file = std::string(ORRERY_SOURCE_DIR) + "/examples/kill-one-rank.yaml";
  const Report full = simulate(load_scenario(file, shrink),
                               {.full_detail = true, .record = {}, .timeline = {}});
  EXPECT_GT(full.iterations_simulated(), report.iterations_simulated());
  ASSERT_EQ(full.step_times_s_size(), report.step_times_s_size());
  for (int i = 0; i < full.step_times_s_size(); ++i) {
    EXPECT_NEAR(full.step_times_s(i), report.step_times_s(i), 1e-9) << i;
  }
}

TEST(SimBackend, DownedNicEndsTheRunOnlyWhereItIsUsed) {
  const std::string fault = "faults:\n  - {at_step: 2, rank: 3, link_down: true}\n";
  EXPECT_EQ(simulate(small_scenario(1, 1, 8, fault)).steps_completed(), 6u);
  const Report across = simulate(small_scenario(1, 1, 16, fault));
  EXPECT_EQ(across.steps_completed(), 2u);
  ASSERT_EQ(across.failures_size(), 1);
  EXPECT_EQ(across.failures(0).cause(), "NIC of rank 3 down");
}

std::string at_nanos(double seconds) {
  return "at_time: " + std::to_string(static_cast<long>(seconds * 1e9)) + " ns, ";
}

TEST(SimBackend, ANicThatComesBackIsWaitedFor) {
  const double step = simulate(small_scenario(1, 1, 16)).step_time_s();
  const Nanos up = to_nanos(10 * step);
  const Report report = simulate(small_scenario(
      1, 1, 16, fmt::format("faults:\n  - {{at_step: 2, rank: 3, link_down: true, until_time: {} "
                            "ns}}\n", up)));
  EXPECT_EQ(report.steps_completed(), 6u);
  EXPECT_EQ(report.failures_size(), 0);
  EXPECT_EQ(report.micro_batches_lost(), 0u);
  EXPECT_NEAR(report.elapsed_s(), (10 + 6 - 2) * step, 1e-6);
}

TEST(SimBackend, NicDownedAfterItsLastFlowEndsTheNextStep) {
  const double step = simulate(small_scenario(1, 1, 16)).step_time_s();
  const Report report = simulate(small_scenario(
      1, 1, 16, "faults:\n  - {" + at_nanos(3 * step - 1e-6) + "rank: 3, link_down: true}\n"));
  EXPECT_EQ(report.steps_completed(), 3u);
  ASSERT_EQ(report.failures_size(), 1);
  EXPECT_EQ(report.failures(0).cause(), "NIC of rank 3 down");
}

TEST(SimBackend, KillInWhatASlowdownAddsToItsStepIsNotMissed) {
  const double step = simulate(small_scenario(1, 1, 8)).step_time_s();
  const Report report = simulate(small_scenario(
      1, 1, 8, "faults:\n  - {" + at_nanos(2.2 * step) + "rank: 3, slow: 5}\n" +
                   "  - {" + at_nanos(4 * step) + "rank: 2, kill: true}\n",
      kNoRoom));
  EXPECT_EQ(report.steps_completed(), 2u);
  ASSERT_EQ(report.failures_size(), 1);
  EXPECT_EQ(report.failures(0).cause(), "rank 2 killed");
  EXPECT_NEAR(report.failures(0).time_s(), 4 * step, 1e-6);
}

TEST(SimBackend, KillInWhatNoiseAddsToAStepIsNotMissed) {
  const std::vector<std::string> noise{"noise.compute_cv=0.05", "run.steps=12",
                                       "job.max_share=1", "survival={on_loss: go-on}"};
  const Report calm = simulate(small_scenario(1, 1, 8, {}, noise));
  double until = 0;
  for (int i = 0; i < 11; ++i) until += calm.step_times_s(i);
  const Report report = simulate(small_scenario(
      1, 1, 8, "faults:\n  - {" + at_nanos(until - 1e-5) + "rank: 2, kill: true}\n", noise));
  EXPECT_EQ(report.steps_completed(), 10u);
  ASSERT_EQ(report.failures_size(), 1);
  EXPECT_NEAR(report.failures(0).time_s(), until - 1e-5, 1e-8);
}

TEST(SimBackend, OfTwoKillsInOneStepTheFirstIsTheCause) {
  const double step = simulate(small_scenario(1, 1, 8)).step_time_s();
  const Report report = simulate(small_scenario(
      1, 1, 8, "faults:\n  - {" + at_nanos(2.2 * step) + "rank: 3, kill: true}\n" +
                   "  - {" + at_nanos(2.5 * step) + "rank: 2, kill: true}\n",
      kNoRoom));
  ASSERT_EQ(report.failures_size(), 2) << "who stands still dies, too";
  EXPECT_EQ(report.failures(0).cause(), "rank 3 killed");
}

TEST(SimBackend, NothingCommittedMeansNothingKnown) {
  const Report report = simulate(
      small_scenario(1, 1, 8, "faults:\n  - {at_step: 0, rank: 3, kill: true}\n", kNoRoom));
  EXPECT_EQ(report.steps_completed(), 0u);
  EXPECT_FALSE(report.has_elapsed_s());
  EXPECT_FALSE(report.has_gpu_utilization());
}

TEST(SimBackend, RunBeyondThePolicyClockIsRefused) {
  try {
    simulate(small_scenario(1, 1, 8, {}, {"run.steps=1000000000000"}));
    FAIL() << "3,700 years were simulated";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_THAT(error.message(), ::testing::HasSubstr("285 simulated years"));
  }
}

TEST(SimBackend, NoiseOfALoneReplicaIsComputeNotWaiting) {
  const Report report = simulate(
      small_scenario(1, 1, 1, {}, {"noise.compute_cv=0.05", "run.steps=20"}));
  EXPECT_EQ(report.breakdown().waiting(), 0);
  EXPECT_NEAR(report.breakdown().compute(), 1, 1e-8);  // steps end at whole nanoseconds
  EXPECT_NEAR(report.gpu_utilization(), 1, 1e-8);
}

TEST(SimBackend, SlowdownDuringAStepTakesHalfOfIt) {
  const double step = simulate(small_scenario(1, 1, 8)).step_time_s();
  const std::string at = std::to_string(static_cast<long>(2.5 * step * 1e9)) + " ns";
  const Report report = simulate(
      small_scenario(1, 1, 8, "faults:\n  - {at_time: " + at + ", rank: 3, slow: 2}\n"));
  ASSERT_EQ(report.step_times_s_size(), 6);
  EXPECT_NEAR(report.step_times_s(1), step, 1e-9);
  EXPECT_GT(report.step_times_s(2), 1.3 * step);
  EXPECT_LT(report.step_times_s(2), 1.6 * step);
  EXPECT_GT(report.step_times_s(3), 1.8 * step);
}

TEST(SimBackend, JobThatDoesNotFitSaysWhy) {
  const auto run = [](const std::vector<std::string>& overrides) {
    try {
      simulate(small_scenario(1, 1, 8, {}, overrides));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      return error.message();
    }
    return std::string();
  };
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  EXPECT_THAT(run({"job.model.hidden=16384", "job.model.heads=128",
                   "job.model.feed_forward=65536", "job.bucket=4 GiB"}),
              AllOf(HasSubstr("out of memory: stage 0 needs"), HasSubstr("\n  optimizer "),
                    HasSubstr("\n  activations "), HasSubstr("\n  update "),
                    HasSubstr("\n  reserved         14.1 GiB")));
  EXPECT_THAT(run({"job.layout.data=16", "job.global_batch=128"}), HasSubstr("16 ranks"));
}

TEST(SimBackend, ThousandsOfRanksInFullDetail) {
  const LoadedScenario loaded =
      small_scenario(8, 8, 128, {}, {"run.steps=1", "job.global_batch=128"});
  const Report full = simulate(loaded, {.full_detail = true, .record = {}, .timeline = {}});
  EXPECT_EQ(full.rank_classes(), 128u);
  EXPECT_NEAR(full.step_time_s(), simulate(loaded).step_time_s(), 1e-9);
}

TEST(SimBackend, TimeNeverGoesBackAfterARest) {
  const std::vector<double> seen = numbers_in_child([] {
    const LoadedScenario loaded =
        small_scenario(1, 1, 8, "faults:\n  - {at_step: 4, rank: 3, slow: 2}\n");
    RunRequest request;
    *request.mutable_scenario() = loaded.scenario;
    request.set_full_detail(true);
    const Cluster cluster = build_cluster(loaded.scenario.cluster(), loaded.places);
    const std::unique_ptr<RunBackend> world = simulated_world(request, cluster, {});
    RunBackend& backend = *world;
    backend.begin({.actions = {}, .settings = {}, .tick = 10'000'000});
    std::vector<double> times;
    bool rest = true;
    while (const auto observation = backend.next()) {
      times.push_back(to_seconds(observation->now));
      for (const Event& event : observation->events) {
        if (const auto* done = std::get_if<StepsDone>(&event)) rest = done->last < 3;
      }
      DecisionList nothing;
      if (rest) nothing.rest();
      backend.apply(nothing);
    }
    return times;
  });
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_GT(seen.size(), 40u) << "ticks come back after the rest";
}

// ---- folded against full ------------------------------------------------------------------

struct Shape {
  int tensor, pipeline, data;
  const char* faults;
  double tolerance;  ///< relative; 0: to the nanosecond
};

class FoldedAgainstFull : public ::testing::TestWithParam<Shape> {};

TEST_P(FoldedAgainstFull, StepTimesAgree) {
  const Shape& shape = GetParam();
  const LoadedScenario loaded =
      small_scenario(shape.tensor, shape.pipeline, shape.data, shape.faults);
  const Report folded = simulate(loaded);
  const Report full = simulate(loaded, {.full_detail = true, .record = {}, .timeline = {}});
  EXPECT_EQ(full.iterations_simulated(), full.steps_completed());
  EXPECT_LE(folded.iterations_simulated(), 3u);
  EXPECT_EQ(full.rank_classes(), static_cast<unsigned>(shape.data));
  ASSERT_EQ(folded.step_times_s_size(), full.step_times_s_size());
  for (int i = 0; i < full.step_times_s_size(); ++i) {
    const double slack = shape.tolerance * full.step_times_s(i) + 2e-9;
    EXPECT_NEAR(folded.step_times_s(i), full.step_times_s(i), slack) << "step " << i;
  }
  EXPECT_NEAR(folded.breakdown().compute(), full.breakdown().compute(), 5e-3);
}

constexpr const char* kStraggler = "faults:\n  - {at_step: 3, rank: 5, slow: 2.5}\n";
constexpr const char* kDegraded = "faults:\n  - {at_step: 3, rank: 5, link_slow: 8}\n";

INSTANTIATE_TEST_SUITE_P(
    Scenarios, FoldedAgainstFull,
    ::testing::Values(Shape{1, 1, 8, "", 0}, Shape{8, 1, 4, "", 0}, Shape{8, 1, 8, "", 0},
                      Shape{4, 2, 4, "", 0}, Shape{8, 2, 4, "", 0}, Shape{2, 4, 8, "", 0.005},
                      Shape{1, 1, 64, "", 0.005}, Shape{8, 1, 4, kStraggler, 0},
                      Shape{8, 2, 4, kStraggler, 0.005}, Shape{1, 1, 16, kStraggler, 0.005},
                      Shape{8, 1, 8, kDegraded, 0.005}, Shape{4, 2, 4, kDegraded, 0.005},
                      Shape{1, 1, 16, kDegraded, 0.005}));

/// The straggler's scenario without its fault, under a fixed code.
Report coded(const std::string& codec, const std::vector<std::string>& overrides = {},
             const testing::SimOptions& options = {}) {
  std::vector<std::string> all{
      "faults=[]", "run.steps=20", "noise.compute_cv=0", "live.link_rate=10 MB/s",
      "live.reproducible=false",
      "policies=[{name: fixed-codec, parameters: {warm_up_steps: 5, rules: [{codec: " + codec +
          "}]}}]"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return simulate_example("straggler-4-ranks.yaml", all, "", options);
}

TEST(SimBackend, ACodeHoldsFromTheEndOfTheWarmUpOn) {
  const Report report = coded("int4");
  EXPECT_EQ(report.decisions(), 1u);
  const double before = report.step_times_s(4), after = report.step_times_s(5);
  EXPECT_LT(after, before - 0.05) << "78 ms of fp32 over this link";
  EXPECT_EQ(report.step_times_s(19), after);
  const CodecRule int4{.codec = Codec::int4};
  const double each = 4 * exchange_bytes(int4, builtin_parameter_count(), 4);
  const double plain = 4 * exchange_bytes({}, builtin_parameter_count(), 4);
  EXPECT_NEAR(report.bytes_on_wire(), 5 * plain + 15 * each, 1e-6 * report.bytes_on_wire());
}

TEST(SimBackend, AReportSaysInWhichCodesTheGradientsTravelled) {
  const auto find = [](const Report& report, std::string_view codec) {
    CodecUse found;
    for (const CodecUse& use : report.codecs()) {
      if (use.codec() == codec && use.bucket_class() == "matrices") found = use;
    }
    return found;
  };
  const Report report = coded("bf16");
  const CodecUse plain = find(report, "none"), code = find(report, "bf16");
  EXPECT_GT(plain.gradient_bytes(), 0);
  EXPECT_EQ(code.gradient_bytes(), 3 * plain.gradient_bytes()) << "5 of 20 steps are the warm-up";
  EXPECT_EQ(code.code_bytes(), code.gradient_bytes() / 2);
  EXPECT_EQ(coded("bf16", {"live.reproducible=true"}).codecs_size(), 0) << "whole numbers: no code";

  const std::string fault = "faults=[{at_step: 8, rank: 1, kill: true}]";
  const Report shrunk = coded("bf16", {fault, "survival.replacement=1 h"});
  EXPECT_LT(find(shrunk, "bf16").code_bytes(), code.code_bytes()) << "three send, not four";
  EXPECT_GT(find(shrunk, "bf16").code_bytes(), 0.7 * code.code_bytes());
}

TEST(SimBackend, CodesAreTheSameFoldedAndInFullDetail) {
  const Report folded = coded("bf16");
  const Report full = coded("bf16", {}, {.full_detail = true, .record = {}, .timeline = {}});
  EXPECT_NEAR(folded.elapsed_s(), full.elapsed_s(), 1e-6);
  EXPECT_NEAR(folded.bytes_on_wire(), full.bytes_on_wire(), 1);
}

TEST(SimBackend, ASumInWholeNumbersBearsNoCodes) {
  const Report report = coded("int4", {"live.reproducible=true"});
  EXPECT_EQ(report.step_times_s(19), report.step_times_s(0));
  const double plain = 4 * 2 * exchange_bytes({}, builtin_parameter_count(), 4);
  EXPECT_NEAR(report.bytes_on_wire(), 20 * plain, 1);
}

TEST(SimBackend, MemoryAwareKeepsACodeOnASlowLinkAndTakesItBackOnAFastOne) {
  const auto run = [](const std::string& rate) {
    return simulate_example(
        "straggler-4-ranks.yaml",
        {"faults=[]", "run.steps=120", "noise.compute_cv=0", "live.reproducible=false",
         "live.link_rate=" + rate, "policies=[{name: memory-aware}]"});
  };
  const Report slow = run("5 MB/s"), fast = run("100 GB/s");
  EXPECT_GT(slow.decisions(), 0u);
  EXPECT_LT(slow.step_times_s(119), slow.step_times_s(0) - 0.02);
  EXPECT_EQ(fast.step_times_s(119), fast.step_times_s(0));
}

}  // namespace
}  // namespace orrery::sim
