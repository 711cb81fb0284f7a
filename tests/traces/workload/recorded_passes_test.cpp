// Passes of recorded pipelines: their order for other numbers of micro-batches, their operations,
// layouts that fit.
#include "traces/workload/recorded_passes.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/traces/recorded_job.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = Pass::Kind;
using Order = std::vector<Pass>;

std::vector<Order> one_f_one_b(std::uint32_t stages, std::uint32_t chunks,
                               std::uint32_t micro_batches) {
  std::vector<Order> orders;
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    orders.push_back(pass_order(
        {.stage = stage, .stages = stages, .chunks = chunks, .micro_batches = micro_batches}));
  }
  return orders;
}

std::vector<Order> all_forward_first(std::uint32_t stages, std::uint32_t micro_batches) {
  Order order;
  for (const Kind kind : {Kind::forward, Kind::backward}) {
    for (std::uint32_t i = 0; i < micro_batches; ++i) order.push_back({kind, i, 0});
  }
  return std::vector<Order>(stages, order);
}

/// Returns the zero-bubble schedule in a V of Qi et al. (arXiv:2401.10241, section 6) with two
/// chunks a stage. A backward pass whose gradients of weights follow at once has them within.
std::vector<Order> zero_bubble_in_v(std::uint32_t stages, std::uint32_t micro_batches) {
  std::vector<Order> orders;
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    Order order;
    std::map<std::pair<Kind, std::uint32_t>, std::uint32_t> next;
    const auto add = [&](Kind kind, std::uint32_t chunk) {
      const std::uint32_t number = next[{kind, chunk}]++;
      if (number < micro_batches) order.push_back({kind, number, chunk});
    };
    const auto whole = [&](std::uint32_t chunk) {
      add(Kind::backward, chunk);
      ++next[{Kind::weights, chunk}];
    };
    for (std::uint32_t i = 0; i < 2 * (stages - stage) - 1; ++i) add(Kind::forward, 0);
    for (std::uint32_t i = 0; i < stage; ++i) add(Kind::forward, 1), add(Kind::forward, 0);
    for (std::uint32_t i = 0; i < stages - stage; ++i) add(Kind::forward, 1), whole(1);
    while (next[{Kind::forward, 1}] < std::max(micro_batches, 2 * stages - 1)) {
      add(Kind::forward, 0);
      whole(0);
      add(Kind::forward, 1);
      whole(1);
    }
    for (std::uint32_t i = 0; i < stage; ++i) add(Kind::backward, 0), add(Kind::backward, 1);
    for (std::uint32_t i = 0; i < stages - stage; ++i) {
      add(Kind::backward, 0);
      add(Kind::weights, 0);
    }
    for (const std::uint32_t chunk : {1u, 0u}) {
      while (next[{Kind::weights, chunk}] < next[{Kind::backward, chunk}]) {
        add(Kind::weights, chunk);
      }
    }
    orders.push_back(order);
  }
  return orders;
}

Order replayed(const std::vector<Order>& orders, std::uint32_t stage, std::uint32_t count,
               bool in_v = false) {
  return replayed_order(recorded_pipeline(orders, in_v), stage, count);
}

TEST(RecordedPasses, AreThoseOfTheRecordingWithTheirMessages) {
  const std::vector<Order> orders = zero_bubble_in_v(3, 7);
  const RecordedStep step = recorded_pipeline(orders, true);
  EXPECT_EQ(recorded_chunks(step), 2u);
  for (std::uint32_t stage = 0; stage < 3; ++stage) {
    const std::vector<RecordedPass> passes = recorded_passes(step, stage);
    ASSERT_EQ(passes.size(), orders[stage].size());
    for (std::size_t i = 0; i < passes.size(); ++i) EXPECT_EQ(passes[i].pass, orders[stage][i]);
  }
  // Stage 0 has the begin and the end of the model: its first forward pass only sends, that of the
  // second chunk only receives, and a backward pass with the loss sends.
  const std::vector<RecordedPass> first = recorded_passes(step, 0);
  EXPECT_EQ(first.front().ops.size(), 2u);
  const auto of = [&](const Pass& pass) {
    const auto found = std::find_if(first.begin(), first.end(),
                                    [&](const auto& each) { return each.pass == pass; });
    EXPECT_NE(found, first.end());
    return found == first.end() ? RecordedPass().ops : found->ops;
  };
  EXPECT_EQ(of({Kind::forward, 0, 1}).size(), 2u);
  EXPECT_EQ(of({Kind::backward, 0, 1}).size(), 2u);
  EXPECT_EQ(of({Kind::backward, 0, 0}).size(), 2u);
  EXPECT_EQ(of({Kind::weights, 5, 0}).size(), 1u);
}

TEST(ReplayedOrder, RecordedNumberHasTheRecordedOrder) {
  for (std::uint32_t stage = 0; stage < 4; ++stage) {
    const auto orders = zero_bubble_in_v(4, 9);
    EXPECT_EQ(replayed(orders, stage, 9, true), orders[stage]);
  }
}

TEST(ReplayedOrder, OneForwardOneBackwardGoesOn) {
  for (const std::uint32_t chunks : {1u, 2u, 3u}) {
    for (std::uint32_t stage = 0; stage < 4; ++stage) {
      const auto recorded = one_f_one_b(4, chunks, 8), longer = one_f_one_b(4, chunks, 24);
      EXPECT_EQ(replayed(recorded, stage, 24), longer[stage]) << chunks << " " << stage;
    }
  }
}

TEST(ReplayedOrder, ForwardPassesStayFirst) {
  EXPECT_EQ(replayed(all_forward_first(2, 3), 1, 9), all_forward_first(2, 9)[1]);
}

/// The part that repeats gives the schedule as it would have been recorded.
TEST(ReplayedOrder, ZeroBubbleRepeatsItsSteadyPart) {
  for (const std::uint32_t stages : {2u, 3u, 4u}) {
    const auto recorded = zero_bubble_in_v(stages, 2 * stages + 1);
    const RecordedStep step = recorded_pipeline(recorded, true);
    for (const std::uint32_t count : {2 * stages + 2, 4 * stages, 50u}) {
      EXPECT_TRUE(has_replayed_order(step, count));
      const auto longer = zero_bubble_in_v(stages, count);
      for (std::uint32_t stage = 0; stage < stages; ++stage) {
        EXPECT_EQ(replayed_order(step, stage, count), longer[stage]) << stages << " " << count;
      }
    }
  }
}

/// Groups of three micro-batches with two stages and two chunks, which is not the order of
/// step_schedule.hpp: three more at a time.
TEST(ReplayedOrder, GroupsOfMicroBatchesRepeat) {
  const auto groups = [](std::uint32_t count) {
    Order order;
    for (std::uint32_t first = 0; first < count; first += 3) {
      for (const std::uint32_t chunk : {0u, 1u}) {
        for (std::uint32_t i = first; i < first + 3; ++i) {
          order.push_back({Kind::forward, i, chunk});
        }
      }
      for (const std::uint32_t chunk : {1u, 0u}) {
        for (std::uint32_t i = first; i < first + 3; ++i) {
          order.push_back({Kind::backward, i, chunk});
        }
      }
    }
    return std::vector<Order>(2, order);
  };
  const RecordedStep step = recorded_pipeline(groups(6));
  EXPECT_EQ(replayed_order(step, 1, 12), groups(12)[1]);
  Order shorter = groups(12)[1];
  std::erase_if(shorter, [](const Pass& pass) { return pass.micro_batch >= 10; });
  EXPECT_EQ(replayed_order(step, 1, 10), shorter);
}

TEST(ReplayedOrder, WithoutAPartThatRepeatsTheRestRunsOneByOne) {
  const auto recorded = zero_bubble_in_v(4, 7);
  const RecordedStep step = recorded_pipeline(recorded, true);
  EXPECT_TRUE(has_replayed_order(step, 7));
  EXPECT_FALSE(has_replayed_order(step, 8));
  const Order order = replayed_order(step, 2, 9);
  EXPECT_EQ(order.size(), recorded[2].size() + 2 * 4);
  EXPECT_TRUE(std::equal(recorded[2].begin(), recorded[2].end(), order.begin()));
  Job job = StepGraph(recorded_job(step)).job();
  job.set_global_batch(8 * job.layout().data());
  std::vector<std::string> found;
  for (const Problem& each : job_problems(job)) found.push_back(each.path + ": " + each.message);
  EXPECT_THAT(found, ElementsAre(AllOf(HasSubstr("global_batch: expected at most 7 micro-batches"),
                                       HasSubstr("found 8"), HasSubstr("OneOfATest"))));
}

/// A repetition in which a stage would wait for a message behind its own next pass is no order.
TEST(ReplayedOrder, RepetitionsThatWaitForThemselvesAreNone) {
  // Stage 0 repeats F B, stage 1 runs all forward passes first: two in a row never wait.
  std::vector<Order> orders{{}, {}};
  for (std::uint32_t i = 0; i < 4; ++i) orders[0].push_back({Kind::forward, i, 0});
  for (std::uint32_t i = 0; i < 4; ++i) orders[0].push_back({Kind::backward, i, 0});
  for (std::uint32_t i = 0; i < 4; ++i) {
    orders[1].push_back({Kind::forward, i, 0});
    orders[1].push_back({Kind::backward, i, 0});
  }
  EXPECT_FALSE(has_replayed_order(recorded_pipeline(orders), 5));
}

using Identity = std::tuple<Phase, std::uint32_t, std::uint32_t, std::uint32_t>;

/// All sends arrive, and operations wait for earlier ones only.
TEST(ReplayedPipeline, EverySendHasItsReceive) {
  for (const bool in_v : {false, true}) {
    const auto orders = in_v ? zero_bubble_in_v(3, 7) : one_f_one_b(3, 2, 6);
    const RecordedStep step = recorded_pipeline(orders, in_v);
    StepGraph graph(recorded_job(step, 2));
    for (const std::uint32_t count : {1u, 3u, 6u, 7u, 12u}) {
      std::multiset<Identity> sent, received;
      for (std::uint32_t stage = 0; stage < 3; ++stage) {
        const Program& program = graph.program(stage, count);
        int computed = 0;
        for (std::uint32_t i = 0; i < program.ops.size(); ++i) {
          const Op& op = program.ops[i];
          for (const std::uint32_t before : op.after) EXPECT_LT(before, i);
          computed += op.kind == OpKind::compute && op.phase != Phase::optimizer;
          const auto peer = static_cast<std::uint32_t>(op.peer_stage);
          if (op.kind == OpKind::send) sent.emplace(op.phase, op.micro_batch, op.chunk, peer);
          if (op.kind == OpKind::receive) {
            received.emplace(op.phase, op.micro_batch, op.chunk, stage);
          }
        }
        EXPECT_GE(computed, static_cast<int>(4 * count));
      }
      EXPECT_EQ(sent, received) << in_v << " " << count;
      EXPECT_EQ(sent.size(), 2 * count * (in_v ? 4 : 5));
    }
  }
}

/// Also where passes are copies of one recorded pass.
TEST(ReplayedPipeline, WaitsForAMessageAreThoseForTheNewest) {
  StepGraph graph(recorded_job(recorded_pipeline(one_f_one_b(2, 1, 4)), 2));
  for (const std::uint32_t count : {2u, 4u, 9u}) {
    std::optional<std::uint32_t> sent;
    std::uint32_t waits = 0;
    const Program& program = graph.program(0, count);
    for (std::uint32_t i = 0; i < program.ops.size(); ++i) {
      const Op& op = program.ops[i];
      for (const std::uint32_t before : op.after) {
        if (program.ops[before].kind != OpKind::send) continue;
        EXPECT_EQ(before, sent);
        ++waits;
      }
      if (op.kind == OpKind::send) sent = i;
    }
    EXPECT_EQ(waits, 2 * count - 1) << count;  // each pass but the first
  }
}

/// Replicas with fewer micro-batches, or none, exchange their gradients with the others.
TEST(ReplayedPipeline, ExchangeHasOneIdentityWhateverTheMicroBatches) {
  StepGraph graph(recorded_job(recorded_pipeline(zero_bubble_in_v(2, 5), true), 2));
  for (std::uint32_t stage = 0; stage < 2; ++stage) {
    std::set<std::vector<Identity>> seen;
    for (const std::uint32_t count : {0u, 1u, 3u, 5u, 9u}) {
      std::vector<Identity> keys;
      for (const Op& op : graph.program(stage, count).ops) {
        if (op.kind != OpKind::collective) continue;
        keys.emplace_back(op.phase, op.micro_batch, op.chunk, op.bucket);
      }
      EXPECT_EQ(keys.size(), 1u);
      seen.insert(keys);
    }
    EXPECT_EQ(seen.size(), 1u) << stage;
  }
}

/// Replicas of a step with sharded state have the collectives of the one with the most
/// micro-batches, but for the missing ones.
TEST(ReplayedPipeline, ShorterReplicasTakePartInCollectivesOfTheLongest) {
  RecordedStep step = recorded_pipeline(zero_bubble_in_v(2, 5), true);
  step.set_sharded(true);
  for (const std::uint32_t stage : {0u, 1u}) {
    auto& ops = stage == 0 ? *step.mutable_ops() : *step.mutable_stages(0)->mutable_ops();
    for (RecordedOp& op : ops) {
      if (op.collective() == "all_reduce") op.set_collective("reduce_scatter");
    }
  }
  StepGraph graph(recorded_job(step, 2));
  const auto keys = [&](std::uint32_t stage, std::uint32_t count) {
    std::set<Identity> out;
    for (const Op& op : graph.program(stage, count, 7).ops) {
      if (op.kind != OpKind::collective) continue;
      out.emplace(op.phase, op.micro_batch, op.chunk, op.bucket);
    }
    return out;
  };
  for (const std::uint32_t stage : {0u, 1u}) {
    const std::set<Identity> longest = keys(stage, 7);
    EXPECT_EQ(longest.size(), 1u);
    for (const std::uint32_t count : {0u, 3u, 5u, 6u}) {
      const std::set<Identity> some = keys(stage, count);
      EXPECT_TRUE(std::includes(longest.begin(), longest.end(), some.begin(), some.end()));
    }
  }
}

/// A micro-batch has the same work whether its gradients of weights are apart or not.
TEST(ReplayedPipeline, WorkFollowsTheSourceOfAMicroBatch) {
  const RecordedStep step = recorded_pipeline(zero_bubble_in_v(2, 5), true);
  StepGraph graph(recorded_job(step, 2));
  const auto work = [&](std::uint32_t count) {
    int kernels = 0;
    for (const Op& op : graph.program(1, count).ops) {
      if (op.kind != OpKind::compute || op.phase != Phase::backward) continue;
      kernels += static_cast<int>(graph.blocks()[op.block].kernels.size());
    }
    return kernels;
  };
  int whole = 0, apart = 0;
  for (const RecordedPass& each : recorded_passes(step, 1)) {
    if (each.pass.micro_batch == 4) apart += each.pass.kind == Kind::weights;
    if (each.pass.micro_batch == 3) whole += each.pass.kind == Kind::backward;
  }
  ASSERT_EQ(apart, 2);  // two chunks
  EXPECT_EQ(whole, 2);
  // The last micro-batch is a copy of the last recorded one, all others of the first four.
  EXPECT_EQ(work(1), 4);
  EXPECT_EQ(work(6) - work(5), work(7) - work(6));
}

TEST(ReplayedPipeline, StagesHaveTheirOwnMemory) {
  const StepGraph graph(recorded_job(recorded_pipeline(one_f_one_b(2, 1, 4)), 8));
  EXPECT_EQ(graph.memory(0, 4).allocated().value, 100e6);
  EXPECT_EQ(graph.memory(1, 4).allocated().value, 200e6);
}

TEST(ReplayedPipeline, DefaultsAndRefusals) {
  const RecordedStep step = recorded_pipeline(one_f_one_b(3, 2, 6));
  Job job = StepGraph(recorded_job(step, 0)).job();
  EXPECT_EQ(job.layout().pipeline(), 3u);
  EXPECT_EQ(job.layout().chunks(), 2u);
  EXPECT_EQ(job.layout().data(), 2u);
  EXPECT_EQ(job.layout().order(), "pipeline-last");
  EXPECT_EQ(job.global_batch(), 12u);
  const auto problems = [&job] {
    std::vector<std::string> out;
    for (const Problem& each : job_problems(job)) out.push_back(each.path + ": " + each.message);
    return out;
  };
  EXPECT_THAT(problems(), IsEmpty());
  job.mutable_layout()->set_pipeline(2);
  job.mutable_layout()->set_chunks(1);
  EXPECT_THAT(problems(),
              testing::IsSupersetOf({HasSubstr("layout.pipeline: expected 3, as recorded, found 2"),
                                     HasSubstr("layout.chunks: expected 2, as recorded")}));
  job.mutable_layout()->set_pipeline(3);
  job.mutable_layout()->set_chunks(2);
  job.mutable_layout()->set_order("data-last");
  EXPECT_THAT(problems(), testing::Contains(HasSubstr("layout.order: expected the recorded")));
}

}  // namespace
}  // namespace orrery
