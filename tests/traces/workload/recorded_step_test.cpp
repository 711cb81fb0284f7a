// Consequences of a recording: defaults, groups of ranks, layouts that fit.
#include "traces/workload/recorded_step.hpp"

#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/traces/recorded_job.hpp"

namespace orrery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> problems(const Job& job) {
  std::vector<std::string> out;
  for (const Problem& each : job_problems(job)) out.push_back(each.path + ": " + each.message);
  return out;
}

/// Returns the job of a recorded step with all defaults.
Job laid_out(const RecordedStep& step) { return StepGraph(recorded_job(step)).job(); }

TEST(RecordedStep, DefaultsFollowFromTheRecording) {
  const Job job = recorded_job(recorded_step(true), 0);
  EXPECT_EQ(job.layout().data(), 8u);
  EXPECT_EQ(job.layout().shard(), "parameters");
  EXPECT_EQ(job.global_batch(), 8u);
  EXPECT_EQ(job.sequence_length(), 2048u);
  EXPECT_EQ(job.gradient_bytes(), 2u);
  EXPECT_EQ(job.model().recorded().matrices(), 8e6);
}

TEST(RecordedStep, WrittenValuesStay) {
  Job job = recorded_job(recorded_step(), 16, 64);
  job.set_sequence_length(7);
  complete_program(job);
  EXPECT_EQ(job.layout().data(), 16u);
  EXPECT_EQ(job.global_batch(), 64u);
  EXPECT_EQ(job.sequence_length(), 7u);
  EXPECT_EQ(recorded_data(job), 8u);
}

TEST(RecordedStep, KeysThatTheRecordingDeterminesAreFound) {
  Job job;
  job.mutable_program();
  job.mutable_layout();
  job.set_global_batch(8);
  EXPECT_THAT(keys_beside_program(job), IsEmpty());
  job.set_recompute("full");
  job.set_precision("bf16");  // the default
  job.mutable_model();
  EXPECT_THAT(keys_beside_program(job), ElementsAre("recompute"));
  job.mutable_model()->set_layers(2);
  EXPECT_THAT(keys_beside_program(job), ElementsAre("model", "recompute"));
}

TEST(RecordedStep, GroupsBelongToCommunicators) {
  Job job = recorded_job(recorded_step(true), 8);
  RecordedOp op;
  const auto which = [&](std::uint32_t size, std::uint32_t stride, const char* kind) {
    op.set_size(size);
    op.set_stride(stride);
    op.set_collective(kind);
    return recorded_communicator(job, op);
  };
  EXPECT_EQ(which(8, 1, "all_reduce"), Communicator::gradient);
  EXPECT_EQ(which(8, 1, "reduce_scatter"), Communicator::shard);
  EXPECT_EQ(which(4, 1, "all_reduce"), std::nullopt);
  job.mutable_layout()->set_shard_group(4);
  EXPECT_EQ(which(4, 1, "all_gather"), Communicator::shard);
  EXPECT_EQ(which(2, 4, "all_reduce"), Communicator::replicate);
  job.mutable_layout()->clear_shard_group();
  job.mutable_layout()->set_tensor(2);
  EXPECT_EQ(which(2, 1, "all_reduce"), Communicator::tensor);
  EXPECT_EQ(which(4, 2, "reduce_scatter"), Communicator::shard);
  op.set_bytes(4);
  EXPECT_EQ(which(8, 1, "all_reduce"), Communicator::gradient);  // a norm among all ranks
  op.set_bytes(1e6);
  EXPECT_EQ(which(8, 1, "all_reduce"), std::nullopt);
}

TEST(RecordedStep, ShareOfTheStateFollowsTheGroup) {
  EXPECT_EQ(recorded_share(recorded_job(recorded_step(), 32)), 1);
  EXPECT_EQ(recorded_share(recorded_job(recorded_step(true), 32)), 0.25);
  Job hybrid = recorded_job(recorded_step(true), 32);
  hybrid.mutable_layout()->set_shard_group(8);
  EXPECT_EQ(recorded_share(hybrid), 1);
}

TEST(RecordedStep, OtherLayoutsAreRefusedWithTheReason) {
  Job job = laid_out(recorded_step());
  EXPECT_THAT(problems(job), IsEmpty());
  job.mutable_layout()->set_pipeline(2);
  EXPECT_THAT(problems(job), ElementsAre(HasSubstr("layout.pipeline: expected 1, as recorded")));
  job.mutable_layout()->set_pipeline(1);
  job.mutable_layout()->set_tensor(2);
  EXPECT_THAT(problems(job), ElementsAre(HasSubstr("among the ranks 0, 1, ... (8 ranks)")));
  job.mutable_layout()->set_tensor(3);
  EXPECT_THAT(problems(job), ElementsAre(HasSubstr("must divide the 8 recorded ranks")));
  job = laid_out(recorded_step());
  job.mutable_layout()->set_shard("parameters");
  EXPECT_THAT(problems(job), ElementsAre(HasSubstr("expected 'nothing', as recorded")));
  job = laid_out(recorded_step(true));
  job.mutable_layout()->set_shard_group(3);
  EXPECT_THAT(problems(job), ElementsAre(HasSubstr("shard_group = 3 must divide")));
}

TEST(RecordedStep, EntriesOfTheKernelTables) {
  EXPECT_EQ(kernel_entry("norm"), KernelName::norm);
  EXPECT_EQ(kernel_entry("softmax"), KernelName::plain);
  EXPECT_EQ(kernel_entry("other"), KernelName::plain);
  EXPECT_EQ(kernel_entry("attention_flash_2"), KernelName::attention);
  EXPECT_EQ(kernel_entry("attention_flash_2_backward"), KernelName::attention_backward);
  EXPECT_TRUE(is_flash_2("attention_flash_2_backward"));
  EXPECT_FALSE(is_flash_2("attention_backward"));
}

TEST(RecordedStep, ValuesOfKernelNamesAreInTheOrderOfTheNames) {
  const auto names = names_of(KernelName{});
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

}  // namespace
}  // namespace orrery
