// A program as its execution needs it: who waits for whom, which op receives what, which
// collectives come in which order. Made once per program and shared by all workers that run it.
// Immutable after building; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "traces/training/step_graph.hpp"

namespace orrery::estimates {

class ProgramIndex {
 public:
  explicit ProgramIndex(const Program& program, std::uint32_t chunks);

  const Program& program() const { return *program_; }
  const std::vector<Op>& ops() const { return program_->ops; }
  /// By op: how many others must end first.
  const std::vector<std::uint32_t>& missing() const { return missing_; }
  /// Ops that wait for `op`.
  std::span<const std::uint32_t> dependents(std::uint32_t op) const {
    return std::span(dependents_).subspan(first_[op], first_[op + 1] - first_[op]);
  }
  const std::vector<std::uint32_t>& compute_order() const { return compute_order_; }
  /// By micro-batch: backward and weight-gradient blocks.
  const std::vector<std::uint32_t>& backward_blocks() const { return backward_blocks_; }
  /// The receive of a phase, micro-batch and chunk; kNone if there is none.
  std::uint32_t receive(Phase phase, std::uint32_t micro_batch, std::uint32_t chunk) const {
    const std::size_t at = slot(phase, micro_batch, chunk);
    return at < receives_.size() ? receives_[at] : kNone;
  }

  /// What makes a collective the same in programs with different micro-batches.
  using CollectiveKey = std::tuple<Phase, std::uint32_t, std::uint32_t, std::uint32_t,
                                   OpCollective>;  // micro-batch, chunk, bucket
  static CollectiveKey key_of(const Op& op) {
    return {op.phase, op.micro_batch, op.chunk, op.bucket, op.collective};
  }
  /// Ops of a communicator, in order.
  const std::vector<std::uint32_t>& collectives(Communicator which) const;
  /// Place of a collective op among those of its communicator.
  std::uint32_t ordinal(std::uint32_t op) const { return ordinal_[op]; }

  static constexpr std::uint32_t kNone = ~0u;

 private:
  std::size_t slot(Phase phase, std::uint32_t micro_batch, std::uint32_t chunk) const {
    const std::size_t each = std::size_t{program_->micro_batches} * chunks_;
    return (phase == Phase::forward ? 0 : each) + std::size_t{chunk} * program_->micro_batches +
           micro_batch;
  }
  void add(std::uint32_t op);

  const Program* program_;
  std::uint32_t chunks_;
  std::vector<std::uint32_t> missing_, first_, dependents_, compute_order_, backward_blocks_;
  std::vector<std::uint32_t> receives_, ordinal_;
  std::map<Communicator, std::vector<std::uint32_t>> collectives_;
};

}  // namespace orrery::estimates
