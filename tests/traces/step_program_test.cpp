// The order of operations: pipeline schedule, dependencies, gradient exchange.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/traces/small_job.hpp"
#include "traces/step_graph.hpp"

namespace orrery {
namespace {

TEST(StepProgram, DependenciesPointBackwards) {
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

TEST(StepProgram, CountsOfOneF1B) {
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

TEST(StepProgram, SendsMatchReceives) {
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

TEST(StepProgram, GradientsAreExchangedOnce) {
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

TEST(StepProgram, OneReplicaExchangesNothing) {
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

TEST(StepProgram, BubbleOfEqualStages) {
  for (const auto& [pipeline, count] :
       {std::pair{1u, 3u}, {2u, 4u}, {4u, 4u}, {4u, 16u}, {8u, 2u}}) {
    StepGraph graph(small_job(1, pipeline, 1, count));
    const double total = schedule(graph, count);
    EXPECT_DOUBLE_EQ((total - 3 * count) / total,
                     (pipeline - 1.0) / (count + pipeline - 1.0));
  }
}

TEST(StepProgram, ReplicaWithoutWorkStillExchangesGradients) {
  StepGraph graph(paced_job(4, 40));
  const Program& program = graph.program(0, 0);
  ASSERT_EQ(program.ops.size(), 2u);
  EXPECT_EQ(program.ops[0].kind, OpKind::collective);
  EXPECT_EQ(program.ops[1].phase, Phase::optimizer);
}

}  // namespace
}  // namespace orrery
