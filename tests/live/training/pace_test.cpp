#include "live/training/pace.hpp"

#include <chrono>

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

using std::chrono::seconds;

constexpr Nanos kThousandSeconds = 1000 * kNanosPerSecond;

TEST(Pace, ADeadlineCountsFromTheStepsStartAndFollowsTheSpeed) {
  Pace pace(kThousandSeconds);
  const Clock::time_point start = Clock::now();
  pace.begin_step(start);
  pace.begin_micro_batch(2);
  EXPECT_EQ(pace.deadline(), start + seconds(2000));
  pace.set_speed(2);
  EXPECT_GE(pace.deadline(), start + seconds(1000));
  EXPECT_LE(pace.deadline(), Clock::now() + seconds(1000));
}

TEST(Pace, TheBackwardPassIsTheLastTwoThirdsOfAMicroBatch) {
  Pace pace(3 * kThousandSeconds);
  const Clock::time_point start = Clock::now();
  pace.begin_step(start);
  pace.begin_micro_batch(1);
  const auto [begin, end] = pace.backward_pass();
  EXPECT_EQ(begin, start + seconds(1000));
  EXPECT_EQ(end, start + seconds(3000));
  pace.begin_step(start - seconds(9000));
  pace.begin_micro_batch(1);
  const auto late = pace.backward_pass();
  EXPECT_GE(late.begin, start) << "what is over is not waited for";
  EXPECT_EQ(late.end, late.begin);
}

TEST(Pace, AnInterruptHoldsUntilItIsTakenBack) {
  Pace pace(kThousandSeconds);
  pace.begin_step(Clock::now());
  pace.begin_micro_batch(1);
  pace.interrupt_waits();
  EXPECT_THROW(pace.wait(), Stopped);
  EXPECT_THROW(pace.throw_if_interrupted(), Stopped);
  pace.resume_waits();
  EXPECT_NO_THROW(pace.throw_if_interrupted());
}

TEST(Pace, OnlySeveralStepsInARowBeyondItAreTooMany) {
  Pace pace(1000);
  pace.begin_step(Clock::now());
  pace.begin_micro_batch(1);
  for (int i = 0; i < 2; ++i) EXPECT_NO_THROW(pace.check_pace(1, 7, 2000));
  EXPECT_NO_THROW(pace.check_pace(1, 7, 1000));
  for (int i = 0; i < 2; ++i) EXPECT_NO_THROW(pace.check_pace(1, 7, 2000));
  try {
    pace.check_pace(1, 7, 2000);
    FAIL();
  } catch (const PaceMissed& error) {
    EXPECT_NE(error.message().find("rank 1 needed 0.0 ms of CPU in step 7"), std::string::npos)
        << error.message();
  }
}

}  // namespace
}  // namespace orrery::live
