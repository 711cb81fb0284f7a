#include "policies/run/policy_meter.hpp"

#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "policies/handover/fallback.hpp"

namespace orrery {
namespace {

const auto kNoAnswer = [](int wait_ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
  return false;
};

TEST(PolicyMeter, ACallWithoutAnAnswerIsGivenUpAtItsLimit) {
  PolicyMeter meter;
  int attended = 0;
  meter.set_rules({.timeout = to_nanos(0.1),
                   .name = [] { return std::string("the policy 'mine'"); },
                   .attend = [&] { return ++attended < 0; },
                   .pause_ms = 5});
  EXPECT_FALSE(meter.is_overdue());
  meter.begin_call();
  EXPECT_GE(meter.waiting_s(), 0.0);
  try {
    meter.await_answer(kNoAnswer);
    FAIL() << "there was no answer";
  } catch (const PolicyGivenUp& error) {
    EXPECT_FALSE(error.run_ends());
    EXPECT_EQ(error.message(),
              "expected an answer of the policy 'mine' within 0.1 s, found none; make its calls "
              "shorter, or raise the limit (--policy-timeout, in Python policy_timeout)");
  }
  EXPECT_TRUE(meter.is_overdue());
  meter.end_call();
  EXPECT_FALSE(meter.is_overdue());
  EXPECT_GT(attended, 2);
  EXPECT_GE(meter.total_s(), 0.1);
  EXPECT_FALSE(meter.waiting_s());
}

TEST(PolicyMeter, WithoutLimitItWaitsUntilTheAnswer) {
  PolicyMeter meter;
  int asked = 0;
  meter.begin_call();
  meter.await_answer([&](int wait_ms) {
    EXPECT_EQ(wait_ms, -1);
    return ++asked == 3;  // a signal interrupted the first waits
  });
  EXPECT_FALSE(meter.is_overdue());
  meter.end_call();
  EXPECT_EQ(asked, 3);
}

TEST(PolicyMeter, NoCallsLeaveTheReportAsItIs) {
  HostUse host;
  PolicyMeter().fill(host);
  EXPECT_FALSE(host.has_policy_time_s());
}

}  // namespace
}  // namespace orrery
