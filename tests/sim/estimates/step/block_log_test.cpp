// Blocks of many workers, which end in any order.
#include "sim/estimates/step/block_log.hpp"

#include <cstdint>

#include <gtest/gtest.h>

namespace orrery::estimates {
namespace {

TEST(BlockLog, EachBlockHasAPlaceOfItsOwn) {
  constexpr std::uint32_t kWorkers = 3, kBlocks = 4;
  BlockLog log(kWorkers, kBlocks);
  const auto times = [](std::uint32_t worker, std::uint32_t index) {
    return BlockTimes{10.0 * worker + index, 100.0 + worker, 200.0 + index};
  };
  for (std::uint32_t worker = kWorkers; worker-- > 0;) {
    for (std::uint32_t i = 0; i < kBlocks; ++i) log.set_block(worker, i, times(worker, i));
  }
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
    for (std::uint32_t i = 0; i < kBlocks; ++i) {
      EXPECT_EQ(log.times_of(worker, i).began, times(worker, i).began);
      EXPECT_EQ(log.times_of(worker, i).kernels_ended, times(worker, i).kernels_ended);
      EXPECT_EQ(log.times_of(worker, i).ended, times(worker, i).ended);
    }
  }
}

}  // namespace
}  // namespace orrery::estimates
