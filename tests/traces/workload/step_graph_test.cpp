#include "traces/workload/step_graph.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "core/error.hpp"
#include "tests/traces/small_job.hpp"
#include "traces/workload/model.hpp"

namespace orrery {
namespace {

double block_flop(const Block& block) {
  double sum = 0;
  for (const Kernel& kernel : block.kernels) sum += kernel.flop.value * kernel.repeat;
  return sum;
}

double step_flop(StepGraph& graph) {
  const std::uint32_t share = graph.micro_batches() / graph.data();
  double sum = 0;
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    for (const Op& op : graph.program(stage, share).ops) {
      if (op.kind == OpKind::compute) sum += block_flop(graph.blocks()[op.block]);
    }
  }
  return sum * graph.members() * graph.data();
}

/// Any of the given.
template <typename Value>
Value one_of(std::initializer_list<Value> values) {
  return *rc::gen::elementOf(std::vector<Value>(values));
}

/// A dense or a sparse model, with grouped or with latent attention, in any layout.
Job any_job() {
  const auto tensor = one_of({1u, 2u, 4u}), pipeline = one_of({1u, 2u, 3u, 8u});
  Job job = small_job(tensor, pipeline, one_of({1u, 2u, 4u}), 16);
  Layout& layout = *job.mutable_layout();
  layout.set_context(one_of({1u, 2u, 8u}));
  Model& model = *job.mutable_model();
  model.set_head_size(one_of({64u, 80u}));
  if (one_of({false, true})) {
    Experts& experts = *model.mutable_experts();
    experts.set_count(128);
    experts.set_top_k(one_of({1u, 3u}));
    experts.set_feed_forward(256);
    experts.set_shared(one_of({0u, 2u}));
    experts.set_dense_layers(one_of({0u, 3u}));
    layout.set_expert(one_of({1u, layout.data() * layout.context(),
                              layout.data() * layout.context() * tensor}));
  }
  if (one_of({false, true})) {
    LatentAttention& latent = *model.mutable_latent_attention();
    latent.set_query_rank(one_of({0u, 192u}));
    latent.set_key_value_rank(64);
    latent.set_plain(48);
    latent.set_rotary(16);
    latent.set_value(32);
  }
  if (one_of({false, true})) {
    job.mutable_documents()->set_mean_length(100);
    job.mutable_documents()->set_cv(0.5);
  }
  job.set_causal(one_of({false, true}));
  return job;
}

TEST(StepGraph, FlopsOfAllRanksAreTheModels) {
  // Expected by hand: per layer q and o 2 x 1024^2, k and v 2 x 1024 x 256, three MLP matrices of
  // 1024 x 4096; one vocabulary matrix; causal attention 2 s h per token, layer and pass.
  const double layer = 2 * 1024.0 * 1024 + 2 * 1024.0 * 256 + 3 * 1024.0 * 4096;
  const double matrices = 8 * layer + 32000.0 * 1024;
  const double tokens = 16.0 * 512;
  const double by_hand = 6 * matrices * tokens + 3 * 8 * 2 * 512.0 * 1024 * tokens;
  for (const auto& [tensor, pipeline, data] :
       {std::tuple{1u, 1u, 1u}, {4u, 1u, 2u}, {2u, 4u, 2u}, {1u, 3u, 4u}}) {
    StepGraph graph(small_job(tensor, pipeline, data, 16));
    EXPECT_NEAR(graph.model_flop().value / by_hand, 1, 1e-12);
    EXPECT_NEAR(step_flop(graph) / by_hand, 1, 1e-9) << tensor << pipeline << data;
  }
}

TEST(StepGraph, FlopsOfAllRanksAreTheModelsInAnyLayout) {
  EXPECT_TRUE(rc::check([] {
    StepGraph graph(any_job());
    const double ratio = step_flop(graph) / graph.model_flop().value;
    RC_ASSERT(ratio > 1 - 1e-9);
    RC_ASSERT(ratio < 1 + 1e-9);
  }));
}

TEST(StepGraph, ModelFlopsOfLatentAttentionExpertsAndDocuments) {
  Job job = small_job(1, 1, 1, 16);
  Experts& experts = *job.mutable_model()->mutable_experts();
  experts.set_count(16);
  experts.set_top_k(2);
  experts.set_feed_forward(512);
  experts.set_shared(1);
  experts.set_dense_layers(2);
  LatentAttention& latent = *job.mutable_model()->mutable_latent_attention();
  latent.set_query_rank(384);
  latent.set_key_value_rank(128);
  latent.set_plain(64);
  latent.set_rotary(32);
  latent.set_value(48);
  job.mutable_documents()->set_mean_length(100);
  const double attention = 384.0 * (1024 + 16 * 96) + 1024.0 * (128 + 32) +
                           128.0 * 16 * (64 + 48) + 16 * 48.0 * 1024;
  const double expert = 3 * 1024.0 * 512;
  const double matrices = 8 * attention + 2 * 3 * 1024.0 * 4096 +
                          6 * (3 * expert + 1024.0 * 16) + 32000.0 * 1024;
  const double scores = 2 * 8 * 16 * 50.0 * (96 + 48);  // 100 tokens back, half of them masked
  EXPECT_NEAR(StepGraph(job).model_flop().value / (3 * (2 * matrices + scores) * 16 * 512), 1,
              1e-12);
}

TEST(StepGraph, ParametersOfAllRanksAreTheModels) {
  Job job = small_job(4, 2, 1, 4);
  const StepGraph graph(job);
  double bytes = 0;
  for (std::uint32_t stage = 0; stage < 2; ++stage) {
    bytes += graph.memory(stage, 4).parameters.value * 4;
  }
  const double norms = 3.0 * (8 * 2 + 1) * 1024;  // held by each of the four tensor ranks
  EXPECT_NEAR(bytes / 2, parameter_count(job.model()) + norms, 0.5);
}

TEST(StepGraph, ProgramsAreBuiltOncePerClass) {
  StepGraph graph(small_job(2, 4, 8, 64));
  EXPECT_EQ(graph.programs_built(), 0u);
  const Program* first = &graph.program(2, 8);
  for (std::uint32_t replica = 0; replica < 8; ++replica) {
    for (std::uint32_t stage = 0; stage < 4; ++stage) graph.program(stage, 8);
  }
  EXPECT_EQ(graph.programs_built(), 4u);
  EXPECT_EQ(first, &graph.program(2, 8));
  graph.program(2, 7);
  EXPECT_EQ(graph.programs_built(), 5u);
}

TEST(StepGraph, DeclaredPaceIsTheWholeMicroBatch) {
  StepGraph graph(paced_job(4, 40));
  EXPECT_EQ(graph.micro_batches(), 40u);
  const Program& program = graph.program(0, 10);
  Nanos sum = 0;
  double exchanged = 0;
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::compute) sum += graph.blocks()[op.block].declared;
    if (op.kind == OpKind::collective) exchanged += op.bytes.value;
  }
  EXPECT_EQ(sum, 10 * 40'000'000);
  EXPECT_DOUBLE_EQ(exchanged, 4.0 * builtin_parameter_count());
}

TEST(StepGraph, DeclaredPaceKeepsEveryNanosecondOverBuckets) {
  Job job = paced_job(2, 2);
  job.set_bucket(70'000);
  StepGraph graph(job);
  Nanos sum = 0;
  int collectives = 0;
  for (const Op& op : graph.program(0, 1).ops) {
    if (op.kind == OpKind::compute) sum += graph.blocks()[op.block].declared;
    if (op.kind == OpKind::collective) ++collectives;
  }
  EXPECT_EQ(sum, 40'000'000);
  EXPECT_EQ(collectives, 8);  // 517,888 bytes
}

TEST(StepGraph, ActivationsFollowTheMicroBatchesInFlight) {
  const StepGraph graph(small_job(2, 4, 1, 16));
  const double one = graph.memory(1, 1).activations.value;
  EXPECT_DOUBLE_EQ(graph.memory(1, 16).activations.value, 3 * one);
  EXPECT_DOUBLE_EQ(graph.memory(1, 2).activations.value, 2 * one);
  // Bytes per token: four inputs of 1024 (half a token here), q and o of 512, k and v of 128, two
  // up projections and the activation of 2048, two bytes each; 8 softmax statistics of 4 bytes.
  const double row = (4 * 1024 / 2.0 + 2 * 512 + 2 * 128 + 3 * 2048) * 2 + 8 * 4;
  EXPECT_DOUBLE_EQ(one, 2 * 512 * row);  // two layers a stage
}

TEST(StepGraph, GptActivationsAreKorthikantis) {
  Job job = small_job(1, 1, 1, 1);
  job.mutable_model()->set_kv_heads(16);
  job.mutable_model()->set_gated(false);
  job.mutable_model()->set_vocabulary(1);
  const double use = StepGraph(job).memory(0, 1).activations.value;
  // 34 s b h without the two dropout masks of one byte; ours adds the softmax statistics and
  // the fp32 loss.
  const double formula = 8 * 512 * 1024.0 * (34 - 2);
  EXPECT_NEAR(use / formula, 1, 0.003);
}

/// GPT of arXiv:2205.05198: one layer, no vocabulary to speak of.
Job gpt(std::uint32_t tensor, bool sequence_parallel) {
  Job job = small_job(tensor, 1, 1, 1);
  job.mutable_model()->set_layers(1);
  job.mutable_model()->set_kv_heads(16);
  job.mutable_model()->set_gated(false);
  job.mutable_layout()->set_sequence_parallel(sequence_parallel);
  job.set_attention("unfused");
  return job;
}

TEST(StepGraph, UnfusedActivationsAreKorthikantis) {
  const double sbh = 512.0 * 1024, scores = 5 * 16 * 512.0 / 1024;  // 5 a s / h
  const auto activations = [](const Job& job) {
    return StepGraph(job).memory(0, 1).activations.value;
  };
  EXPECT_NEAR(activations(gpt(1, true)), sbh * (34 + scores), 1);           // eq. 1
  EXPECT_NEAR(activations(gpt(4, false)), sbh * (10 + (24 + scores) / 4), 1);  // eq. 2
  EXPECT_NEAR(activations(gpt(4, true)), sbh * (34 + scores) / 4, 1);       // eq. 4
  Job job = gpt(4, true);
  job.set_recompute("selective");  // eq. 6, and the scores of the layer at work
  EXPECT_NEAR(activations(job), sbh * (34 + scores) / 4, 1);
  job.mutable_model()->set_layers(5);
  EXPECT_NEAR(activations(job), sbh * (5 * 34 + scores) / 4, 1);
  job.set_recompute("full");  // the input of each layer, and one layer at work
  EXPECT_NEAR(activations(job), sbh * (5 * 2 + 34 + scores) / 4, 1);
}

TEST(StepGraph, InterleavingHoldsMoreActivations) {
  Job job = small_job(1, 4, 1, 16);
  const double plain = StepGraph(job).memory(0, 16).activations.value;
  job.mutable_layout()->set_chunks(2);
  // 1 + (p - 1) / (p v) times as much on the first stage (arXiv:2104.04473, section 2.2).
  EXPECT_NEAR(StepGraph(job).memory(0, 16).activations.value / plain, 1 + 3 / 8.0, 1e-12);
}

TEST(StepGraph, ShardedMemoryIsShared) {
  Job job = small_job(1, 1, 8, 8);
  job.set_gradient_bytes(4);
  const double n = parameter_count(job.model());
  const auto use = [&](const char* shard, std::uint32_t group = 0) {
    job.mutable_layout()->set_shard(shard);
    job.mutable_layout()->set_shard_group(group);
    return StepGraph(job).memory(0, 1);
  };
  EXPECT_DOUBLE_EQ(use("nothing").optimizer.value, 12 * n);
  EXPECT_DOUBLE_EQ(use("nothing").gradients.value, 4 * n);
  EXPECT_DOUBLE_EQ(use("optimizer").optimizer.value, 12 * n / 8);
  EXPECT_DOUBLE_EQ(use("optimizer").gradients.value, 4 * n);
  EXPECT_DOUBLE_EQ(use("gradients").gradients.value, 4 * n / 8);
  EXPECT_DOUBLE_EQ(use("gradients").parameters.value, 2 * n);
  EXPECT_EQ(use("gradients").gathered.value, 0);
  EXPECT_DOUBLE_EQ(use("parameters").parameters.value, 2 * n / 8);
  EXPECT_DOUBLE_EQ(use("parameters", 2).parameters.value, 2 * n / 2) << "two groups of copies";
  const double layer = 2 * 1024.0 * 1024 + 2 * 1024.0 * 256 + 3 * 1024.0 * 4096 + 2 * 1024;
  EXPECT_DOUBLE_EQ(use("parameters").gathered.value, layer * (2 + 2 + 4));
}

TEST(StepGraph, TheLossAndTheBackwardPassOfALayerUseMemoryInTurn) {
  Job job = small_job(1, 1, 8, 8);
  const MemoryUse whole = StepGraph(job).memory(0, 1);
  job.mutable_layout()->set_shard("parameters");
  const MemoryUse sharded = StepGraph(job).memory(0, 1);
  EXPECT_GT(whole.logits.value, 0);
  EXPECT_DOUBLE_EQ(sharded.logits.value,
                   std::max(0.0, whole.logits.value - sharded.gathered.value));
}

TEST(StepGraph, GradientsWithoutABufferTakeTheMemoryThatActivationsLeave) {
  Job job = small_job(1, 1, 8, 16);
  job.mutable_layout()->set_shard("parameters");
  const auto use = [&](const char* stack, std::uint32_t micro_batches) {
    job.set_stack(stack);
    return StepGraph(job).memory(0, micro_batches);
  };
  const MemoryUse late = use("pytorch-fsdp", 1);
  const double all = 2 * use("generic", 1).gradients.value;
  EXPECT_DOUBLE_EQ(late.gradients.value, std::max(0.0, all - late.activations.value));
  EXPECT_DOUBLE_EQ(use("pytorch-fsdp", 2).gradients.value, all) << "fp32, of two micro-batches";
  const MemoryUse buffered = use("generic", 2);
  EXPECT_DOUBLE_EQ(late.parameters.value, 2 * buffered.parameters.value) << "fp32 alone";
  EXPECT_DOUBLE_EQ(late.optimizer.value / buffered.optimizer.value, 8 / 12.0);
}

TEST(StepGraph, XlaPlansItsBuffers) {
  Job job = small_job(1, 1, 8, 8);
  job.mutable_layout()->set_shard("parameters");
  const MemoryUse eager = StepGraph(job).memory(0, 1);
  job.set_stack("maxtext");
  const MemoryUse planned = StepGraph(job).memory(0, 1);
  EXPECT_DOUBLE_EQ(planned.gathered.value * 3, eager.gathered.value * 2) << "one layer, not two";
  job.set_sequence_length(1024);
  EXPECT_DOUBLE_EQ(StepGraph(job).memory(0, 1).reserved.value, planned.reserved.value);
  EXPECT_LT(planned.reserved.value, eager.reserved.value);
}

TEST(StepGraph, GatheredActivationsAreKeptBetweenMicroBatches) {
  Job job = small_job(2, 1, 4, 8);
  job.set_stack("nanotron");
  const double one = StepGraph(job).memory(0, 1).activations.value;
  EXPECT_GT(StepGraph(job).memory(0, 2).activations.value, one);
}

TEST(StepGraph, AGradientOfEachMatrixOfALayerIsKeptBesideSumsInFp32) {
  Job job = small_job(1, 2, 1, 8);
  const auto buffers = [&](std::uint32_t stage, std::uint32_t gradient) {
    job.set_gradient_bytes(gradient);
    return StepGraph(job).memory(stage, 8).buffers.value;
  };
  const double layer = 2 * 1024.0 * 1024 + 2 * 1024.0 * 256 + 3 * 1024.0 * 4096 + 2 * 1024;
  const double output = 1024.0 * job.model().vocabulary();
  EXPECT_DOUBLE_EQ(buffers(0, 4) - buffers(0, 2), 2 * layer);
  EXPECT_DOUBLE_EQ(buffers(1, 4) - buffers(1, 2), 2 * (layer + output));
}

TEST(StepGraph, TheOptimizerCopiesGradientsOf16BitsInFp32WhenThePassesAreOver) {
  Job job = small_job(1, 1, 2, 8);
  job.mutable_layout()->set_shard("nothing");
  const double n = parameter_count(job.model());
  const auto use = [&] { return StepGraph(job).memory(0, 1); };
  const auto passes = [](const MemoryUse& of) {
    return (of.activations + of.logits + of.gathered + of.buffers).value;
  };
  const MemoryUse copied = use();
  ASSERT_GT(4 * n, passes(copied));
  EXPECT_DOUBLE_EQ(copied.update.value, 4 * n - passes(copied));
  EXPECT_DOUBLE_EQ(copied.allocated().value, (2 + 2 + 12 + 4) * n);
  job.mutable_layout()->set_shard("optimizer");  // half of the parameters on each rank
  EXPECT_DOUBLE_EQ(use().update.value, std::max(0.0, 4 * n / 2 - passes(use())));
  job.mutable_layout()->set_shard("nothing");
  job.set_optimizer_bytes(8);  // moments of 16 bits beside fp32 weights
  EXPECT_DOUBLE_EQ(use().update.value, copied.update.value);
  job.set_optimizer_bytes(6);  // low halves of the weights: the step reads 16-bit gradients
  EXPECT_EQ(use().update.value, 0);
  job.clear_optimizer_bytes();
  job.set_gradient_bytes(4);
  EXPECT_EQ(use().update.value, 0) << "fp32 already";
  job.clear_gradient_bytes();
  job.set_offload("optimizer");
  EXPECT_EQ(use().update.value, 0) << "the host's step";
  job.set_offload("none");
  job.set_stack("pytorch-fsdp");
  EXPECT_EQ(use().update.value, 0) << "its gradients are in fp32";
}

TEST(StepGraph, ExpertsKeepTheInputsOfTheirProducts) {
  Job job = small_job(1, 1, 1, 1);
  const double dense = StepGraph(job).memory(0, 1).activations.value;
  Experts& experts = *job.mutable_model()->mutable_experts();
  experts.set_count(16);
  experts.set_top_k(2);
  experts.set_skew(1);
  const double sparse = StepGraph(job).memory(0, 1).activations.value;
  // Two copies of each token: the input, both halves of the inner size, their product; and the
  // router's scores and gradients in fp32. A dense layer keeps the inner values of one.
  const double routed = 2 * (1024 + 3 * 4096.0) * 2 + 2 * 16 * 4, inner = 3 * 4096.0 * 2;
  EXPECT_NEAR((sparse - dense) / (8 * 512), routed - inner, 1e-6);
}

TEST(StepGraph, ExpertsAreSharedAmongTheirOwnRanks) {
  Job job = small_job(1, 1, 8, 8);
  Experts& experts = *job.mutable_model()->mutable_experts();
  experts.set_count(16);
  experts.set_top_k(2);
  job.mutable_layout()->set_expert(4);
  job.mutable_layout()->set_shard("optimizer");
  const double all = 8 * 16 * 3 * 1024.0 * 4096, rest = parameter_count(job.model()) - all;
  const MemoryUse use = StepGraph(job).memory(0, 1);
  EXPECT_DOUBLE_EQ(use.parameters.value, 2 * (rest + all / 4));
  EXPECT_DOUBLE_EQ(use.optimizer.value, 12 * (rest / 8 + all / 4 / 2)) << "two ranks each";
}

TEST(StepGraph, RefusesWhatDoesNotDivide) {
  const auto message = [](const Job& job) -> std::string {
    try {
      StepGraph graph(job);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      return error.message();
    }
    return "";
  };
  EXPECT_NE(message(small_job(3, 1, 1, 4)).find("layout.tensor"), std::string::npos);
  EXPECT_NE(message(small_job(1, 9, 1, 4)).find("layout.pipeline"), std::string::npos);
  EXPECT_NE(message(small_job(1, 1, 3, 4)).find("global_batch"), std::string::npos);
  Job job = small_job(1, 1, 1, 4);
  job.set_bucket(1);
  EXPECT_NE(message(job).find("bucket"), std::string::npos);
  job = paced_job(4, 40);
  job.clear_pace();
  EXPECT_NE(message(job).find("pace"), std::string::npos);
}

TEST(StepGraph, PositionIsTheInverseOfRank) {
  for (const char* order : {"data-last", "pipeline-last"}) {
    Job job = small_job(2, 2, 4, 16);
    job.mutable_layout()->set_context(2);
    job.mutable_layout()->set_order(order);
    const StepGraph graph(job);
    for (std::uint32_t rank = 0; rank < 32; ++rank) {
      EXPECT_EQ(graph.rank(graph.position({rank})).value, rank) << order;
    }
  }
}

TEST(StepGraph, EveryRankIsInOneCommunicatorOfEachKind) {
  Job job = small_job(2, 2, 4, 16);
  job.mutable_layout()->set_context(2);
  job.mutable_layout()->set_shard_group(4);
  job.mutable_model()->mutable_experts()->set_count(16);
  job.mutable_model()->mutable_experts()->set_top_k(2);
  for (const std::uint32_t expert : {2u, 4u, 16u}) {
    job.mutable_layout()->set_expert(expert);
    const StepGraph graph(job);
    for (const Communicator which :
         {Communicator::tensor, Communicator::context, Communicator::expert,
          Communicator::gradient, Communicator::shard, Communicator::replicate,
          Communicator::expert_gradient}) {
      for (std::uint32_t rank = 0; rank < graph.ranks(); ++rank) {
        const std::vector<RankId> ranks = graph.communicator(which, {rank});
        EXPECT_EQ(ranks.size(), graph.communicator_size(which));
        for (const RankId other : ranks) {
          EXPECT_EQ(graph.communicator(which, other), ranks);
        }
        EXPECT_NE(std::find(ranks.begin(), ranks.end(), RankId{rank}), ranks.end());
      }
    }
  }
}

TEST(StepGraph, CommunicatorsByHand) {
  Job job = small_job(2, 1, 4, 16);
  job.mutable_layout()->set_shard_group(2);
  const StepGraph graph(job);
  const std::vector<RankId> shard{{4}, {6}}, replicate{{2}, {6}};
  EXPECT_EQ(graph.communicator(Communicator::shard, {4}), shard);
  EXPECT_EQ(graph.communicator(Communicator::replicate, {6}), replicate);
}

}  // namespace
}  // namespace orrery
