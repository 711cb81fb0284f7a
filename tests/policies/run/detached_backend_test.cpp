#include "policies/run/detached_backend.hpp"

#include <gtest/gtest.h>

#include "policies/handover/fallback.hpp"
#include "policies/handover/hand_over.hpp"
#include "policies/run/replay.hpp"
#include "tests/policies/run/slow_policy.hpp"
#include "tests/policies/toy_log.hpp"

namespace orrery {
namespace {

using std::chrono::milliseconds;
using toy::PacedToy;
using toy::SlowShift;
using toy::Turnstile;

/// Run in mode shadow whose policies decide in a thread of their own.
class Detached : public testing::Test {
 protected:
  void run(std::shared_ptr<PolicyStack> stack, milliseconds interval, Nanos timeout = 0) {
    PacedToy world(*cluster_, interval);
    DetachedBackend detached(world, world, {});
    meter_.set_rules(
        {.timeout = timeout, .attend = [&] { return detached.advance_run(); }, .pause_ms = 1});
    ThreadedPolicy threaded(std::move(stack), cluster_, meter_);
    FallbackPolicy policy(threaded);
    MeteredPolicy metered(policy, meter_);
    HandOver handed_over(detached, {.mode = HandOverMode::shadow});
    LogHeader header;
    header.set_mode("toy");
    header.set_fall_back(true);
    *header.mutable_scenario() = toy::scenario();
    Recorder recorder(handed_over, policy, header, {.path = path_});
    Rng rng = policy_rng(header.seed());
    Context context{rng, {}};
    decisions_ = drive(metered, recorder, context);
    recorder.finish_log();
    steps_ = world.world().jobs()[{0}].step;
    took_s_ = world.took_s();
    failure_ = policy.failure();
    shares_ = world.world().jobs()[{0}].shares();
  }
  /// Returns the first difference of a replay with policies that answer at once.
  std::string replayed(std::unique_ptr<Policy> policy) {
    return replay_log(path_, *toy::stack_of(std::move(policy))).first_difference;
  }

  const std::shared_ptr<const Cluster> cluster_ = toy::shared_cluster();
  const toy::TempDir dir_;
  const std::string path_ = dir_ / "log";
  PolicyMeter meter_;
  std::uint64_t decisions_ = 0;
  Step steps_ = 0;
  double took_s_ = 0;
  std::string failure_;
  std::vector<std::uint32_t> shares_;
};

TEST_F(Detached, QuickPoliciesSeeEveryObservation) {
  run(toy::stack_of(std::make_unique<toy::ShiftOnce>()), milliseconds(2));
  EXPECT_EQ(steps_, 40u);
  EXPECT_EQ(decisions_, 1u);
  EXPECT_EQ(shares_, (std::vector<std::uint32_t>{10, 10, 10, 10}));  // observed, not applied
  EXPECT_EQ(failure_, "");
  EXPECT_EQ(replayed(std::make_unique<toy::ShiftOnce>()), "");
}

TEST_F(Detached, TheRunDoesNotWaitForSlowPolicies) {
  run(toy::stack_of(std::make_unique<SlowShift>(nullptr, -1, milliseconds(400))), milliseconds(5));
  const auto calls = static_cast<double>(toy::read_log(path_).back().footer().calls());
  EXPECT_EQ(steps_, 40u);
  EXPECT_EQ(decisions_, 1u);
  // 40 steps and as many ticks, of which the policies see a few together.
  EXPECT_LT(calls, 40);
  EXPECT_GE(calls, 3);
  EXPECT_LT(took_s_, 0.6 * 0.4 * 80);  // all calls one after the other
  EXPECT_EQ(replayed(std::make_unique<toy::ShiftOnce>()), "");
}

TEST_F(Detached, AHangingPolicyHoldsUpNeitherTheRunNorItsEnd) {
  const auto turnstile = std::make_shared<Turnstile>();
  run(toy::stack_of(std::make_unique<SlowShift>(turnstile, 0, milliseconds(0))), milliseconds(2));
  EXPECT_EQ(steps_, 40u);
  EXPECT_LT(took_s_, 4.0);  // the call has no limit
  EXPECT_NE(failure_.find("before the end of the run, found none"), std::string::npos) << failure_;
  EXPECT_EQ(replayed(std::make_unique<toy::ShiftOnce>()), "");
  turnstile->open();
}

TEST_F(Detached, TheLimitOfACallHoldsInShadowToo) {
  const auto turnstile = std::make_shared<Turnstile>();
  run(toy::stack_of(std::make_unique<SlowShift>(turnstile, 4, milliseconds(0))), milliseconds(10),
      to_nanos(0.1));
  EXPECT_EQ(steps_, 40u);
  EXPECT_NE(failure_.find("within 0.1 s, found none"), std::string::npos) << failure_;
  EXPECT_EQ(replayed(std::make_unique<toy::ShiftOnce>()), "");
  turnstile->open();
}

}  // namespace
}  // namespace orrery
