#include "sim/estimates/step/program_index.hpp"

#include <gtest/gtest.h>

namespace orrery::estimates {
namespace {

Program by_hand() {
  Program program{.stage = 1, .micro_batches = 2, .ops = {}};
  program.ops.push_back({.kind = OpKind::receive, .phase = Phase::forward, .micro_batch = 1,
                         .chunk = 1, .peer_stage = 0});
  program.ops.push_back({.kind = OpKind::compute, .phase = Phase::forward, .micro_batch = 1,
                         .chunk = 1, .after = {0}});
  program.ops.push_back({.kind = OpKind::collective, .phase = Phase::gradient, .bucket = 0,
                         .collective = OpCollective::all_reduce, .after = {1}});
  program.ops.push_back({.kind = OpKind::collective, .phase = Phase::gradient, .bucket = 1,
                         .collective = OpCollective::all_reduce, .after = {1, 2}});
  program.ops.push_back({.kind = OpKind::collective, .phase = Phase::gradient, .bucket = 1,
                         .collective = OpCollective::all_reduce,
                         .communicator = Communicator::shard, .after = {1}});
  return program;
}

TEST(ProgramIndex, KnowsWhoWaitsForWhom) {
  const Program program = by_hand();
  const ProgramIndex index(program, 2);
  // The receive waits for its send.
  EXPECT_EQ(index.missing(), (std::vector<std::uint32_t>{1, 1, 1, 2, 1}));
  EXPECT_EQ(std::vector<std::uint32_t>(index.dependents(1).begin(), index.dependents(1).end()),
            (std::vector<std::uint32_t>{2, 3, 4}));
  EXPECT_TRUE(index.dependents(4).empty());
  EXPECT_EQ(index.compute_order(), std::vector<std::uint32_t>{1});
}

TEST(ProgramIndex, FindsTheReceiveOfASend) {
  const Program program = by_hand();
  const ProgramIndex index(program, 2);
  EXPECT_EQ(index.receive_op(Phase::forward, 1, 1), 0u);
  EXPECT_EQ(index.receive_op(Phase::backward, 1, 1), ProgramIndex::kNone);
  EXPECT_EQ(index.receive_op(Phase::forward, 0, 1), ProgramIndex::kNone);
}

TEST(ProgramIndex, CountsCollectivesByCommunicator) {
  const Program program = by_hand();
  const ProgramIndex index(program, 2);
  EXPECT_EQ(index.collectives(Communicator::gradient), (std::vector<std::uint32_t>{2, 3}));
  EXPECT_EQ(index.collectives(Communicator::shard), std::vector<std::uint32_t>{4});
  EXPECT_TRUE(index.collectives(Communicator::expert).empty());
  EXPECT_EQ(index.ordinal(3), 1u);
  EXPECT_EQ(index.ordinal(4), 0u);
}

}  // namespace
}  // namespace orrery::estimates
