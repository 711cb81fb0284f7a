// Log of the blocks that end in a step. Written while the step runs, read once at its end. One
// thread. Seconds from the step's beginning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace orrery::estimates {

/// Begin of a block, end of its kernels and its end.
struct BlockTimes {
  double began = 0, kernels_ended = 0, ended = 0;
};

/// Blocks in the order of their ends, handed out worker by worker: sums that each block added to
/// the record of its worker would wait for that record's memory. A worker's blocks follow one
/// another. Not thread-safe.
class BlockLog {
 public:
  /// Makes room for as many blocks as a step has.
  void reserve_blocks(std::size_t count) {
    kernels_.reserve(count);
    blocks_.reserve(count);
  }
  /// Adds the end of the kernels of a worker's current block.
  void add_kernels(std::uint32_t worker, double at) { kernels_.push_back({worker, at}); }
  /// Adds a block whose kernels were added, at its end.
  void add_block(std::uint32_t worker, std::uint32_t op, double began, double ended) {
    blocks_.push_back({worker, op, began, ended});
  }
  /// Calls `visit` with the number, operation and times of each block, worker by worker, and
  /// removes all blocks; also kernels whose block has not ended.
  template <typename Visit>
  void drain_blocks(std::uint32_t workers, Visit visit) {
    const Order blocks(blocks_, workers), kernels(kernels_, workers);
    for (std::uint32_t worker = 0; worker < workers; ++worker) {
      const std::uint32_t* kernel = kernels.begin_of(worker);
      const std::uint32_t* const end = blocks.begin_of(worker + 1);
      for (const std::uint32_t* index = blocks.begin_of(worker); index != end; ++index) {
        const Block& block = blocks_[*index];
        visit(worker, block.op, BlockTimes{block.began, kernels_[*kernel++].at, block.ended});
      }
    }
    blocks_.clear();
    kernels_.clear();
  }

 private:
  struct Kernels {
    std::uint32_t worker;
    double at;
  };
  struct Block {
    std::uint32_t worker, op;
    double began, ended;
  };

  /// Indices of entries by worker, and in their order for each worker: a counting sort.
  class Order {
   public:
    template <typename Entry>
    Order(const std::vector<Entry>& entries, std::uint32_t workers)
        : first_(std::size_t{workers} + 1), indices_(entries.size()) {
      for (const Entry& entry : entries) ++first_[entry.worker];
      std::uint32_t sum = 0;
      for (std::uint32_t& first : first_) first = sum += first;  // where each worker's end
      for (auto i = static_cast<std::uint32_t>(entries.size()); i-- > 0;) {
        indices_[--first_[entries[i].worker]] = i;
      }
    }
    const std::uint32_t* begin_of(std::uint32_t worker) const {
      return indices_.data() + first_[worker];
    }

   private:
    std::vector<std::uint32_t> first_, indices_;
  };

  std::vector<Kernels> kernels_;
  std::vector<Block> blocks_;
};

}  // namespace orrery::estimates
