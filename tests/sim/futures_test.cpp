// Futures of simulated runs: common parts with the run, and differences.
#include "policies/run/futures.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "policies/record/recorder.hpp"
#include "policies/run/choose.hpp"
#include "policies/run/outside_policies.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/worker.hpp"
#include "tests/policies/temp_dir.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::sim {
namespace {

const std::string kSim = ORRERY_BINARY_DIR "/bin/orrery-sim";

RunRequest example(const std::string& file, const std::vector<std::string>& overrides) {
  RunRequest request;
  *request.mutable_scenario() =
      load_scenario(ORRERY_SOURCE_DIR "/examples/" + file, overrides).scenario;
  return request;
}

RunRequest with_futures(RunRequest request, std::uint32_t count, double at_s, double until_s = 0) {
  request.mutable_futures()->set_count(count);
  request.mutable_futures()->set_at(to_nanos(at_s));
  request.set_until(to_nanos(until_s));
  return request;
}

std::string plain(Report report) {
  report.clear_host();
  return report.SerializeAsString();
}

/// Future 0 is the run without futures: the same report, log and hashes; the others are not.
void expect_first_unforked(RunRequest request, std::uint32_t count, double at_s,
                           double until_s = 0) {
  SCOPED_TRACE(fmt::format("at {} s, until {} s", at_s, until_s));
  const toy::TempDir dir;
  RunRequest forked = with_futures(request, count, at_s, until_s);
  forked.set_record(dir / "forked");
  request.set_until(to_nanos(until_s));
  request.set_record(dir / "alone");
  const FuturesReport all = run_futures(kSim, forked);
  const Report alone = run_in_worker(kSim, request);
  ASSERT_EQ(all.futures_size(), static_cast<int>(count));
  EXPECT_EQ(plain(all.futures(0).report()), plain(alone));
  EXPECT_EQ(all.futures(0).report().decision_log_sha256(), alone.decision_log_sha256());
  EXPECT_EQ(toy::read_file(dir / "forked"), toy::read_file(dir / "alone"));
  for (std::uint32_t i = 1; i < count; ++i) {
    const Report& other = all.futures(static_cast<int>(i)).report();
    EXPECT_NE(other.decision_log_sha256(), alone.decision_log_sha256()) << "future " << i;
    EXPECT_NE(other.elapsed_s(), alone.elapsed_s()) << "future " << i;
  }
}

const std::vector<std::string> kNoise{"noise.compute_cv=0.03", "noise.sample_cv=0.02"};

std::vector<std::string> noisy(std::vector<std::string> more) {
  more.insert(more.end(), kNoise.begin(), kNoise.end());
  return more;
}

TEST(SimFutures, TheFirstIsTheUnforkedRunByteForByte) {
  // In a watched step, at rest in the midst of steps that are advanced at once, at the beginning.
  const RunRequest request = example("straggler-4-ranks.yaml", kNoise);
  for (const double at_s : {0.0, 3.3, 12.0}) expect_first_unforked(request, 3, at_s);
}

TEST(SimFutures, TheFirstIsTheUnforkedRunOf512GpusWithFaults) {
  const RunRequest request = example(
      "llama3-70b-512-h100.yaml",
      noisy({"run.steps=400",
             "faults=[{at_step: 60, rank: 17, slow: 1.3, until_step: 90}, "
             "{at_time: 30 min, rank: 5, kill: true}, {at_time: 50 min, rank: 40, kill: true}]",
             "policies=[{name: recover}]"}));
  for (const double at_s : {60.0, 1000.0, 1801.0}) {
    expect_first_unforked(request, 3, at_s);
    expect_first_unforked(request, 3, at_s, at_s + 1000);
  }
}

TEST(SimFutures, TheFirstIsTheUnforkedRunWithoutAnyNoise) {
  RunRequest request = example("llama3-70b-512-h100.yaml", {"run.steps=100"});
  const toy::TempDir dir;
  request.set_record(dir / "alone");
  const Report alone = run_in_worker(kSim, request);
  request.set_record(dir / "forked");
  const FuturesReport all = run_futures(kSim, with_futures(request, 2, 200));
  EXPECT_EQ(plain(all.futures(0).report()), plain(alone));
  EXPECT_EQ(plain(all.futures(1).report()), plain(alone)) << "nothing is random";
  EXPECT_EQ(toy::read_file(dir / "forked"), toy::read_file(dir / "alone"));
}

/// Steps that go by at once are counted up to the instant.
TEST(SimFutures, WhatLiesAheadBeginsAtTheInstant) {
  const double at_s = 1000, until_s = 2000;
  const FuturesReport all =
      run_futures(kSim, with_futures(example("llama3-70b-512-h100.yaml", {}), 2, at_s, until_s));
  const double step_s = all.futures(1).report().step_time_s();
  EXPECT_EQ(all.begun().steps_completed(), static_cast<std::uint64_t>(at_s / step_s));
  EXPECT_NEAR(static_cast<double>(all.futures(1).steps_ahead()), (until_s - at_s) / step_s, 1);
}

TEST(SimFutures, WhatCameBeforeIsTheSameInAll) {
  const double at_s = 8;
  const FuturesReport all =
      run_futures(kSim, with_futures(example("straggler-4-ranks.yaml", kNoise), 6, at_s));
  const Report& first = all.futures(0).report();
  for (const FutureEnd& future : all.futures()) {
    double ended = 0;
    for (int i = 0; i < first.step_times_s_size(); ++i) {
      ended += first.step_times_s(i);
      if (ended > at_s) break;
      EXPECT_EQ(future.report().step_times_s(i), first.step_times_s(i));
    }
  }
}

TEST(SimFutures, PoliciesMeetTheSameRandomness) {
  // Two names of one policy: only the randomness makes a difference.
  RunRequest request = with_futures(example("straggler-4-ranks.yaml", kNoise), 4, 5.0);
  for (int i = 0; i < 2; ++i) {
    request.mutable_futures()->add_choices()->add_policies()->set_name("static");
  }
  const FuturesReport all = run_futures(kSim, request);
  ASSERT_EQ(all.futures_size(), 8);
  for (int i = 0; i < 8; i += 2) {
    EXPECT_EQ(plain(all.futures(i).report()), plain(all.futures(i + 1).report()));
    if (i == 0) continue;
    EXPECT_NE(plain(all.futures(i).report()), plain(all.futures(0).report()));
  }
}

TEST(SimFutures, ABetterPolicyIsBetterInEach) {
  RunRequest request = example("straggler-4-ranks.yaml", kNoise);
  choose_policy(*request.mutable_scenario(), "static");
  request = with_futures(request, 5, 10.0);
  for (const char* name : {"static", "predictive-rebalance"}) {
    request.mutable_futures()->add_choices()->add_policies()->set_name(name);
  }
  const FuturesReport all = run_futures(kSim, request);
  ASSERT_EQ(all.futures_size(), 10);
  for (int i = 0; i < 10; i += 2) {
    EXPECT_EQ(all.futures(i).report().decisions(), 0u);
    EXPECT_GE(all.futures(i + 1).report().decisions(), 1u);
    EXPECT_GT(all.futures(i + 1).goodput_ahead(), 1.2 * all.futures(i).goodput_ahead());
  }
}

TEST(SimFutures, AGivenDecisionIsTakenAtTheInstant) {
  RunRequest request = example("straggler-4-ranks.yaml", {});
  choose_policy(*request.mutable_scenario(), "static");
  request = with_futures(request, 1, 10.0);
  request.mutable_futures()->add_choices();
  DecisionRecord& decision = *request.mutable_futures()->add_choices()->add_decisions();
  for (const std::uint32_t share : {12, 12, 4, 12}) {
    decision.mutable_configure()->mutable_what()->mutable_shares()->add_per_replica(share);
  }
  const FuturesReport all = run_futures(kSim, request);
  ASSERT_EQ(all.futures_size(), 2);
  EXPECT_EQ(all.futures(0).report().decisions(), 0u);
  EXPECT_EQ(all.futures(1).report().decisions(), 1u);
  EXPECT_GT(all.futures(1).goodput_ahead(), 1.2 * all.futures(0).goodput_ahead());
}

/// Policies of this process, of which `heirs` take over at the instant of a future.
FuturePolicies outside(const Scenario& scenario, const std::vector<std::string>& heirs) {
  const auto of = [scenario](const std::string& name) {
    Scenario chosen = scenario;
    if (!name.empty()) choose_policy(chosen, name);
    return [chosen] { return make_stack(chosen, SourceMap{}); };
  };
  return [of, heirs](RunRequest& request, std::optional<int> choice) {
    const bool changes = choice && request.futures().choices(*choice).outside();
    const OutsidePolicies own{.make = of(""), .replace_scenario = false};
    return outside_succession(
        request, own,
        changes ? StackMaker(of(heirs[static_cast<std::size_t>(*choice)])) : StackMaker{});
  };
}

void expect_equal_ends(const FuturesReport& all, const FuturesReport& others) {
  ASSERT_EQ(all.futures_size(), others.futures_size());
  EXPECT_EQ(all.begun().steps_completed(), others.begun().steps_completed());
  EXPECT_EQ(all.begun().elapsed_s(), others.begun().elapsed_s());
  for (int i = 0; i < all.futures_size(); ++i) {
    Report one = all.futures(i).report(), other = others.futures(i).report();
    EXPECT_EQ(one.decision_trace_sha256(), other.decision_trace_sha256()) << i;
    for (Report* each : {&one, &other}) each->clear_host(), each->clear_decision_log_sha256();
    EXPECT_EQ(one.SerializeAsString(), other.SerializeAsString()) << i;
    EXPECT_EQ(all.futures(i).goodput_ahead(), others.futures(i).goodput_ahead()) << i;
  }
}

TEST(SimFutures, PoliciesOfTheClientHaveTheSameFutures) {
  const RunRequest request = with_futures(example("straggler-4-ranks.yaml", kNoise), 3, 8.0);
  expect_equal_ends(run_outside_futures(kSim, request, outside(request.scenario(), {})),
                    run_futures(kSim, request));
}

/// The second choice continues with the state that the run's policy of the same name has learned.
TEST(SimFutures, HeirsOfTheClientHaveTheSameFutures) {
  RunRequest request = with_futures(example("straggler-4-ranks.yaml", kNoise), 2, 7.5);
  const Scenario scenario = request.scenario();
  const std::vector<std::string> names{"static", "predictive-rebalance"};
  RunRequest beside = request;
  for (const std::string& name : names) {
    Scenario chosen = scenario;
    choose_policy(chosen, name);
    *request.mutable_futures()->add_choices()->mutable_policies() = chosen.policies();
    beside.mutable_futures()->add_choices()->set_outside(true);
  }
  expect_equal_ends(run_outside_futures(kSim, beside, outside(scenario, names)),
                    run_futures(kSim, request));
}

/// Fails when it is called.
class Broken : public Policy {
  Needs needs() const override { return {}; }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  void observe(Context&, const Observation&, DecisionList&) override {
    throw Error(ErrorKind::bad_input, "broken");
  }
};

std::unique_ptr<PolicyStack> broken_stack() {
  std::vector<PolicyStack::Member> members;
  members.push_back(
      {.name = "broken", .policy = std::make_unique<Broken>(), .parameters = nullptr});
  return std::make_unique<PolicyStack>(std::move(members));
}

TEST(SimFutures, AFailureOfAClientsPolicyIsThatOfItsFuture) {
  RunRequest request = with_futures(example("straggler-4-ranks.yaml", kNoise), 1, 8.0);
  request.mutable_futures()->add_choices();
  request.mutable_futures()->add_choices()->set_outside(true);
  const auto policies = [](RunRequest& one, std::optional<int> choice) -> std::unique_ptr<Policy> {
    if (choice.value_or(0) == 0) return nullptr;
    const Scenario scenario = one.scenario();
    return outside_succession(one,
                              {.make = [scenario] { return make_stack(scenario, SourceMap{}); },
                               .replace_scenario = false},
                              broken_stack);
  };
  const FuturesReport all = run_outside_futures(kSim, request, policies);
  ASSERT_EQ(all.futures_size(), 2);
  EXPECT_TRUE(all.futures(0).has_report());
  EXPECT_EQ(all.futures(1).failure().message(), "broken");
}

TEST(SimFutures, EndWhereTheyAreToldTo) {
  const FuturesReport all =
      run_futures(kSim, with_futures(example("straggler-4-ranks.yaml", kNoise), 3, 5.0, 15.0));
  for (const FutureEnd& future : all.futures()) {
    EXPECT_LE(future.report().elapsed_s(), 15.0);
    EXPECT_GT(future.report().elapsed_s(), 12.0);
    EXPECT_FALSE(future.has_end_s());
    EXPECT_GT(future.goodput_ahead(), 0);
  }
}

TEST(SimFutures, ATraceHasNone) {
  const RunRequest request = with_futures(example("allreduce-ring-1024.yaml", {}), 2, 0);
  EXPECT_THROW(run_futures(kSim, request), Error);
}

}  // namespace
}  // namespace orrery::sim
