// Log of the blocks that end in a step. Written while the step runs, read once at its end. One
// thread. Seconds from the step's beginning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/tables/huge_pages.hpp"

namespace orrery::estimates {

/// Begin of a block, end of its kernels and its end.
struct BlockTimes {
  double began = 0, kernels_ended = 0, ended = 0;
};

/// Times of the blocks of all workers. The blocks of a worker lie together: replicas of a large
/// step run one after the other (Engine::run_parts). Sums that each block added to the record of
/// its worker would wait for that record's memory. Not thread-safe.
class BlockLog {
 public:
  /// Makes room for the blocks of `workers` workers with at most `most` blocks each.
  BlockLog(std::uint32_t workers, std::size_t most) : most_(most), times_(workers * most) {}
  /// Sets the times of a worker's block; `index` counts the worker's blocks from 0.
  void set_block(std::uint32_t worker, std::uint32_t index, const BlockTimes& times) {
    times_[worker * most_ + index] = times;
  }
  /// Returns the memory of the times of a worker's block.
  const void* memory_of(std::uint32_t worker, std::uint32_t index) const {
    return &times_[worker * most_ + index];
  }
  /// Returns the times of a worker's block, which must have been set.
  const BlockTimes& times_of(std::uint32_t worker, std::uint32_t index) const {
    return times_[worker * most_ + index];
  }

 private:
  const std::size_t most_;
  HugeVector<BlockTimes> times_;  ///< times by worker, then by index
};

}  // namespace orrery::estimates
