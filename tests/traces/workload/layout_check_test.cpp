#include "traces/workload/layout_check.hpp"

#include <gtest/gtest.h>

#include "tests/traces/small_job.hpp"

namespace orrery {
namespace {

std::string paths(const Job& job) {
  std::string text;
  for (const Problem& problem : job_problems(job)) text += problem.path + " ";
  return text;
}

TEST(LayoutCheck, AWholeJobHasNoProblems) {
  EXPECT_EQ(paths(small_job(4, 2, 2, 8)), "");
  EXPECT_EQ(paths(paced_job(4, 40)), "");
}

TEST(LayoutCheck, AReplicaHasABoundedNumberOfPasses) {
  EXPECT_EQ(paths(small_job(1, 4, 2, 500'000)), "");
  EXPECT_EQ(paths(small_job(1, 4, 2, 500'002)), "global_batch ");
}

TEST(LayoutCheck, EveryProblemNamesItsKey) {
  EXPECT_EQ(paths(small_job(3, 1, 1, 4)), "layout.tensor layout.tensor layout.tensor ");
  EXPECT_EQ(paths(small_job(1, 9, 3, 4)), "layout.pipeline global_batch ");
  EXPECT_EQ(paths(small_job(1, 1, 8, 4)), "global_batch ");  // less than one each
  Job job = small_job(1, 1, 2, 4);
  job.set_bucket(1);
  EXPECT_EQ(paths(job), "bucket ");
}

TEST(LayoutCheck, ContextDividesTheSequence) {
  Job job = small_job(1, 1, 2, 4);
  job.mutable_layout()->set_context(3);
  EXPECT_EQ(paths(job), "layout.context ");
  job.mutable_layout()->set_context(4);
  EXPECT_EQ(paths(job), "");
  job.set_attention("unfused");
  EXPECT_EQ(paths(job), "layout.context ");
}

TEST(LayoutCheck, UlyssesDividesTheHeads) {
  Job job = small_job(2, 1, 2, 4);
  job.mutable_layout()->set_context_kind("ulysses");
  job.mutable_layout()->set_context(8);
  EXPECT_EQ(paths(job), "") << "16 heads among 2 x 8 ranks, 4 heads of keys copied";
  job.set_attention("unfused");
  EXPECT_EQ(paths(job), "") << "no keys go round";
  job.mutable_layout()->set_context(16);
  EXPECT_EQ(paths(job), "layout.context_kind ");
  job.mutable_model()->set_heads(96);
  job.mutable_model()->set_kv_heads(6);
  job.mutable_model()->set_head_size(64);
  job.mutable_layout()->set_context(2);
  EXPECT_EQ(paths(job), "layout.context_kind ") << "6 heads of keys and values among 4 ranks";
}

TEST(LayoutCheck, ExpertsOfAFixedNumberOfTokensNeedACapacity) {
  Job job = small_job(1, 1, 4, 4);
  Experts& experts = *job.mutable_model()->mutable_experts();
  experts.set_count(16);
  experts.set_top_k(2);
  for (const bool pads : {true, false}) {
    experts.set_padded(pads);
    experts.set_dispatch(pads ? "permute" : "einsum");
    experts.clear_capacity();
    EXPECT_EQ(paths(job), "model.experts.capacity ");
    experts.set_capacity(1);
    EXPECT_EQ(paths(job), "");
  }
}

TEST(LayoutCheck, ExpertsAreSplitEvenlyAmongRanksThatAreThere) {
  Job job = small_job(2, 1, 4, 4);
  job.mutable_layout()->set_expert(4);
  EXPECT_EQ(paths(job), "layout.expert ") << "the model is dense";
  Experts& experts = *job.mutable_model()->mutable_experts();
  experts.set_count(16);
  experts.set_top_k(2);
  EXPECT_EQ(paths(job), "");
  job.mutable_layout()->set_expert(8);  // also divides the tensor ranks
  EXPECT_EQ(paths(job), "");
  job.mutable_layout()->set_expert(16);
  EXPECT_EQ(paths(job), "layout.expert ") << "more than there are ranks";
  job.mutable_layout()->set_expert(3);
  EXPECT_EQ(paths(job), "layout.expert layout.expert ");
  job.mutable_layout()->set_expert(4);
  experts.set_top_k(17);
  experts.set_dense_layers(9);
  EXPECT_EQ(paths(job), "model.experts.top_k model.experts.dense_layers ");
}

TEST(LayoutCheck, ChunksNeedStagesAndLayers) {
  Job job = small_job(1, 2, 1, 4);
  job.mutable_layout()->set_chunks(4);
  EXPECT_EQ(paths(job), "");
  job.mutable_layout()->set_chunks(5);
  EXPECT_EQ(paths(job), "") << "eight layers, the embedding and the loss";
  job.mutable_layout()->set_chunks(6);
  EXPECT_EQ(paths(job), "layout.chunks ");
  job.mutable_layout()->set_chunks(2);
  job.mutable_layout()->set_schedule("zero-bubble");
  EXPECT_EQ(paths(job), "layout.chunks ");
  job.mutable_layout()->set_pipeline(1);
  job.mutable_layout()->clear_schedule();
  EXPECT_EQ(paths(job), "layout.chunks ");
}

TEST(LayoutCheck, ShardGroupsAreEqual) {
  Job job = small_job(1, 1, 4, 4);
  job.mutable_layout()->set_shard_group(2);
  EXPECT_EQ(paths(job), "");
  job.mutable_layout()->set_shard_group(3);
  EXPECT_EQ(paths(job), "layout.shard_group ");
}

TEST(LayoutCheck, KeyValueHeadsMayBeRepeated) {
  EXPECT_EQ(paths(small_job(16, 1, 1, 4)), "");  // 4 key-value heads on 16 ranks
}

TEST(LayoutCheck, TheBuiltInModelIsDataParallelAndPaced) {
  Job job = paced_job(4, 40);
  job.clear_pace();
  job.mutable_layout()->set_tensor(2);
  job.mutable_layout()->set_pipeline(2);
  EXPECT_EQ(paths(job), "model.builtin layout.tensor layout.pipeline ");
}

TEST(LayoutCheck, ANoiseScaleGrowsOnlyIfItIsDeclared) {
  Job job = paced_job(4, 40);
  job.set_noise_growth(2);
  EXPECT_EQ(paths(job), "noise_growth ");
  job.set_noise_scale(30);
  EXPECT_EQ(paths(job), "");
}

}  // namespace
}  // namespace orrery
