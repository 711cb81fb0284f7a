#include "live/programs/calibration/step_recording.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/live/programs/calibration/profiles.hpp"

namespace orrery::live {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::vector<RankProfile>& profiles) {
  try {
    measure_step(profiles);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    return error.what();
  }
  return "accepted";
}

/// Returns the seconds of the kernels of one phase.
double seconds_of(const RecordedStep& step, const std::string& phase) {
  double sum = 0;
  for (const RecordedOp& op : step.ops()) {
    for (int i = 0; op.phase() == phase && i < op.kernels_size(); ++i) {
      sum += step.kernels(static_cast<int>(op.kernels(i))).time() * op.counts(i);
    }
  }
  return sum;
}

TEST(StepRecording, TheSlowestRankDecidesBetweenTwoWaits) {
  const MeasuredStep measured =
      measure_step({testing::sample_rank(0, 12), testing::sample_rank(1, 12, 2)});
  EXPECT_EQ(measured.seen_steps, 11u);
  EXPECT_NEAR(measured.duration_s, 28e-3, 1e-9);
  EXPECT_NEAR(seconds_of(measured.step, "forward"), 17e-3, 1e-9);
  EXPECT_NEAR(seconds_of(measured.step, "backward"), 6e-3, 1e-9);
  EXPECT_NEAR(seconds_of(measured.step, "update"), 1e-3, 1e-9);
  EXPECT_NEAR(measured.input_s, 2e-3, 1e-9);
  EXPECT_NEAR(measured.exchange_s, 4e-3, 1e-9);
  EXPECT_EQ(measured.step.parameter_bytes(), 2e6);
}

TEST(StepRecording, EachRankHasItsOwnTimes) {
  const MeasuredStep measured =
      measure_step({testing::sample_rank(0, 12), testing::sample_rank(1, 12, 2)});
  ASSERT_EQ(measured.ranks.size(), 2u);
  EXPECT_NEAR(measured.ranks[0].compute_s, 15e-3, 1e-9);
  EXPECT_NEAR(measured.ranks[0].input_s, 2e-3, 1e-9);
  EXPECT_NEAR(measured.ranks[0].exchange_s, 11e-3, 1e-9);
  EXPECT_NEAR(measured.ranks[1].compute_s, 22e-3, 1e-9);
  EXPECT_NEAR(measured.ranks[1].exchange_s, 4e-3, 1e-9);
}

TEST(StepRecording, CollectivesStartBehindTheirCallAndTheUpdateWaitsForTheNewest) {
  const RecordedStep step =
      measure_step({testing::sample_rank(0, 12), testing::sample_rank(1, 12, 2)}).step;
  std::vector<int> collectives;
  for (int i = 0; i < step.ops_size(); ++i) {
    if (!step.ops(i).collective().empty()) collectives.push_back(i);
  }
  ASSERT_EQ(collectives.size(), 2u);
  for (const int each : collectives) {
    EXPECT_EQ(step.ops(each).collective(), "all_reduce");
    EXPECT_EQ(step.ops(each).bytes(), 1e6);
    EXPECT_EQ(step.ops(each).size(), 2u);
    EXPECT_EQ(step.ops(each).after(0), static_cast<std::uint32_t>(each - 1));
  }
  bool waits = false;
  for (const RecordedOp& op : step.ops()) {
    for (const std::uint32_t before : op.after()) {
      waits = waits || (op.kernels_size() > 0 && static_cast<int>(before) == collectives[1]);
    }
  }
  EXPECT_TRUE(waits);
  EXPECT_EQ(step.micro_batches(), 1u);
  EXPECT_FALSE(step.sharded());
}

TEST(StepRecording, ScatteredGradientsMakeTheStepSharded) {
  std::vector<RankProfile> profiles{testing::sample_rank(0, 12), testing::sample_rank(1, 12, 2)};
  for (RankProfile& profile : profiles) {
    for (ProfiledOperation& each : profile.operations) each.name = "reduce_scatter";
  }
  const RecordedStep step = measure_step(profiles).step;
  EXPECT_TRUE(step.sharded());
  double bytes = 0;
  for (const RecordedOp& op : step.ops()) bytes += op.bytes();
  EXPECT_EQ(bytes, 2 * 2e6);  // sizes of whole buffers
}

TEST(StepRecording, OneCompleteStepIsEnoughIfTheCallerSaysSo) {
  const MeasuredStep measured = measure_step(
      {testing::sample_rank(0, 2), testing::sample_rank(1, 2, 2)}, {.warm_up = 0, .least = 1});
  EXPECT_EQ(measured.seen_steps, 1u);
  EXPECT_NEAR(measured.duration_s, 28e-3, 1e-9);
}

TEST(StepRecording, ProfilesThatMakeNoStepAreRefusedWithTheReason) {
  EXPECT_THAT(refusal({testing::sample_rank(0, 4)}),
              HasSubstr("at least 5 complete steps, found 3"));
  std::vector<RankProfile> other{testing::sample_rank(0, 12), testing::sample_rank(1, 12)};
  for (ProfiledOperation& each : other[1].operations) each.bytes = 5;
  EXPECT_THAT(refusal(other), HasSubstr("the same operations in all ranks"));
  RankProfile messages = testing::sample_rank(0, 12);
  for (ProfiledOperation& each : messages.operations) each.name = "all_to_all";
  EXPECT_THAT(refusal({messages}), HasSubstr("found all_to_all"));
  RankProfile irregular = testing::sample_rank(0, 12);
  for (ProfiledOperation& each : irregular.operations) each.members = {0, 1, 3};
  EXPECT_THAT(refusal({irregular}), HasSubstr("found the ranks 0, 1, 3"));
}

}  // namespace
}  // namespace orrery::live
