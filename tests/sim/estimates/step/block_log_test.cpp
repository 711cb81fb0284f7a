// Blocks of many workers, which end in any order.
#include "sim/estimates/step/block_log.hpp"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace orrery::estimates {
namespace {

struct Seen {
  std::uint32_t worker, op;
  double began, kernels_ended, ended;
  friend bool operator==(const Seen&, const Seen&) = default;
};

std::vector<Seen> drain(BlockLog& log, std::uint32_t workers) {
  std::vector<Seen> seen;
  log.drain_blocks(workers, [&](std::uint32_t worker, std::uint32_t op, const BlockTimes& times) {
    seen.push_back({worker, op, times.began, times.kernels_ended, times.ended});
  });
  return seen;
}

TEST(BlockLog, HandsOutTheBlocksOfEachWorkerInTheirOrderWithTheirKernels) {
  BlockLog log;
  log.add_kernels(2, 1);
  log.add_kernels(0, 2);
  log.add_block(0, 7, 0, 3);
  log.add_kernels(0, 4);
  log.add_block(2, 5, 0.5, 5);
  log.add_block(0, 9, 3, 6);
  log.add_kernels(2, 7);  // the step ends before the block
  const std::vector<Seen> expected{{0, 7, 0, 2, 3}, {0, 9, 3, 4, 6}, {2, 5, 0.5, 1, 5}};
  EXPECT_EQ(drain(log, 4), expected);
  EXPECT_TRUE(drain(log, 4).empty());
}

}  // namespace
}  // namespace orrery::estimates
