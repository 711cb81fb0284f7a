#include "policies/run/threaded_policy.hpp"

#include <stdexcept>

#include <gtest/gtest.h>

#include "policies/handover/fallback.hpp"
#include "policies/run/replay.hpp"
#include "tests/policies/run/slow_policy.hpp"
#include "tests/policies/toy_log.hpp"

namespace orrery {
namespace {

using toy::SlowShift;
using toy::Turnstile;
constexpr std::chrono::milliseconds kNone{0};

class Threaded : public testing::Test {
 protected:
  /// Drives the toy world with `policy` and records that.
  toy::Recorded drive_toy(Policy& policy, const Scenario& scenario, bool falls_back = false) {
    toy::ToyBackend backend(*cluster_, 40, 1);
    LogHeader header;
    header.set_mode("toy");
    header.set_seed(scenario.run().seed());
    header.set_fall_back(falls_back);
    *header.mutable_scenario() = scenario;
    Recorder recorder(backend, policy, header, {.path = path_});
    Rng rng = policy_rng(scenario.run().seed());
    Context context{rng, {}};
    MeteredPolicy metered(policy, meter_);
    toy::Recorded result{drive(metered, recorder, context), {}, {}};
    recorder.finish_log();
    result.log_sha256 = recorder.log_sha256();
    return result;
  }

  const std::shared_ptr<const Cluster> cluster_ = toy::shared_cluster();
  const toy::TempDir dir_;
  const std::string path_ = dir_ / "log";
  PolicyMeter meter_;
};

TEST_F(Threaded, ThePoliciesSeeAndDecideTheSameAsInTheThreadOfTheRun) {
  for (const char* name : {"predictive-rebalance", "recover", "checkpoint-interval", "static"}) {
    const Scenario scenario = toy::scenario_with(name);
    const toy::Recorded same_thread = toy::record(scenario, dir_ / "same");
    ThreadedPolicy policy(make_stack(scenario, SourceMap{}), cluster_, meter_);
    const toy::Recorded other_thread = drive_toy(policy, scenario);
    EXPECT_EQ(other_thread.log_sha256, same_thread.log_sha256) << name;
    EXPECT_EQ(other_thread.decisions, same_thread.decisions) << name;
  }
}

TEST_F(Threaded, AnExceptionLeavesTheCall) {
  struct Fails : toy::ShiftOnce {
    void observe(Context&, const Observation&, DecisionList&) override {
      throw std::runtime_error("index out of range");
    }
  };
  ThreadedPolicy policy(toy::stack_of(std::make_unique<Fails>()), cluster_, meter_);
  EXPECT_THROW(drive_toy(policy, toy::scenario()), std::runtime_error);
}

TEST_F(Threaded, AHangingPolicyIsGivenUpByNameAndTheLogReplays) {
  const auto turnstile = std::make_shared<Turnstile>();
  const auto stack = toy::stack_of(std::make_unique<SlowShift>(turnstile, 5, kNone));
  ThreadedPolicy threaded(stack, cluster_, meter_);
  FallbackPolicy policy(threaded);
  meter_.set_rules(
      {.timeout = to_nanos(0.2), .name = [&] { return "'" + stack->last_called() + "'"; }});
  drive_toy(policy, toy::scenario(), true);
  EXPECT_NE(policy.failure().find("expected an answer of 'shift-once' within 0.2 s, found none"),
            std::string::npos)
      << policy.failure();
  EXPECT_TRUE(ThreadedPolicy::has_abandoned_threads());
  turnstile->open();  // the policy answers at last, and harms nothing

  std::size_t given_up = 0;
  for (const LogRecord& record : toy::read_log(path_)) {
    given_up += record.call().given_up().empty() ? 0u : 1u;
  }
  EXPECT_EQ(given_up, 1u);
  const ReplayResult replayed =
      replay_log(path_, *toy::stack_of(std::make_unique<toy::ShiftOnce>()));
  EXPECT_EQ(replayed.first_difference, "");
  EXPECT_EQ(replayed.decisions, 0u);  // it was given up before it decided anything
}

TEST_F(Threaded, WithoutFallBackTheErrorEndsTheRun) {
  const auto turnstile = std::make_shared<Turnstile>();
  ThreadedPolicy threaded(toy::stack_of(std::make_unique<SlowShift>(turnstile, 3, kNone)), cluster_,
                          meter_);
  FallbackPolicy policy(threaded, false);
  meter_.set_rules({.timeout = to_nanos(0.1)});
  EXPECT_THROW(drive_toy(policy, toy::scenario()), PolicyGivenUp);
  turnstile->open();
}

TEST_F(Threaded, AnOrderToEndTheRunIsNoErrorOfTheRun) {
  const auto turnstile = std::make_shared<Turnstile>();
  ThreadedPolicy threaded(toy::stack_of(std::make_unique<SlowShift>(turnstile, 3, kNone)), cluster_,
                          meter_);
  FallbackPolicy policy(threaded, false);
  int attended = 0;
  meter_.set_rules({.attend = [&] { return ++attended > 3; }});
  const auto began = std::chrono::steady_clock::now();
  drive_toy(policy, toy::scenario());
  EXPECT_GE(std::chrono::steady_clock::now() - began, PolicyMeter::kEndPatience);
  EXPECT_NE(policy.failure().find("before the end of the run"), std::string::npos);
  turnstile->open();
}

TEST_F(Threaded, TheTimeOfTheCallsIsSummed) {
  ThreadedPolicy policy(
      toy::stack_of(std::make_unique<SlowShift>(nullptr, -1, std::chrono::milliseconds(2))),
      cluster_, meter_);
  drive_toy(policy, toy::scenario());
  HostUse host;
  meter_.fill(host);
  EXPECT_GE(host.policy_time_s(), 40 * 0.002);
  EXPECT_GE(host.policy_time_max_s(), 0.002);
  EXPECT_LT(host.policy_time_max_s(), host.policy_time_s());
  EXPECT_EQ(meter_.waiting_s(), std::nullopt);
}

}  // namespace
}  // namespace orrery
