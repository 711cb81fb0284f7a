#include "traces/step_graph.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "traces/model.hpp"

namespace orrery {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

/// A small transformer; every dimension divides by 4.
Job small_job(std::uint32_t tensor, std::uint32_t pipeline, std::uint32_t data,
              std::uint32_t global_batch) {
  Job job;
  Model& model = *job.mutable_model();
  model.set_layers(8);
  model.set_hidden(1024);
  model.set_heads(16);
  model.set_kv_heads(4);
  model.set_feed_forward(4096);
  model.set_gated(true);
  model.set_vocabulary(32000);
  job.set_sequence_length(512);
  job.set_global_batch(global_batch);
  job.set_micro_batch(1);
  job.mutable_layout()->set_tensor(tensor);
  job.mutable_layout()->set_pipeline(pipeline);
  job.mutable_layout()->set_data(data);
  job.mutable_layout()->set_sequence_parallel(true);
  job.set_precision("bf16");
  job.set_bucket(8 * kMiB);
  job.set_overlap(true);
  return job;
}

Job paced_job(std::uint32_t data, std::uint32_t global_batch) {
  Job job;
  job.mutable_model()->set_builtin("language-model");
  job.set_sequence_length(128);
  job.set_global_batch(global_batch);
  job.set_micro_batch(1);
  job.mutable_layout()->set_tensor(1);
  job.mutable_layout()->set_pipeline(1);
  job.mutable_layout()->set_data(data);
  job.set_bucket(256 * kMiB);
  job.set_overlap(true);
  job.mutable_pace()->set_micro_batch(40'000'000);
  return job;
}

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
  return sum * graph.tensor() * graph.data();
}

TEST(StepGraph, FlopsOfAllRanksAreTheModels) {
  // By hand: per layer q and o 2 x 1024^2, k and v 2 x 1024 x 256, three MLP matrices of
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

TEST(StepGraph, DependenciesPointBackwards) {
  StepGraph graph(small_job(2, 4, 2, 16));
  for (std::uint32_t stage = 0; stage < 4; ++stage) {
    for (const std::uint32_t count : {0u, 1u, 2u, 8u}) {
      const std::vector<Op>& ops = graph.program(stage, count).ops;
      ASSERT_FALSE(ops.empty());
      for (std::uint32_t i = 0; i < ops.size(); ++i) {
        for (const std::uint32_t before : ops[i].after) EXPECT_LT(before, i);
      }
    }
  }
}

TEST(StepGraph, CountsOfOneF1B) {
  StepGraph graph(small_job(2, 4, 2, 16));
  const Program& program = graph.program(1, 8);
  std::map<std::pair<OpKind, Phase>, int> count;
  std::set<std::uint32_t> forward, backward;
  for (const Op& op : program.ops) {
    ++count[{op.kind, op.phase}];
    if (op.kind == OpKind::compute && op.phase == Phase::forward) forward.insert(op.micro_batch);
    if (op.kind == OpKind::compute && op.phase == Phase::backward) backward.insert(op.micro_batch);
  }
  const int buckets = count[{OpKind::collective, Phase::gradient}];
  EXPECT_GT(buckets, 1);
  EXPECT_EQ(forward.size(), 8u);
  EXPECT_EQ(backward.size(), 8u);
  EXPECT_EQ((count[{OpKind::compute, Phase::forward}]), 8);
  EXPECT_EQ((count[{OpKind::compute, Phase::backward}]), 7 + buckets);
  EXPECT_EQ((count[{OpKind::compute, Phase::optimizer}]), 1);
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    EXPECT_EQ((count[{OpKind::send, phase}]), 8);
    EXPECT_EQ((count[{OpKind::receive, phase}]), 8);
  }
}

TEST(StepGraph, SendsMatchReceives) {
  StepGraph graph(small_job(2, 4, 2, 16));
  using Key = std::tuple<std::uint32_t, std::uint32_t, Phase, std::uint32_t>;
  std::map<Key, double> sent, received;
  for (std::uint32_t stage = 0; stage < 4; ++stage) {
    for (const Op& op : graph.program(stage, 8).ops) {
      const auto peer = static_cast<std::uint32_t>(op.peer_stage);
      if (op.kind == OpKind::send) sent[{stage, peer, op.phase, op.micro_batch}] = op.bytes.value;
      if (op.kind == OpKind::receive) {
        received[{peer, stage, op.phase, op.micro_batch}] = op.bytes.value;
      }
    }
  }
  EXPECT_EQ(sent.size(), 3u * 2 * 8);
  EXPECT_EQ(sent, received);
  // 512 tokens x 1024 x 2 bytes, half of it on each of two tensor ranks.
  EXPECT_DOUBLE_EQ(sent.begin()->second, 512.0 * 1024 * 2 / 2);
}

TEST(StepGraph, GradientsAreExchangedOnce) {
  for (const bool overlap : {true, false}) {
    Job job = small_job(2, 2, 4, 16);
    job.set_overlap(overlap);
    StepGraph graph(job);
    for (std::uint32_t stage = 0; stage < 2; ++stage) {
      const std::vector<Op>& ops = graph.program(stage, 4).ops;
      double bytes = 0;
      std::uint32_t last_backward = 0, first_collective = 0, last_collective = 0;
      for (std::uint32_t i = 0; i < ops.size(); ++i) {
        if (ops[i].kind == OpKind::compute && ops[i].phase == Phase::backward) last_backward = i;
        if (ops[i].kind != OpKind::collective) continue;
        bytes += ops[i].bytes.value;
        EXPECT_LE(ops[i].bytes.value, 8 * kMiB);
        if (first_collective == 0) first_collective = i;
        last_collective = i;
      }
      EXPECT_NEAR(bytes, graph.memory(stage, 4).gradients.value, 1);
      EXPECT_EQ(first_collective < last_backward, overlap);
      const std::vector<std::uint32_t>& before = ops.back().after;
      EXPECT_EQ(ops.back().phase, Phase::optimizer);
      EXPECT_NE(std::find(before.begin(), before.end(), last_collective), before.end());
    }
  }
}

TEST(StepGraph, OneReplicaExchangesNothing) {
  StepGraph graph(small_job(1, 1, 1, 4));
  for (const Op& op : graph.program(0, 4).ops) EXPECT_EQ(op.kind, OpKind::compute);
  EXPECT_EQ(graph.program(0, 4).ops.size(), 9u);
}

/// Ends of all compute ops when a forward takes 1, a backward 2 and everything else nothing.
double schedule(StepGraph& graph, std::uint32_t count) {
  using Key = std::tuple<std::uint32_t, Phase, std::uint32_t>;  // receiver, phase, micro-batch
  std::map<Key, double> arrived;
  const std::uint32_t stages = graph.pipeline();
  std::vector<std::size_t> next(stages, 0);
  std::vector<std::vector<double>> end(stages);
  double latest = 0;
  for (bool progress = true; progress;) {
    progress = false;
    for (std::uint32_t stage = 0; stage < stages; ++stage) {
      const std::vector<Op>& ops = graph.program(stage, count).ops;
      for (; next[stage] < ops.size(); ++next[stage], progress = true) {
        const Op& op = ops[next[stage]];
        double start = 0;
        for (const std::uint32_t before : op.after) start = std::max(start, end[stage][before]);
        if (op.kind == OpKind::receive) {
          const auto found = arrived.find({stage, op.phase, op.micro_batch});
          if (found == arrived.end()) break;
          start = std::max(start, found->second);
        }
        double cost = 0;
        if (op.kind == OpKind::compute && op.phase == Phase::forward) cost = 1;
        if (op.kind == OpKind::compute && op.phase == Phase::backward) cost = 2;
        end[stage].push_back(start + cost);
        latest = std::max(latest, start + cost);
        if (op.kind == OpKind::send) {
          arrived[{static_cast<std::uint32_t>(op.peer_stage), op.phase, op.micro_batch}] = start;
        }
      }
    }
  }
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    EXPECT_EQ(next[stage], graph.program(stage, count).ops.size()) << "deadlock at " << stage;
  }
  return latest;
}

TEST(StepGraph, BubbleOfEqualStages) {
  for (const auto& [pipeline, count] :
       {std::pair{1u, 3u}, {2u, 4u}, {4u, 4u}, {4u, 16u}, {8u, 2u}}) {
    StepGraph graph(small_job(1, pipeline, 1, count));
    const double total = schedule(graph, count);
    EXPECT_DOUBLE_EQ((total - 3 * count) / total,
                     (pipeline - 1.0) / (count + pipeline - 1.0));
  }
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

TEST(StepGraph, ReplicaWithoutWorkStillExchangesGradients) {
  StepGraph graph(paced_job(4, 40));
  const Program& program = graph.program(0, 0);
  ASSERT_EQ(program.ops.size(), 2u);
  EXPECT_EQ(program.ops[0].kind, OpKind::collective);
  EXPECT_EQ(program.ops[1].phase, Phase::optimizer);
}

TEST(StepGraph, ActivationsFollowTheMicroBatchesInFlight) {
  const StepGraph graph(small_job(2, 4, 1, 16));
  const double one = graph.memory(1, 1).activations.value;
  EXPECT_DOUBLE_EQ(graph.memory(1, 16).activations.value, 3 * one);
  EXPECT_DOUBLE_EQ(graph.memory(1, 2).activations.value, 2 * one);
  // Per token: four inputs of 1024 (half a token here), q and o of 512, k and v of 128, two up
  // projections and the activation of 2048, two bytes each; 8 softmax statistics of 4 bytes.
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

}  // namespace
}  // namespace orrery
