// The order of operations: pipeline schedule, dependencies, gradient exchange.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include "tests/traces/small_job.hpp"
#include "traces/workload/step_graph.hpp"

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
      const FewOps& before = ops.back().after;
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

/// Any layout that fits eight layers.
Job any_job() {
  const auto pipeline = *rc::gen::element(1u, 2u, 3u, 4u, 8u);
  const auto data = *rc::gen::element(1u, 2u, 4u);
  const auto count = *rc::gen::inRange(1u, 14u);
  Job job = small_job(*rc::gen::element(1u, 2u), pipeline, data, data * count);
  Layout& layout = *job.mutable_layout();
  layout.set_context(*rc::gen::element(1u, 2u));
  if (pipeline > 1 && pipeline <= 4) layout.set_chunks(*rc::gen::inRange(1u, 8 / pipeline + 1));
  if (layout.chunks() <= 1 && *rc::gen::arbitrary<bool>()) layout.set_schedule("zero-bubble");
  layout.set_shard(*rc::gen::element<std::string>("nothing", "optimizer", "gradients",
                                                  "parameters"));
  if (*rc::gen::arbitrary<bool>()) layout.set_shard_group(2 - data % 2);
  job.set_overlap(*rc::gen::arbitrary<bool>());
  job.mutable_overlaps()->set_parameters(*rc::gen::arbitrary<bool>());
  job.mutable_overlaps()->set_pipeline(*rc::gen::arbitrary<bool>());
  if (*rc::gen::arbitrary<bool>()) {
    job.mutable_input()->set_read(1'000'000);
    job.mutable_input()->set_prefetch(*rc::gen::inRange(0u, 4u));
  }
  return job;
}

RC_GTEST_PROP(StepProgram, StagesOfAnyLayoutFitTogether, ()) {
  StepGraph graph(any_job());
  const std::uint32_t count = graph.micro_batches() / graph.data();
  using Key = std::tuple<std::uint32_t, std::uint32_t, Phase, std::uint32_t, std::uint32_t>;
  std::map<Key, double> sent, received;
  for (std::uint32_t stage = 0; stage < graph.pipeline(); ++stage) {
    const std::vector<Op>& ops = graph.program(stage, count).ops;
    for (std::uint32_t i = 0; i < ops.size(); ++i) {
      const Op& op = ops[i];
      for (const std::uint32_t before : op.after) RC_ASSERT(before < i);
      const auto peer = static_cast<std::uint32_t>(op.peer_stage);
      if (op.kind == OpKind::send) {
        RC_ASSERT(sent.emplace(Key{stage, peer, op.phase, op.micro_batch, op.chunk},
                               op.bytes.value).second);
      }
      if (op.kind == OpKind::receive) {
        RC_ASSERT(received.emplace(Key{peer, stage, op.phase, op.micro_batch, op.chunk},
                                   op.bytes.value).second);
      }
    }
  }
  RC_ASSERT(sent == received);
  RC_ASSERT(sent.size() == 2u * count * (graph.pipeline() * graph.chunks() - 1));
}

std::map<std::tuple<Phase, Communicator, OpCollective>, double> exchanged(const Job& job) {
  StepGraph graph(job);
  std::map<std::tuple<Phase, Communicator, OpCollective>, double> bytes;
  for (const Op& op : graph.program(0, graph.micro_batches() / graph.data()).ops) {
    if (op.kind != OpKind::collective) continue;
    bytes[{op.phase, op.communicator, op.collective}] += op.bytes.value;
  }
  return bytes;
}

/// Bytes that each kind of sharding moves in a step of four micro-batches.
TEST(StepProgram, ShardingMovesWhatItsPaperSays) {
  using enum OpCollective;
  using C = Communicator;
  Job job = small_job(1, 1, 4, 16);
  const double parameters = exchanged(job)[{Phase::gradient, C::gradient, all_reduce}];
  job.mutable_layout()->set_shard("optimizer");
  auto moved = exchanged(job);
  EXPECT_NEAR((moved[{Phase::gradient, C::shard, reduce_scatter}]), parameters, 1);
  EXPECT_NEAR((moved[{Phase::parameters, C::shard, all_gather}]), parameters, 1);
  job.mutable_layout()->set_shard("gradients");
  moved = exchanged(job);
  EXPECT_NEAR((moved[{Phase::gradient, C::shard, reduce_scatter}]), 4 * parameters, 1);
  EXPECT_NEAR((moved[{Phase::parameters, C::shard, all_gather}]), parameters, 1);
  job.mutable_layout()->set_shard("parameters");
  moved = exchanged(job);
  EXPECT_NEAR((moved[{Phase::forward, C::shard, all_gather}]), 4 * parameters, 1);
  EXPECT_NEAR((moved[{Phase::backward, C::shard, all_gather}]), 4 * parameters, 1);
  EXPECT_NEAR((moved[{Phase::gradient, C::shard, reduce_scatter}]), 4 * parameters, 1);
  job.mutable_layout()->set_shard_group(2);
  moved = exchanged(job);
  EXPECT_NEAR((moved[{Phase::gradient, C::replicate, all_reduce}]), parameters / 2, 1);
}

TEST(StepProgram, GradientsOfExpertsGoToThoseWithTheSameExperts) {
  Job job = small_job(1, 1, 4, 16);
  Experts& experts = *job.mutable_model()->mutable_experts();
  experts.set_count(8);
  experts.set_top_k(2);
  job.mutable_layout()->set_expert(2);
  auto moved = exchanged(job);
  using enum OpCollective;
  const double all = moved[{Phase::gradient, Communicator::gradient, all_reduce}] +
                     moved[{Phase::gradient, Communicator::expert_gradient, all_reduce}];
  StepGraph graph(job);
  EXPECT_NEAR(all, graph.memory(0, 4).gradients.value, 1);
  // Four of the eight experts: three matrices in each of eight layers.
  EXPECT_NEAR((moved[{Phase::gradient, Communicator::expert_gradient, all_reduce}]),
              8.0 * 4 * 3 * 1024 * 4096 * 2, 1e6);
}

TEST(StepProgram, WithoutOverlapABlockWaitsForTheGradientsBeforeIt) {
  Job job = small_job(1, 1, 4, 4);
  Experts& experts = *job.mutable_model()->mutable_experts();
  experts.set_count(8);
  experts.set_top_k(2);
  job.mutable_layout()->set_expert(2);
  job.mutable_layout()->set_shard("parameters");
  // Backward blocks, and those that wait for the newest gradients of a communicator.
  const auto waits = [&](bool overlaps, Communicator among) {
    job.set_overlap(overlaps);
    job.mutable_overlaps()->set_parameters(overlaps);
    StepGraph graph(job);
    std::uint32_t blocks = 0, waiting = 0, newest = 0;
    const std::vector<Op>& ops = graph.program(0, 1).ops;
    for (std::uint32_t i = 0; i < ops.size(); ++i) {
      const Op& op = ops[i];
      if (op.kind == OpKind::collective && op.phase == Phase::gradient &&
          op.communicator == among) {
        newest = i;
      }
      if (op.kind != OpKind::compute || op.phase != Phase::backward || newest == 0) continue;
      ++blocks;
      waiting += std::find(op.after.begin(), op.after.end(), newest) != op.after.end();
    }
    return std::pair(blocks, waiting);
  };
  for (const Communicator among : {Communicator::shard, Communicator::expert_gradient}) {
    const auto [blocks, waiting] = waits(false, among);
    EXPECT_GT(blocks, 4u);
    EXPECT_EQ(waiting, blocks);
    EXPECT_EQ(waits(true, among).second, 0u);
  }
}

/// Identity of an operation, without its dependencies.
using OpIdentity =
    std::tuple<OpKind, Phase, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t,
               std::int32_t, OpCollective, Communicator, double>;

OpIdentity identity_of(const Op& op) {
  return {op.kind,       op.phase,      op.micro_batch,  op.chunk, op.block, op.bucket,
          op.peer_stage, op.collective, op.communicator, op.bytes.value};
}

/// Returns the operations that a plain pass stands for.
std::vector<OpIdentity> operations_of(const PlainPass& pass, const StepGraph& graph,
                                      std::uint32_t stage) {
  const std::uint32_t count = graph.pipeline();
  const bool forward = pass.phase == Phase::forward;
  const std::uint32_t next = (stage + 1) % count, before = (stage + count - 1) % count;
  const std::uint32_t from = forward ? before : next, to = forward ? next : before;
  Op op{.phase = pass.phase, .micro_batch = pass.micro_batch, .chunk = pass.chunk};
  std::vector<OpIdentity> out;
  const auto add_transfer = [&](OpKind kind, std::uint32_t peer) {
    op.kind = kind;
    op.peer_stage = static_cast<std::int32_t>(peer);
    op.bytes = pass.bytes;
    out.push_back(identity_of(op));
  };
  if (pass.receives) add_transfer(OpKind::receive, from);
  const auto add_block = [&](std::uint32_t block) {
    out.push_back(identity_of({.kind = OpKind::compute,
                               .phase = pass.phase,
                               .micro_batch = pass.micro_batch,
                               .chunk = pass.chunk,
                               .block = block}));
  };
  add_block(pass.block);
  for (std::uint32_t part = 0; part < pass.reductions.size(); ++part) {
    out.push_back(identity_of({.kind = OpKind::collective,
                               .phase = Phase::gradient,
                               .micro_batch = pass.micro_batch,
                               .chunk = pass.chunk,
                               .bucket = part,
                               .collective = OpCollective::reduce_scatter,
                               .communicator = Communicator::shard,
                               .bytes = pass.reductions[part].bytes}));
    if (pass.reductions[part].next_block) add_block(*pass.reductions[part].next_block);
  }
  if (forward && to == 0) ++op.chunk;
  if (!forward && stage == 0) --op.chunk;
  if (pass.sends) add_transfer(OpKind::send, to);
  return out;
}

/// Expects that a reader gives the operations of the program; returns the number of plain passes.
std::size_t expect_same_operations(StepGraph& graph, std::uint32_t stage) {
  std::vector<OpIdentity> expected, found;
  for (const Op& op : graph.program(stage, 8).ops) expected.push_back(identity_of(op));
  const std::unique_ptr<ProgramReader> reader = graph.read_program(stage, 8);
  std::size_t plain = 0;
  std::uint32_t read = ProgramReader::kFirstOp;
  ProgramReader::Part part;
  for (reader->read_part(part); !part.empty(); reader->read_part(part)) {
    if (part.pass != nullptr) {
      ++plain;
      for (const OpIdentity& op : operations_of(*part.pass, graph, stage)) found.push_back(op);
    }
    for (const Op& op : part.ops) {
      found.push_back(identity_of(op));
      for (const std::uint32_t before : op.after) EXPECT_LT(before, read);
      ++read;
    }
  }
  EXPECT_TRUE(found == expected) << "stage " << stage << ", " << found.size() << " operations, "
                                 << expected.size() << " expected";
  return plain;
}

TEST(StepProgram, AReaderGivesTheOperationsOfTheProgram) {
  for (const std::string shard : {"nothing", "optimizer", "gradients", "parameters"}) {
    for (const std::uint32_t chunks : {1u, 2u}) {
      for (const bool overlap : {false, true}) {
        Job job = small_job(1, 4, 2, 16);
        job.mutable_layout()->set_shard(shard);
        job.mutable_layout()->set_chunks(chunks);
        job.set_overlap(overlap);
        job.mutable_overlaps()->set_parameters(overlap);
        job.mutable_overlaps()->set_pipeline(overlap);
        if (chunks == 1) job.mutable_input()->set_read(1'000'000);
        StepGraph graph(job);
        std::size_t plain = 0;
        for (std::uint32_t stage = 0; stage < 4; ++stage) {
          plain += expect_same_operations(graph, stage);
        }
        EXPECT_EQ(plain > 0, shard != "parameters") << shard;
        // Of eight backward passes of a chunk the last one alone is not plain, of eight forward
        // passes the first one, and those of the first stage, which read data.
        const std::size_t expected = shard == "gradients" ? (4u + 3) * 7 * chunks : 0;
        EXPECT_GE(plain, expected) << "passes with reductions are plain";
      }
    }
  }
  Job zero_bubble = small_job(1, 4, 2, 16);
  zero_bubble.mutable_layout()->set_schedule("zero-bubble");
  StepGraph graph(zero_bubble);
  EXPECT_EQ(expect_same_operations(graph, 1), 22u)
      << "all passes but the first one and the last one for weights";
}

TEST(StepProgram, DataIsReadAheadOfItsUse) {
  Job job = small_job(1, 2, 1, 6);
  job.mutable_input()->set_read(1'000'000);
  job.mutable_input()->set_prefetch(2);
  StepGraph graph(job);
  std::vector<std::uint32_t> read;
  for (const Op& op : graph.program(0, 6).ops) {
    if (op.kind == OpKind::read) read.push_back(op.micro_batch);
  }
  // Two were there; two of the next step are read in this one.
  EXPECT_EQ(read, (std::vector<std::uint32_t>{2, 3, 4, 5, 6, 7}));
  for (const Op& op : graph.program(1, 6).ops) EXPECT_NE(op.kind, OpKind::read);
}

TEST(StepProgram, ReadersThatAreSetReadBesideEachOther) {
  Job job = small_job(1, 1, 1, 6);
  job.mutable_input()->set_read(120'000'000);
  StepGraph graph(job);
  EXPECT_DOUBLE_EQ(graph.read_interval().value, 0.12) << "one reader";
  const auto first_read = [&graph] {
    for (const Op& op : graph.program(0, 6).ops) {
      if (op.kind == OpKind::read) return op.micro_batch;
    }
    return 0u;
  };
  EXPECT_EQ(first_read(), 2u);
  const Program& before = graph.program(0, 6);
  graph.set_input(4, 5);
  EXPECT_DOUBLE_EQ(graph.read_interval().value, 0.03);
  EXPECT_EQ(first_read(), 5u);
  EXPECT_NE(&before, &graph.program(0, 6)) << "earlier programs stay";
  graph.set_input(4, 2);
  EXPECT_DOUBLE_EQ(graph.read_interval().value, 0.06) << "two are read ahead, so two at a time";
  EXPECT_EQ(&before, &graph.program(0, 6));
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
