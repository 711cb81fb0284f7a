// Index of a program for its execution: dependencies, receives and the order of collectives.
// Immutable after construction; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "traces/workload/step_graph.hpp"

namespace orrery::estimates {

/// Index of one program, built once and shared by all workers that run the program. Keeps a pointer
/// to the program, which must outlive this object. Immutable; thread-safe.
class ProgramIndex {
 public:
  /// Builds the index; `chunks` is the number of model chunks per stage. Throws std::out_of_range
  /// for an operation of a micro-batch or chunk that the program lacks.
  explicit ProgramIndex(const Program& program, std::uint32_t chunks);

  /// Returns the program of the constructor.
  const Program& program() const { return *program_; }
  /// Returns the operations of the program, by number.
  const std::vector<Op>& ops() const { return program_->ops; }
  /// Returns, by operation, the number of operations on which the operation depends directly, with
  /// the send of another worker for a receive.
  const std::vector<std::uint32_t>& missing() const { return missing_; }
  /// Returns the operations that depend on `op`.
  std::span<const std::uint32_t> dependents(std::uint32_t op) const {
    return std::span(dependents_).subspan(first_[op], first_[op + 1] - first_[op]);
  }
  /// Returns the compute operations in program order.
  const std::vector<std::uint32_t>& compute_order() const { return compute_order_; }
  /// Returns the number of backward and weight-gradient blocks, by micro-batch.
  const std::vector<std::uint32_t>& backward_blocks() const { return backward_blocks_; }
  /// Returns the receive of a phase, micro-batch and chunk; kNone if the program has none.
  /// Micro-batch and chunk must be below those of the program (not checked).
  std::uint32_t receive_op(Phase phase, std::uint32_t micro_batch, std::uint32_t chunk) const {
    const std::size_t at = slot(phase, micro_batch, chunk);
    return at < receives_.size() ? receives_[at] : kNone;
  }

  /// Identity of a collective across programs with different numbers of micro-batches.
  using CollectiveKey = std::tuple<Phase, std::uint32_t, std::uint32_t, std::uint32_t,
                                   OpCollective>;  // micro-batch, chunk, bucket
  /// Returns the identity of a collective.
  static CollectiveKey key_of(const Op& op) {
    return {op.phase, op.micro_batch, op.chunk, op.bucket, op.collective};
  }
  /// Returns the collectives of a communicator in program order; empty if the program has none.
  const std::vector<std::uint32_t>& collectives(Communicator which) const;
  /// Returns the index of a collective among those of its communicator; 0 for other operations.
  std::uint32_t ordinal(std::uint32_t op) const { return ordinal_[op]; }

  static constexpr std::uint32_t kNone = ~0u;

 private:
  /// Returns the index of a receive in receives_.
  std::size_t slot(Phase phase, std::uint32_t micro_batch, std::uint32_t chunk) const {
    const std::size_t each = std::size_t{program_->micro_batches} * chunks_;
    return (phase == Phase::forward ? 0 : each) + std::size_t{chunk} * program_->micro_batches +
           micro_batch;
  }
  /// Adds an operation to the index.
  void add(std::uint32_t op);

  const Program* program_;
  std::uint32_t chunks_;
  std::vector<std::uint32_t> missing_, first_, dependents_, compute_order_, backward_blocks_;
  std::vector<std::uint32_t> receives_, ordinal_;
  std::map<Communicator, std::vector<std::uint32_t>> collectives_;
};

}  // namespace orrery::estimates
