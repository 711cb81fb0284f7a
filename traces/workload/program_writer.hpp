// Writer of one rank's program: its operations in order, each with the dependencies of its kind:
// blocks of a GPU, collectives of a communicator and reads run in sequence. Used by
// traces/workload/step_program, which knows the parts of a step; one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "traces/workload/step_graph.hpp"
#include "traces/workload/step_schedule.hpp"

namespace orrery {

/// Program under construction.
class ProgramWriter {
 public:
  using Index = std::uint32_t;

  /// Constructs an empty program. The graph must outlive it. `element`: bytes of a value sent
  /// between stages; `first_op`: index of the first operation, for a reader of the program.
  ProgramWriter(const StepGraph& graph, std::uint32_t stage, std::uint32_t micro_batches,
                double element, Index first_op = 0);

  /// Returns the operations since the last drop_ops().
  std::span<const Op> ops() const { return program_.ops; }
  /// Removes the operations so far. Indices of later operations count the removed ones.
  void drop_ops() {
    first_op_ += static_cast<Index>(program_.ops.size());
    program_.ops.clear();
  }
  /// Allocates room for `ops` operations.
  void reserve(std::size_t ops) { program_.ops.reserve(ops); }
  /// Returns the program; drop_ops() must not have been called. Call last: the writer is of no use
  /// afterwards.
  std::unique_ptr<Program> take_program() { return std::make_unique<Program>(std::move(program_)); }

  /// Adds the execution of `block` (index into StepGraph::blocks()) for the micro-batch and chunk
  /// of `pass`, and returns the index of the operation, which becomes last_compute(). The operation
  /// waits for the operations `after`, for the newest compute operation, and, if sends block, for
  /// the newest send since then. Throws an internal Error for more than seven dependencies, as
  /// collective().
  Index add_compute(Phase phase, const Pass& pass, std::uint32_t block,
                    const FewOps& after);
  /// Adds a collective and appends its index to `out`, if given; does nothing if its group has one
  /// rank or `bytes` is not above 0. The collective waits for `after` and for the newest collective
  /// of the communicator `which`, and becomes the newest one. Of `of` the phase, micro-batch, chunk
  /// and bucket count.
  void collective(const Op& of, Communicator which, OpCollective kind, double bytes,
                  const FewOps& after, FewOps* out = nullptr);
  /// Adds a receive from the next stage (`from_next`) or the previous one, and appends its index to
  /// `inputs`. The receive waits for no operation of this program.
  void add_receive(Phase phase, const Pass& pass, bool from_next, FewOps& inputs);
  /// Adds a send of the result of the newest compute operation, which must exist, to the next stage
  /// (`to_next`) or the previous one. With blocking sends the next compute operation waits for the
  /// send.
  void add_send(Phase phase, const Pass& pass, bool to_next);
  /// Adds a send or a receive of `bytes` of another stage, and returns its index. The message waits
  /// for `after`. The chunk of `pass` is that of the receiver.
  Index add_message(OpKind kind, Phase phase, const Pass& pass, std::uint32_t peer, Bytes bytes,
                    const FewOps& after);
  /// Completes a pass that a reader returns in place of operations: whether its block waits for a
  /// send, its bytes, and the operation that its reductions wait for. Later operations wait for
  /// ProgramReader::kNewestBlock, kNewestSend and kNewestReduction.
  void skip_pass(PlainPass& pass);
  /// Adds the read of the micro-batch `prefetch` after this one, which waits for the newest read
  /// and compute operation, and appends this one's read to `inputs`; the first `prefetch`
  /// micro-batches have no read of their own. Call for micro-batches 0, 1, 2, ... in order. No
  /// effect for a job without input.
  void read(std::uint32_t micro_batch, FewOps& inputs);

  /// Returns the newest compute operation; nothing before the first.
  const std::optional<Index>& last_compute() const { return last_compute_; }
  /// Returns the newest compute operation as a list of dependencies; empty before the first.
  FewOps so_far() const { return last_compute_ ? FewOps{*last_compute_} : FewOps{}; }
  /// Returns the newest collective of a communicator; nothing before the first.
  const std::optional<Index>& last_collective(Communicator which) const {
    return last_on_[static_cast<std::size_t>(which)];
  }
  /// Returns the newest collectives of all communicators.
  FewOps last_collectives() const;

 private:
  /// Adds an operation in place and returns the operation.
  Op& add(OpKind kind, Phase phase, std::uint32_t micro_batch, std::uint32_t chunk);
  /// Returns the index of the newest operation.
  Index newest() const { return first_op_ + static_cast<Index>(program_.ops.size()) - 1; }

  /// Returns the next stage or the previous one; the last stage is followed by the first.
  std::uint32_t neighbour(bool next) const {
    return (program_.stage + (next ? 1 : stages_ - 1)) % stages_;
  }

  static constexpr std::size_t kCommunicators = 7;

  const StepGraph& graph_;
  Program program_;
  Index first_op_;  ///< index of the first operation of program_
  const std::uint32_t stages_;
  const bool blocking_;    ///< true: operations after a send wait for it
  const double boundary_;  ///< bytes between stages
  std::optional<Index> last_compute_, last_read_, last_send_;
  std::vector<Index> reads_;               ///< reads from micro-batch `prefetch` on
  /// Newest collective and number of ranks, indexed by communicator.
  std::array<std::optional<Index>, kCommunicators> last_on_;
  std::array<std::uint32_t, kCommunicators> sizes_;
};

}  // namespace orrery
