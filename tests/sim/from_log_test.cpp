// Simulations that continue from a log.
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "policies/record/past.hpp"
#include "policies/run/choose.hpp"
#include "policies/run/outside_policies.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/replay.hpp"
#include "policies/run/worker.hpp"
#include "tests/policies/temp_dir.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::sim {
namespace {

const std::string kSim = ORRERY_BINARY_DIR "/bin/orrery-sim";

class FromLog : public testing::Test {
 protected:
  RunRequest example(const std::string& file, const std::vector<std::string>& overrides = {},
                     const std::string& policy = {}) {
    RunRequest request;
    *request.mutable_scenario() =
        load_scenario(ORRERY_SOURCE_DIR "/examples/" + file, overrides).scenario;
    if (!policy.empty()) choose_policy(*request.mutable_scenario(), policy);
    return request;
  }
  Report recorded(RunRequest request) {
    request.set_record(log_);
    return run_in_worker(kSim, request);
  }
  RunRequest from(RunRequest request, double at_s) {
    request.mutable_from()->set_path(log_);
    if (at_s > 0) request.mutable_from()->set_until(to_nanos(at_s));
    return request;
  }
  ErrorKind refusal(const RunRequest& request, const std::string& said) {
    try {
      run_in_worker(kSim, request);
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(said), std::string::npos) << error.message();
      return error.kind();
    }
    ADD_FAILURE() << "it went on";
    return ErrorKind::internal;
  }

  const toy::TempDir dir_;
  const std::string log_ = dir_ / "log";
};

/// The log contains only the sum of steps that were reported together.
void expect_equal_times(const Report& report, const Report& expected) {
  ASSERT_EQ(report.step_times_s_size(), expected.step_times_s_size());
  double sum = 0, expected_sum = 0;
  for (int i = 0; i < report.step_times_s_size(); ++i) {
    sum += report.step_times_s(i);
    expected_sum += expected.step_times_s(i);
    if (i < 9) continue;
    EXPECT_NEAR(sum, expected_sum, 1e-6) << "after step " << i;
  }
}

TEST_F(FromLog, ARunOfItsOwnLogEndsAsItWouldHave) {
  for (const char* policy : {"static", "predictive-rebalance"}) {
    const RunRequest request = example("straggler-4-ranks.yaml", {}, policy);
    const Report whole = recorded(request);
    for (const double at_s : {0.5, 2.1, 6.0, 11.0}) {
      SCOPED_TRACE(fmt::format("{} from {} s", policy, at_s));
      const Report rest = run_in_worker(kSim, from(request, at_s));
      EXPECT_EQ(rest.steps_completed(), whole.steps_completed());
      EXPECT_NEAR(rest.elapsed_s(), whole.elapsed_s(), 0.03 * whole.elapsed_s());
      EXPECT_EQ(rest.micro_batches_lost(), 0u);
      if (std::string(policy) != "static") continue;
      expect_equal_times(rest, whole);
      EXPECT_NEAR(rest.elapsed_s(), whole.elapsed_s(), 1e-6);
    }
  }
}

TEST_F(FromLog, WhatWasDecidedHolds) {
  const RunRequest request = example("straggler-4-ranks.yaml");
  recorded(request);
  RunRequest rest = from(request, 9);
  choose_policy(*rest.mutable_scenario(), "static");
  const Report report = run_in_worker(kSim, rest);
  EXPECT_EQ(report.steps_completed(), 40u);
  for (int step = 15; step < 40; ++step) EXPECT_LT(report.step_times_s(step), 0.55) << step;
}

TEST_F(FromLog, AnotherPolicyTakesOver) {
  const RunRequest request = example("straggler-4-ranks.yaml", {}, "static");
  const Report whole = recorded(request);
  RunRequest rest = from(request, 15);
  choose_policy(*rest.mutable_scenario(), "predictive-rebalance");
  const Report report = run_in_worker(kSim, rest);
  EXPECT_GE(report.decisions(), 1u);
  EXPECT_LT(report.elapsed_s(), 0.8 * whole.elapsed_s());
  EXPECT_GT(report.step_times_s(15), 1.0);
  EXPECT_LT(report.step_times_s(39), 0.6);
}

TEST_F(FromLog, ALostRankIsStillLostAndIsReplaced) {
  const RunRequest request = example("kill-one-rank.yaml");
  const Report whole = recorded(request);
  ASSERT_GE(whole.failures_size(), 1);
  const FailureReport& loss = whole.failures(0);
  for (const double at_s : {loss.detected_s() + 0.001, loss.resumed_s() + 0.001}) {
    SCOPED_TRACE(at_s);
    const Report rest = run_in_worker(kSim, from(request, at_s));
    EXPECT_EQ(rest.steps_completed(), whole.steps_completed());
    EXPECT_EQ(rest.failures_size(), 0) << "the kill has struck";
    EXPECT_NEAR(rest.elapsed_s(), whole.elapsed_s(), 2.5);
    EXPECT_NEAR(rest.step_times_s(rest.step_times_s_size() - 1),
                whole.step_times_s(whole.step_times_s_size() - 1), 0.05);
  }
}

TEST_F(FromLog, WhatComesOfItReplays) {
  const RunRequest request = example("straggler-4-ranks.yaml");
  recorded(request);
  RunRequest rest = from(request, 6);
  rest.set_record(dir_ / "rest");
  run_in_worker(kSim, rest);
  EXPECT_EQ(replay_log(dir_ / "rest", {}).first_difference, "");
  choose_policy(*rest.mutable_scenario(), "static");
  EXPECT_EQ(refusal(rest, "cannot be recorded"), ErrorKind::usage);
}

TEST_F(FromLog, HasFutures) {
  const RunRequest request = example("straggler-4-ranks.yaml", {}, "static");
  recorded(request);
  RunRequest rest = from(request, 10);
  rest.mutable_futures()->set_count(3);
  rest.mutable_futures()->set_at(to_nanos(10));
  for (const char* name : {"static", "predictive-rebalance"}) {
    rest.mutable_futures()->add_choices()->add_policies()->set_name(name);
  }
  const FuturesReport all = run_futures(kSim, rest);
  ASSERT_EQ(all.futures_size(), 6);
  EXPECT_GT(all.begun().steps_completed(), 10u);
  for (int i = 0; i < 6; i += 2) {
    EXPECT_GT(all.futures(i + 1).goodput_ahead(), 1.2 * all.futures(i).goodput_ahead());
  }
}

/// A policy of the client continues as that policy of the run's own process does.
TEST_F(FromLog, PoliciesOfTheClientContinueAlike) {
  const RunRequest request = example("straggler-4-ranks.yaml", {}, "static");
  recorded(request);
  for (const char* name : {"static", "predictive-rebalance"}) {
    RunRequest rest = from(request, 10);
    choose_policy(*rest.mutable_scenario(), name);
    const Report native = run_in_worker(kSim, rest);
    const Scenario scenario = rest.scenario();
    const auto policy =
        outside_succession(rest, {.make = [scenario] { return make_stack(scenario, SourceMap{}); },
                                  .replace_scenario = false});
    EXPECT_EQ(rest.policy_outside_heirs(), std::string(name) != "static");
    const Report outside = run_in_worker(kSim, rest, policy.get());
    EXPECT_EQ(outside.decision_trace_sha256(), native.decision_trace_sha256()) << name;
    EXPECT_EQ(outside.elapsed_s(), native.elapsed_s()) << name;
  }
}

TEST_F(FromLog, OtherClustersAndOtherFilesAreRefused) {
  const RunRequest request = example("straggler-4-ranks.yaml");
  recorded(request);
  EXPECT_EQ(refusal(from(example("llama3-70b-512-h100.yaml"), 5), "recorded with"),
            ErrorKind::bad_input);
  EXPECT_EQ(refusal(from(example("allreduce-ring-1024.yaml"), 5), "recorded with"),
            ErrorKind::bad_input);
  toy::write_file(log_, "no log at all");
  EXPECT_EQ(refusal(from(request, 5), "is cut short"), ErrorKind::bad_input);
  std::filesystem::remove(log_);
  EXPECT_EQ(refusal(from(request, 5), "cannot be read"), ErrorKind::bad_input);
}

TEST_F(FromLog, ALogThatIsCutOffIsGoneOnWithWhereItEnds) {
  const RunRequest request = example("straggler-4-ranks.yaml", {}, "static");
  const Report whole = recorded(request);
  const std::string bytes = toy::read_file(log_);
  toy::write_file(log_, bytes.substr(0, bytes.size() - 40));
  const Report rest = run_in_worker(kSim, from(request, 3));
  expect_equal_times(rest, whole);
}

}  // namespace
}  // namespace orrery::sim
