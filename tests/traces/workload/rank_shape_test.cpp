#include "traces/workload/rank_shape.hpp"

#include <utility>

#include <gtest/gtest.h>

#include "tests/traces/small_job.hpp"

namespace orrery {
namespace {

Job mixture(std::uint32_t tensor, std::uint32_t data, std::uint32_t expert) {
  Job job = small_job(tensor, 1, data, data);
  Experts& experts = *job.mutable_model()->mutable_experts();
  experts.set_count(16);
  experts.set_top_k(2);
  experts.set_feed_forward(512);
  experts.set_shared(1);
  experts.set_dense_layers(3);
  job.mutable_layout()->set_expert(expert);
  return job;
}

double scored(const Job& job) {
  const RankShape rank(job);
  return rank.scored(rank.reach);
}

TEST(RankShape, LayersGoRoundTheStagesChunkByChunk) {
  Job job = small_job(1, 2, 1, 4);
  job.mutable_model()->set_layers(9);
  job.mutable_layout()->set_chunks(2);
  const auto layers = [&](std::uint32_t stage, std::uint32_t chunk) {
    return stage_shape(job, stage, chunk).layers;
  };
  EXPECT_EQ(layers(0, 0), 3u);  // the remainder goes to the first
  EXPECT_EQ(layers(1, 0) + layers(0, 1) + layers(1, 1), 6u);
  EXPECT_TRUE(stage_shape(job, 0, 0).first);
  EXPECT_FALSE(stage_shape(job, 1, 0).last);
  EXPECT_TRUE(stage_shape(job, 1, 1).last);
}

/// 126 layers in 16 x 8 chunks, as recipes of Llama 3.1 405B have them.
TEST(RankShape, EmbeddingAndLossCanHaveChunksOfTheirOwn) {
  Job job = small_job(1, 2, 1, 4);
  job.mutable_layout()->set_chunks(4);
  const auto layers = [&](std::uint32_t of) {
    job.mutable_model()->set_layers(of);
    std::string text;
    for (std::uint32_t part = 0; part < 8; ++part) {
      const StageShape shape = stage_shape(job, part % 2, part / 2);
      text += std::to_string(shape.layers);
      EXPECT_EQ(shape.first, part == 0);
      EXPECT_EQ(shape.last, part == 7);
    }
    return text;
  };
  EXPECT_EQ(layers(6), "01111110");
  EXPECT_EQ(layers(7), "11111110");
  EXPECT_EQ(layers(8), "11111111");
  EXPECT_EQ(layers(9), "21111111");
}

/// Two stages of a model whose output projection weighs as much as its layers together: the first
/// has all layers, the second the projection.
TEST(RankShape, LayersGoToStagesByCost) {
  Job job = small_job(1, 2, 1, 4);
  Model& model = *job.mutable_model();
  const double layer = 4.0 * model.heads() * (model.hidden() / model.heads()) +
                       (model.gated() ? 3.0 : 2.0) * model.feed_forward();
  model.set_vocabulary(static_cast<std::uint32_t>(layer * model.layers()));
  job.mutable_layout()->set_balance("cost");
  EXPECT_EQ(stage_shape(job, 0, 0).layers, model.layers());
  EXPECT_EQ(stage_shape(job, 1, 0).layers, 0u);
  EXPECT_TRUE(stage_shape(job, 1, 0).last);
  EXPECT_EQ(stages_left_empty(job), 0u);
  job.mutable_layout()->set_pipeline(4);
  std::uint32_t layers = 0;
  for (std::uint32_t stage = 0; stage < 4; ++stage) {
    const StageShape shape = stage_shape(job, stage, 0);
    layers += shape.layers;
    EXPECT_EQ(shape.first, stage == 0);
    EXPECT_EQ(shape.last, stage == 3);
  }
  EXPECT_EQ(layers, model.layers());
}

// 1.34B parameters of nanotron: an output as dear as four of 16 layers. Of 65 runs on 16 stages one
// started, of 270 on eight and fewer most did.
TEST(RankShape, StagesBalancedByCostMayBeLeftEmpty) {
  Job job = small_job(1, 8, 1, 8);
  Model& model = *job.mutable_model();
  model.set_layers(16);
  model.set_hidden(2048);
  model.set_heads(32);
  model.set_feed_forward(8192);
  model.set_gated(true);
  model.set_vocabulary(131072);
  job.mutable_layout()->set_balance("cost");
  EXPECT_EQ(stages_left_empty(job), 0u);
  job.mutable_layout()->set_pipeline(16);
  EXPECT_EQ(stages_left_empty(job), 1u);
  EXPECT_EQ(stage_shape(job, 12, 0).layers, 1u);
  EXPECT_EQ(stage_shape(job, 13, 0).layers, 0u);
}

TEST(RankShape, TheFirstLayersOfAMixtureAreDense) {
  Job job = mixture(1, 4, 4);
  job.mutable_layout()->set_pipeline(4);  // two layers each
  EXPECT_EQ(stage_shape(job, 0, 0).sparse_layers, 0u);
  EXPECT_EQ(stage_shape(job, 1, 0).sparse_layers, 1u);
  EXPECT_EQ(stage_shape(job, 2, 0).sparse_layers, 2u);
}

TEST(RankShape, ExpertsTakeTheTokensOfTheirGroup) {
  // 4 ranks of 512 tokens, 2 experts each: 4 x 512 x 2 / 16 tokens an expert.
  const RankShape rank(mixture(1, 4, 4));
  EXPECT_EQ(rank.expert.local, 4);
  EXPECT_EQ(rank.expert.rows, 256);
  EXPECT_EQ(rank.expert.sent, 1024);
  // Two tensor ranks halve every expert and see the tokens of both.
  Job split = mixture(2, 4, 4);
  split.mutable_layout()->set_expert_tensor(2);
  const RankShape halved(split);
  EXPECT_EQ(halved.expert.tensor, 2);
  EXPECT_EQ(halved.expert.rows, 256);
  EXPECT_EQ(halved.expert.feed_forward, 256);
  EXPECT_EQ(halved.expert.sent, 512);
  // Where the layout does not say, experts span the tensor group and stay whole.
  const RankShape spanning(mixture(2, 4, 8));
  EXPECT_EQ(spanning.expert.tensor, 1);
  EXPECT_EQ(spanning.expert.local, 2);
  EXPECT_EQ(spanning.expert.rows, 256);
  EXPECT_EQ(spanning.expert.feed_forward, 512);
}

TEST(RankShape, TheBusiestRankSetsThePaceUpToItsCapacity) {
  Job job = mixture(1, 4, 4);
  job.mutable_model()->mutable_experts()->set_skew(2);
  EXPECT_EQ(RankShape(job).expert.rows, 512);
  job.mutable_model()->mutable_experts()->set_capacity(1.5);
  EXPECT_EQ(RankShape(job).expert.rows, 384);
  job.mutable_model()->mutable_experts()->clear_capacity();
  job.mutable_model()->mutable_experts()->set_skew(100);
  EXPECT_EQ(RankShape(job).expert.rows, 1024) << "all tokens of all four ranks";
}

TEST(RankShape, PaddedExpertsHaveTheLoadOfTheirCapacity) {
  Job job = mixture(1, 4, 4);
  Experts& experts = *job.mutable_model()->mutable_experts();
  experts.set_capacity(6);
  EXPECT_EQ(RankShape(job).expert.rows, 256) << "room for more than is routed";
  experts.set_padded(true);
  EXPECT_EQ(RankShape(job).expert.rows, 6 * 256);
  EXPECT_EQ(RankShape(job).expert.sent, 6 * 1024);
}

TEST(RankShape, NaturalRoutingHasTheLoadOfTheStack) {
  Job job = mixture(1, 4, 4);
  Experts& experts = *job.mutable_model()->mutable_experts();
  experts.set_routing("natural");
  EXPECT_EQ(RankShape(job).expert.rows, 256) << "1 as long as nothing is fitted";
  job.mutable_software()->set_natural_load(1.5);
  EXPECT_EQ(RankShape(job).expert.rows, 384);
  experts.set_skew(2);
  EXPECT_EQ(RankShape(job).expert.rows, 512) << "the model's own";
  experts.set_skew(1);
  experts.set_routing("forced");
  EXPECT_EQ(RankShape(job).expert.rows, 256);
}

TEST(RankShape, LayersOfAKindAreCountedWhereTheyAre) {
  Job job = mixture(1, 4, 4);
  Experts& experts = *job.mutable_model()->mutable_experts();
  experts.set_dense_layers(1);
  experts.set_every(2);  // layers 2, 4 and 6 of 0 to 7
  AttentionWindow& window = *job.mutable_model()->mutable_window();
  window.set_size(128);
  window.set_every(3);  // all layers but 2 and 5
  const auto kinds = [&](std::uint32_t first, std::uint32_t count) {
    const StageShape shape = layers_from(job, first, count);
    return std::pair(shape.sparse_layers, shape.windowed_layers);
  };
  EXPECT_EQ(kinds(0, 8), std::pair(3u, 6u));
  EXPECT_EQ(kinds(0, 3), std::pair(1u, 2u));
  EXPECT_EQ(kinds(3, 3), std::pair(1u, 2u));
  EXPECT_EQ(kinds(6, 1), std::pair(1u, 1u));
  window.set_every(0);
  EXPECT_EQ(kinds(0, 8).second, 8u) << "no layer without";
}

TEST(RankShape, AttentionEndsAtTheBordersOfDocuments) {
  Job job = small_job(1, 1, 1, 1);
  EXPECT_EQ(scored(job), 512.0 * 512 / 2);
  job.mutable_documents()->set_mean_length(64);
  job.mutable_documents()->set_cv(1);
  EXPECT_EQ(scored(job), 512.0 * 128 / 2);  // E[l^2] / E[l] = 64 (1 + 1)
  job.mutable_documents()->set_mean_length(500);
  EXPECT_EQ(scored(job), 512.0 * 512 / 2) << "no longer than the sequence";
  job.set_causal(false);
  EXPECT_EQ(scored(job), 512.0 * 512);
}

TEST(RankShape, OperandsOfEveryPrecision) {
  const auto bytes = [](const char* precision) {
    Job job = small_job(1, 1, 1, 1);
    job.set_precision(precision);
    return RankShape(job).low_element;
  };
  EXPECT_EQ(bytes("fp32"), 4);
  EXPECT_EQ(bytes("fp16"), 2);
  EXPECT_EQ(bytes("fp8"), 1);
  EXPECT_EQ(bytes("mxfp8"), 1 + 1 / 32.0);
  EXPECT_EQ(bytes("nvfp4"), 0.5625);
}

}  // namespace
}  // namespace orrery
