// Whole live runs with slow and disconnected hardware: the policy clock shows the effect, and
// nothing is lost. Bounds are from below: a busy machine only takes longer.
#include <string>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/live/live_run.hpp"

namespace orrery::live {
namespace {

/// Four ranks, two micro-batches each, with these faults.
Report run(const std::string& faults, int steps, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"run.steps=" + std::to_string(steps), "faults=[" + faults + "]",
                           brisk_pace(), "job.global_batch=8"});
  return run_in_worker(kProgram, request(more));
}

constexpr double kStep = 2e-3 * kBriskPaceMs;

TEST(FaultRun, AnInstantSlowsTheStepsAfterItAndItsEndMendsThem) {
  // 8 steps are 8 kStep long; from kStep / 2 on rank 1 takes 12 times as long.
  const int steps = 8;
  const std::string at = std::to_string(static_cast<int>(kStep * 1e9 / 2));
  const Report slowed = run("{at_time: " + at + " ns, rank: 1, slow: 12}", steps);
  EXPECT_GT(slowed.elapsed_s(), 5 * 12 * kStep);
  EXPECT_EQ(slowed.steps_completed(), 8u);
  EXPECT_EQ(slowed.faults_injected(), 1u);
  EXPECT_EQ(slowed.failures_size(), 0);
  // A thousand times as long, but only for the time of ten steps.
  const std::string span = std::to_string(static_cast<int>(kStep * 1e9 * 10));
  const Report mended =
      run("{at_time: " + at + " ns, rank: 1, slow: 1000, for: " + span + " ns}", steps);
  EXPECT_GT(mended.elapsed_s(), (5 + steps - 2) * kStep);
  EXPECT_LT(mended.elapsed_s(), 1000 * kStep) << "the step under way went on at full speed";
  EXPECT_EQ(mended.parameters_sha256(), slowed.parameters_sha256());
}

TEST(FaultRun, ASlowLinkIsPacedToItsShare) {
  const int steps = 3;
  const std::string rate = "live.link_rate=100 MB/s";
  const Report whole = run("", steps, {rate});
  const Report slowed = run("{at_step: 0, nic: 1, rate: 0.05}", steps, {rate});
  EXPECT_GT(slowed.elapsed_s(), slowed.bytes_on_wire() / 4 / 5e6);
  EXPECT_EQ(slowed.parameters_sha256(), whole.parameters_sha256());
  const Report by_rank = run("{at_time: 1 ns, rank: 2, link_slow: 20}", steps, {rate});
  EXPECT_GT(by_rank.elapsed_s(), by_rank.bytes_on_wire() / 4 / 5e6);
}

TEST(FaultRun, ALinkThatIsCutIsLinkedUpAgainAndNothingIsLost) {
  const int steps = 12;
  const Report calm = run("", steps);
  const std::string at = std::to_string(static_cast<int>(kStep * 1e9 * 4));
  const std::string until = std::to_string(static_cast<int>(kStep * 1e9 * 30));
  const Report cut =
      run("{at_time: " + at + " ns, rank: 1, link_down: true, until_time: " + until + " ns}",
          steps);
  // The policies' clock, which the fault goes by, starts a little before the first step.
  const double lasts = 29 * kStep;
  EXPECT_GT(cut.elapsed_s(), lasts) << "no step is final while a rank cannot be reached";
  EXPECT_EQ(cut.steps_completed(), 12u);
  EXPECT_EQ(cut.failures_size(), 0);
  EXPECT_EQ(cut.micro_batches_lost(), 0u);
  EXPECT_EQ(cut.parameters_sha256(), calm.parameters_sha256());
  const Report of_step = run("{at_step: 3, nics: 50%, down: true, until_time: " + until + " ns}",
                             steps);
  EXPECT_GT(of_step.elapsed_s(), lasts);
  EXPECT_EQ(of_step.parameters_sha256(), calm.parameters_sha256());
}

TEST(FaultRun, WhatCannotBeInjectedIsRefusedBeforeTheRun) {
  try {
    run("{at_step: 3, rank: 1, link_down: true}", 4);
    ADD_FAILURE() << "the run went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(error.message().find("faults[0].link_down"), std::string::npos) << error.message();
  }
  expect_nothing_left();
}

}  // namespace
}  // namespace orrery::live
