// Programs of a step's workers and their progress. Owned by the execution of a step; one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/tables/huge_pages.hpp"
#include "sim/estimates/engine/engine.hpp"
#include "sim/estimates/plan/plan.hpp"
#include "sim/estimates/prices/cost_model.hpp"
#include "sim/estimates/step/program_index.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::estimates {

/// Programs of all workers of a step, with the dependencies that are left. A worker is a replica
/// class at a stage, numbered class by class. Not thread-safe.
///
/// For example, with 4 stages worker 6 is class 1 at stage 2.
class StepPrograms {
 public:
  /// Builds the indices of all programs, with merged blocks (merge_blocks()) if `merges`. All
  /// arguments must outlive this object; `prices` are those of the graph's blocks.
  StepPrograms(StepGraph& graph, const Plan& plan, const std::vector<BlockPrice>& prices,
               bool merges);

  /// Restores the dependencies of all operations, none of which counts as ended any more.
  void reset_progress();

  /// Returns the number of workers.
  std::uint32_t workers() const { return static_cast<std::uint32_t>(index_of_.size()); }
  /// Returns the replica class of a worker.
  std::uint32_t class_of(std::uint32_t worker) const { return worker / stages_; }
  /// Returns the stage of a worker.
  std::uint32_t stage_of(std::uint32_t worker) const { return worker % stages_; }
  /// Returns the worker of the same class at another stage.
  std::uint32_t at_stage(std::uint32_t worker, std::uint32_t stage) const {
    return class_of(worker) * stages_ + stage;
  }
  /// Returns the program index of a worker.
  const ProgramIndex& index(std::uint32_t worker) const { return *programs_[index_of_[worker]]; }
  const ProgramIndex& index(std::uint32_t of_class, std::uint32_t stage) const {
    return index(of_class * stages_ + stage);
  }
  /// Returns the price of a block of a worker's program.
  const BlockPrice& price(std::uint32_t block) const {
    return merged_prices_.empty() ? (*prices_)[block] : merged_prices_[block];
  }
  /// Returns an operation of a worker's program.
  const Op& op(std::uint32_t worker, std::uint32_t op) const { return index(worker).ops()[op]; }

  /// Returns the worker and operation that receive the payload of a send. Throws an internal Error
  /// if the receiver's program has no such operation.
  std::pair<std::uint32_t, std::uint32_t> receive_of(std::uint32_t worker, std::uint32_t op) const;

  /// Returns the largest number of blocks of a worker.
  std::size_t most_blocks() const { return most_blocks_; }
  /// Returns true if other operations must end before `op`.
  bool has_missing(std::uint32_t worker, std::uint32_t op) const {
    return (missing_[byte_of(worker, op)] >> shift_of(op)) % kCounts > 0;
  }
  /// Removes one dependency of `op`, which must have one left (not checked). Returns true if it was
  /// the last one.
  bool satisfy_one(std::uint32_t worker, std::uint32_t op) {
    std::uint8_t& counts = missing_[byte_of(worker, op)];
    counts = static_cast<std::uint8_t>(counts - (1u << shift_of(op)));
    return (counts >> shift_of(op)) % kCounts == 0;
  }
  /// Returns the memory of the dependencies of an operation.
  const void* memory_of(std::uint32_t worker, std::uint32_t op) const {
    return &missing_[byte_of(worker, op)];
  }
  /// Counts one operation as ended. Returns true if it was the last one of the step. Call only if
  /// not is_done().
  bool end_one() { return --ops_left_ == 0; }
  /// Returns true if all operations of the step have ended.
  bool is_done() const { return ops_left_ == 0; }

 private:
  /// Values of a count of dependencies, of which a byte has two: an operation waits for few others
  /// and, if it is a receive, for its send.
  static constexpr std::uint32_t kCounts = 16;
  static_assert(FewOps::kMost + 1 < kCounts);

  std::size_t byte_of(std::uint32_t worker, std::uint32_t op) const {
    return worker * bytes_each_ + op / 2;
  }
  static std::uint32_t shift_of(std::uint32_t op) { return op % 2 * 4; }
  void add_program(const Program& program, std::uint32_t chunks);
  /// Returns the program, or the one with merged blocks.
  const Program& merged(const Program& program);

  const std::uint32_t stages_;
  const std::vector<BlockPrice>* prices_;
  std::vector<BlockPrice> merged_prices_;  ///< prices with those of merged blocks; empty: none
  std::vector<std::unique_ptr<const Program>> merged_;
  std::vector<std::unique_ptr<const ProgramIndex>> programs_;  ///< each once
  std::vector<std::uint32_t> index_of_;  ///< index in programs_ of each worker
  std::size_t bytes_each_ = 0;           ///< counts of a worker
  /// Dependencies not yet ended, by byte_of() and shift_of(): a cache line has those of 128
  /// operations.
  HugeVector<std::uint8_t> missing_;
  std::size_t ops_left_ = 0;
  std::size_t most_blocks_ = 0;
};

/// Observer of ended operations; implemented by the execution of a step.
class OpListener {
 public:
  virtual ~OpListener() = default;
  /// Handles the end of an operation of a worker.
  virtual void on_op_end(std::uint32_t worker, std::uint32_t op) = 0;
  /// Returns the memory that on_op_end() accesses first for an operation of a worker; the last
  /// address is null.
  virtual MemoryHint memory_of_end(std::uint32_t worker, std::uint32_t op) const = 0;
  /// Returns true if the step has ended and no further operation may start.
  virtual bool is_over() const = 0;
};

}  // namespace orrery::estimates
