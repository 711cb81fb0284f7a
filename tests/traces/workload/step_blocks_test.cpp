#include "traces/workload/step_blocks.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "tests/traces/small_job.hpp"

namespace orrery {
namespace {

double flop(const Block& block) {
  double sum = 0;
  for (const Kernel& kernel : block.kernels) sum += kernel.flop.value * kernel.repeat;
  return sum;
}

double bytes(const Block& block) {
  double sum = 0;
  for (const Kernel& kernel : block.kernels) sum += kernel.bytes.value * kernel.repeat;
  return sum;
}

/// Number of collectives of each kind.
std::map<BlockCollective::Kind, double> calls(const Block& block) {
  std::map<BlockCollective::Kind, double> count;
  for (const BlockCollective& each : block.collectives) count[each.kind] += each.repeat;
  return count;
}

const StageShape kMiddle{.layers = 2};
const StageShape kFirst{.layers = 2, .first = true};
const StageShape kLast{.layers = 2, .last = true};
using Kind = BlockCollective::Kind;

TEST(StepBlocks, BackwardIsTwiceForward) {
  const RankShape rank(small_job(2, 4, 1, 4));
  for (const StageShape& stage : {kMiddle, kFirst, kLast}) {
    const double forward = flop(forward_block(rank, stage));
    const double backward = flop(backward_block(rank, stage, 1, stage.last, stage.first));
    EXPECT_NEAR(backward / forward, 2, 1e-12);
  }
}

TEST(StepBlocks, PartsOfTheBackwardPassAddUp) {
  const RankShape rank(small_job(2, 1, 1, 4));
  const StageShape whole{.layers = 8, .first = true, .last = true};
  const Block all = backward_block(rank, whole, 1, true, true);
  const Block first = backward_block(rank, whole, 0.25, true, false);
  const Block middle = backward_block(rank, whole, 0.5, false, false);
  const Block last = backward_block(rank, whole, 0.25, false, true);
  EXPECT_NEAR((flop(first) + flop(middle) + flop(last)) / flop(all), 1, 1e-12);
  EXPECT_NEAR((bytes(first) + bytes(middle) + bytes(last)) / bytes(all), 1, 1e-12);
}

TEST(StepBlocks, ShapesOfOneLayer) {
  const RankShape rank(small_job(2, 4, 1, 4));
  std::map<KernelName, const Kernel*> named;
  const Block block = forward_block(rank, kMiddle);
  for (const Kernel& kernel : block.kernels) named[kernel.name] = &kernel;
  EXPECT_EQ(named.at(KernelName::qkv)->n, (1024 + 2 * 256) / 2);
  EXPECT_EQ(named.at(KernelName::qkv)->m, 512);
  EXPECT_EQ(named.at(KernelName::mlp_up)->n, 2 * 4096 / 2);  // includes the gate
  EXPECT_EQ(named.at(KernelName::mlp_down)->k, 4096 / 2);
  EXPECT_EQ(named.at(KernelName::attention)->batch, 8);
  // Causal: half of 4 s^2 d per head.
  EXPECT_EQ(named.at(KernelName::attention)->flop.value, 2.0 * 512 * 512 * 64 * 8);
  // q and o of 8 heads, k and v of 2, of 64 numbers of 2 bytes, for 512 tokens.
  EXPECT_EQ(named.at(KernelName::attention)->bytes.value, 512.0 * (2 * 8 + 2 * 2) * 64 * 2);
}

TEST(StepBlocks, SequenceParallelismGathersAndScatters) {
  const RankShape rank(small_job(2, 4, 1, 4));
  EXPECT_EQ(calls(forward_block(rank, kMiddle)),
            (std::map<Kind, double>{{Kind::all_gather, 4}, {Kind::reduce_scatter, 4}}));
  EXPECT_EQ(calls(forward_block(rank, kFirst))[Kind::reduce_scatter], 5);
  EXPECT_EQ(calls(forward_block(rank, kLast))[Kind::all_gather], 5);
}

TEST(StepBlocks, WithoutItThereAreTwoAllReducesALayer) {
  Job job = small_job(2, 4, 1, 4);
  job.mutable_layout()->set_sequence_parallel(false);
  const RankShape rank(job);
  for (const Block& block :
       {forward_block(rank, kMiddle), backward_block(rank, kMiddle, 1, false, false)}) {
    EXPECT_EQ(calls(block), (std::map<Kind, double>{{Kind::all_reduce, 4}}));
    EXPECT_EQ(block.collectives.front().bytes.value, 512.0 * 1024 * 2);
  }
  EXPECT_EQ(calls(forward_block(rank, kFirst))[Kind::all_reduce], 5);
  EXPECT_EQ(calls(forward_block(rank, kLast))[Kind::all_reduce], 4);
  EXPECT_TRUE(forward_block(RankShape(small_job(1, 1, 1, 1)), kFirst).collectives.empty());
}

const Kernel& kernel(const Block& block, KernelName name) {
  for (const Kernel& each : block.kernels) {
    if (each.name == name) return each;
  }
  throw std::out_of_range(std::string(name_of(name)));
}

bool has(const Block& block, KernelName name) {
  return std::any_of(block.kernels.begin(), block.kernels.end(),
                     [&](const Kernel& each) { return each.name == name; });
}

TEST(StepBlocks, HalvesOfTheBackwardPassAddUp) {
  for (const char* recompute : {"none", "selective", "full"}) {
    Job job = small_job(2, 4, 1, 4);
    job.set_recompute(recompute);
    const RankShape rank(job);
    const Block whole = backward_block(rank, kLast, 1, true, true);
    const Block input = backward_block(rank, kLast, 1, true, true, BackwardPart::input);
    const Block weight = backward_block(rank, kLast, 1, true, true, BackwardPart::weight);
    EXPECT_NEAR((flop(input) + flop(weight)) / flop(whole), 1, 1e-12);
    EXPECT_NEAR((bytes(input) + bytes(weight)) / bytes(whole), 1, 1e-12);
    EXPECT_EQ(input.layers + weight.layers, whole.layers);
    EXPECT_TRUE(has(weight, KernelName::qkv_wgrad));
    EXPECT_FALSE(has(weight, KernelName::attention_backward));
  }
}

TEST(StepBlocks, RecomputationRepeatsTheForwardPass) {
  Job job = small_job(2, 4, 1, 4);
  const Block forward = forward_block(RankShape(job), kMiddle);
  const Block none = backward_block(RankShape(job), kMiddle, 1, false, false);
  job.set_recompute("full");
  const Block full = backward_block(RankShape(job), kMiddle, 1, false, false);
  EXPECT_NEAR(flop(full), flop(none) + flop(forward), 1);
  EXPECT_EQ(calls(full)[Kind::all_gather], 8) << "its collectives too";
  EXPECT_EQ(full.layers, 4);
  job.set_recompute("selective");
  const Block selective = backward_block(RankShape(job), kMiddle, 1, false, false);
  EXPECT_NEAR(flop(selective) - flop(none), 2 * kernel(forward, KernelName::attention).flop.value,
              1);
  EXPECT_EQ(calls(selective), calls(none));
}

TEST(StepBlocks, UnfusedAttentionMovesEveryScore) {
  Job job = small_job(2, 4, 1, 4);
  job.set_attention("unfused");
  const Block forward = forward_block(RankShape(job), kMiddle);
  const double scores = 8.0 * 512 * 512;  // scores of 8 heads
  EXPECT_EQ(kernel(forward, KernelName::attention_scores).flop.value, 2 * scores * 64)
      << "masked ones too";
  EXPECT_EQ(kernel(forward, KernelName::attention_scores).batch, 8);
  EXPECT_EQ(kernel(forward, KernelName::softmax).bytes.value, 4 * scores);
  EXPECT_EQ(kernel(forward, KernelName::dropout).bytes.value, 5 * scores);
  const Block backward = backward_block(RankShape(job), kMiddle, 1, false, false);
  EXPECT_EQ(kernel(backward, KernelName::softmax).bytes.value, 6 * scores);
  EXPECT_NEAR(flop(backward) / flop(forward), 2, 1e-12);
}

TEST(StepBlocks, KeysAndValuesGoRoundTheContextRanks) {
  Job job = small_job(2, 1, 1, 4);
  job.mutable_layout()->set_context(4);
  const RankShape rank(job);
  EXPECT_EQ(rank.tokens, 128);
  const Block forward = forward_block(rank, kMiddle);
  const auto ring = [](const Block& block) {
    for (const BlockCollective& each : block.collectives) {
      if (each.kind == Kind::ring_pass) return each;
    }
    return BlockCollective{};
  };
  EXPECT_EQ(ring(forward).bytes.value, 512.0 * 2 * 2 * 64 * 2);  // k and v of 2 heads, 2 bytes
  EXPECT_EQ(ring(forward).communicator, Communicator::context);
  EXPECT_EQ(ring(forward).beside, KernelName::attention);
  const Block backward = backward_block(rank, kMiddle, 1, false, false);
  EXPECT_EQ(ring(backward).bytes.value, 2 * ring(forward).bytes.value) << "and their gradients";
  EXPECT_EQ(ring(backward).beside, KernelName::attention_backward);
  // A quarter of the queries against all keys, half of them masked.
  EXPECT_EQ(kernel(forward, KernelName::attention).flop.value, 4 * 8 * 128.0 * 512 / 2 * 64);
}

TEST(StepBlocks, UlyssesGivesEachContextRankAShareOfTheHeads) {
  Job job = small_job(2, 1, 1, 4);
  job.mutable_layout()->set_context(4);
  const RankShape ring(job);
  job.mutable_layout()->set_context_kind("ulysses");
  const RankShape rank(job);
  const Block forward = forward_block(rank, kMiddle);
  const Kernel& attention = kernel(forward, KernelName::attention);
  EXPECT_EQ(attention.m, 512) << "the whole sequence";
  EXPECT_EQ(attention.batch, 2) << "of 8 heads";
  const Kernel& of_ring = kernel(forward_block(ring, kMiddle), KernelName::attention);
  EXPECT_EQ(attention.flop.value, of_ring.flop.value);
  std::vector<double> bytes;
  for (const BlockCollective& each : forward.collectives) {
    EXPECT_NE(each.kind, Kind::ring_pass);
    if (each.kind != Kind::all_to_all) continue;
    EXPECT_EQ(each.communicator, Communicator::context);
    EXPECT_EQ(each.beside, KernelName::plain) << "exposed";
    bytes.push_back(each.bytes.value);
  }
  // 128 tokens of 8 heads of 64 values of 2 bytes; 2 heads of keys and values are copied to 4.
  const std::vector<double> queries_keys_values_results = {131072, 65536, 65536, 131072};
  EXPECT_EQ(bytes, queries_keys_values_results);
  EXPECT_EQ(calls(backward_block(rank, kMiddle, 1, false, false))[Kind::all_to_all],
            calls(forward)[Kind::all_to_all]);
  job.set_attention("unfused");
  EXPECT_EQ(kernel(forward_block(RankShape(job), kMiddle), KernelName::attention_scores).m, 512);
}

TEST(StepBlocks, LayersWithAWindowScoreItsTokens) {
  Job job = small_job(2, 4, 1, 4);
  AttentionWindow& window = *job.mutable_model()->mutable_window();
  window.set_size(128);
  window.set_every(2);
  const StageShape stage{.layers = 5, .windowed_layers = 3};
  const auto attention = [&](const Block& block, KernelName name) {
    std::vector<Kernel> found;
    for (const Kernel& each : block.kernels) {
      if (each.name == name) found.push_back(each);
    }
    return found;
  };
  const Block forward = forward_block(RankShape(job), stage);
  const std::vector<Kernel> kernels = attention(forward, KernelName::attention);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].repeat, 2);
  EXPECT_EQ(kernels[1].repeat, 3);
  // The first 128 of 512 tokens attend to their predecessors, the others to 128 tokens.
  EXPECT_EQ(kernels[1].flop.value, 2 * 8 * (512 * 128 - 128 * 128 / 2.0) * 128);
  const std::vector<Kernel> back =
      attention(backward_block(RankShape(job), stage, 1, false, false),
                KernelName::attention_backward);
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back[1].flop.value, 2 * kernels[1].flop.value);
  window.set_size(512);
  EXPECT_EQ(attention(forward_block(RankShape(job), stage), KernelName::attention).size(), 1u)
      << "as long as the sequence";
}

TEST(StepBlocks, MasksDispatchTokensAsProducts) {
  Job job = small_job(2, 1, 4, 4);
  Experts& experts = *job.mutable_model()->mutable_experts();
  experts.set_count(16);
  experts.set_top_k(2);
  experts.set_capacity(1.5);
  const StageShape stage{.layers = 3, .sparse_layers = 2};
  const Block copies = forward_block(RankShape(job), stage);
  EXPECT_TRUE(has(copies, KernelName::permute));
  EXPECT_EQ(copies.expert_layers, 2);
  experts.set_dispatch("einsum");
  const Block masks = forward_block(RankShape(job), stage);
  EXPECT_FALSE(has(masks, KernelName::permute));
  // 4 x sequence x hidden x top_k x capacity FLOPs a token, shared by two tensor ranks.
  const double more = 512 * 4 * 512.0 * 1024 * 2 * 1.5 / 2;
  EXPECT_EQ(flop(masks) - flop(copies), 2 * more);
  const Block back = backward_block(RankShape(job), stage, 1, false, false);
  experts.set_dispatch("permute");
  EXPECT_EQ(flop(back) - flop(backward_block(RankShape(job), stage, 1, false, false)), 3 * more);
}

TEST(StepBlocks, ProductsOfExperts) {
  Job job = small_job(2, 1, 4, 4);
  Experts& experts = *job.mutable_model()->mutable_experts();
  experts.set_count(16);
  experts.set_top_k(2);
  experts.set_feed_forward(512);
  experts.set_shared(1);
  job.mutable_layout()->set_expert(4);
  job.mutable_layout()->set_expert_tensor(2);
  const StageShape stage{.layers = 3, .sparse_layers = 2};
  const Block block = forward_block(RankShape(job), stage);
  const Kernel& up = kernel(block, KernelName::expert_up);
  EXPECT_EQ(up.m, 256);      // 512 tokens x 2 / 4 local experts
  EXPECT_EQ(up.n, 2 * 256);  // gate and up of half of 512
  EXPECT_EQ(up.k, 1024);
  EXPECT_EQ(up.batch, 4);
  EXPECT_EQ(up.repeat, 2);
  EXPECT_EQ(up.flop.value, 2.0 * 256 * 512 * 1024 * 4);
  EXPECT_EQ(kernel(block, KernelName::mlp_up).repeat, 1) << "one layer is dense";
  EXPECT_EQ(kernel(block, KernelName::shared_up).m, 512);
  EXPECT_EQ(kernel(block, KernelName::router).m, 256)
      << "each of two tensor ranks routes its tokens";
  for (const BlockCollective& each : block.collectives) {
    if (each.kind != Kind::all_to_all) continue;
    EXPECT_EQ(each.communicator, Communicator::expert);
    EXPECT_EQ(each.bytes.value, 256.0 * 2 * 1024 * 2);
    EXPECT_EQ(each.repeat, 4) << "to the experts and back, two layers";
  }
  // Attention 3, dense MLP 1, shared expert 2, split experts 2.
  EXPECT_EQ(calls(block)[Kind::all_gather], 8);
}

TEST(StepBlocks, LatentAttentionGoesThroughItsLatents) {
  Job job = small_job(2, 1, 1, 4);
  LatentAttention& latent = *job.mutable_model()->mutable_latent_attention();
  latent.set_query_rank(384);
  latent.set_key_value_rank(128);
  latent.set_plain(64);
  latent.set_rotary(32);
  latent.set_value(48);
  const Block block = forward_block(RankShape(job), kMiddle);
  EXPECT_EQ(kernel(block, KernelName::query_down).m, 256) << "not shared out: own tokens only";
  EXPECT_EQ(kernel(block, KernelName::query_up).n, 8 * 96);
  EXPECT_EQ(kernel(block, KernelName::key_value_down).n, 128 + 32);
  EXPECT_EQ(kernel(block, KernelName::key_value_up).n, 8 * (64 + 48));
  EXPECT_EQ(kernel(block, KernelName::projection).k, 8 * 48);
  EXPECT_EQ(kernel(block, KernelName::attention).flop.value, 2 * 8 * 512.0 * 512 / 2 * (96 + 48));
  EXPECT_EQ(block.collectives.front().bytes.value, 512.0 * (384 + 128 + 32) * 2);
}

TEST(StepBlocks, BelowSixteenBitsTheLayersProductsAreConverted) {
  Job job = small_job(1, 1, 1, 4);
  job.set_precision("fp8");
  const StageShape all{.layers = 2, .first = true, .last = true};
  const Block block = forward_block(RankShape(job), all);
  EXPECT_TRUE(kernel(block, KernelName::mlp_up).low_precision);
  EXPECT_FALSE(kernel(block, KernelName::vocabulary).low_precision);
  EXPECT_FALSE(kernel(block, KernelName::attention).low_precision);
  // Operands of one byte, results of two.
  EXPECT_EQ(kernel(block, KernelName::mlp_down).bytes.value,
            512.0 * 4096 + 4096.0 * 1024 + 2 * 512.0 * 1024);
  // Read in 16 bits, written twice in 8: the inputs of the four products.
  double casts = 0;
  for (const Kernel& each : block.kernels) {
    if (each.name == KernelName::cast) casts += each.bytes.value * each.repeat;
  }
  EXPECT_EQ(casts, 2 * 4 * 512.0 * (3 * 1024 + 4096));
}

TEST(StepBlocks, ProductsMayHideTensorCollectives) {
  Job job = small_job(2, 1, 1, 4);
  job.mutable_overlaps()->set_tensor(0.4);
  const Block block = forward_block(RankShape(job), kMiddle);
  ASSERT_FALSE(block.collectives.empty());
  for (const BlockCollective& each : block.collectives) EXPECT_EQ(each.hidden, 0.4);
}

TEST(StepBlocks, AdamMovesEveryByteOfItsState) {
  // bf16: gradient 2, both moments in and out 16, master weights in and out 8, weights 2.
  EXPECT_EQ(bytes(optimizer_block(1000, 2)), 28'000);
  EXPECT_EQ(bytes(optimizer_block(1000, 4)), 28'000);
  EXPECT_EQ(bytes(optimizer_block(1000, 2, 4)), 30'000) << "gradients in fp32";
}

TEST(StepBlocks, ParametersOfAStage) {
  const RankShape rank(small_job(2, 4, 1, 4));
  const double layer = (1024.0 * 1536 + 1024 * 1024 + 3 * 1024 * 4096) / 2 + 2 * 1024;
  EXPECT_EQ(rank.parameters(kMiddle), 2 * layer);
  EXPECT_EQ(rank.parameters(kFirst), 2 * layer + 16000 * 1024);
  EXPECT_EQ(rank.parameters(kLast), 2 * layer + 16000 * 1024 + 1024);
}

}  // namespace
}  // namespace orrery
