// Compute streams of a step's workers. Owned by the execution of a step; one thread. Seconds from
// the step's beginning.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tables/huge_pages.hpp"
#include "sim/estimates/step/block_log.hpp"
#include "sim/estimates/step/iteration.hpp"
#include "sim/estimates/step/step_hardware.hpp"
#include "sim/estimates/step/step_programs.hpp"
#include "sim/estimates/step/step_record.hpp"

namespace orrery::estimates {

/// Compute streams of the workers: each worker computes one block after the other in its program's
/// order. The kernels of a block end with the slowest of its GPUs; then the collectives inside the
/// node follow. Not thread-safe.
class ComputeStreams {
 public:
  /// Starts idle. All arguments must outlive this object.
  ComputeStreams(const IterationRequest& request, const StepPrograms& programs,
                 const StepHardware& hardware, StepRecord& record, OpListener& listener);

  /// Returns to the state of the constructor. Call only after the end of a step that was not cut
  /// short.
  void reset_streams();
  /// Starts the worker's next block if the worker is idle and the block waits for no other
  /// operation; otherwise, and after the last block, does nothing. At the end of the block keeps
  /// the block for record_blocks(); then calls on_op_end() of the listener and, unless the step is
  /// over, next().
  void next(std::uint32_t worker);
  /// Records the blocks that have ended in the step, and the micro-batches whose last backward
  /// block has. Call at the end of the step.
  void record_blocks();
  /// Returns the memory of a worker's stream.
  const void* memory_of(std::uint32_t worker) const { return &streams_[worker]; }
  /// Records the kind of the last dependency of the worker's next block: after a collective or a
  /// read the idle time before that block counts as exposed, after a read also as input, if the
  /// block is a forward or backward one. The last call before the block counts; a computation again
  /// after each block.
  void set_last_dependency(std::uint32_t worker, OpKind kind) {
    streams_[worker].last_dependency = kind;
  }

 private:
  /// State of one worker's stream: half a cache line.
  struct alignas(32) Stream {
    double began = 0;                          ///< begin of the newest block
    double kernels_ended = 0;                  ///< end of the newest kernels
    double ended = 0;                          ///< end of the newest ended block
    std::uint32_t next = 0;                    ///< index of the next block in the worker's order
    std::uint16_t running_members = 0;         ///< hosts that still compute the block, of several
    OpKind last_dependency = OpKind::compute;  ///< kind of the next block's last dependency
    bool busy = false;
  };
  /// Starts the kernels of a block on all simulated GPUs of the worker.
  void start(std::uint32_t worker, std::uint32_t op);
  /// Ends the kernels of one GPU; after the last one, starts the collectives inside the node.
  void member_ended(std::uint32_t worker, std::uint32_t op);
  /// Ends the block and starts the next one.
  void block_ended(std::uint32_t worker, std::uint32_t op);

  const IterationRequest& request_;
  const StepPrograms& programs_;
  const StepHardware& hardware_;
  StepRecord& record_;
  OpListener& listener_;
  HugeVector<Stream> streams_;  ///< stream of each worker
  BlockLog log_;
};

}  // namespace orrery::estimates
