// The blocks of a step's workers on their GPUs: each worker computes one block after the other, in
// its program's order; a block ends with the slowest of its GPUs, and with the collectives inside
// the node. Kept by the execution of a step; one thread. Seconds from the step's beginning.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/estimates/step/iteration.hpp"
#include "sim/estimates/step/step_hardware.hpp"
#include "sim/estimates/step/step_programs.hpp"
#include "sim/estimates/step/step_record.hpp"

namespace orrery::estimates {

class ComputeStreams {
 public:
  /// All outlive this.
  ComputeStreams(const IterationRequest& request, const StepPrograms& programs,
                 const StepHardware& hardware, StepRecord& record, OpListener& listener);

  /// The worker's next block begins, if it is free and the block waits for nobody.
  void next(std::uint32_t worker);
  /// Whether a collective or input was what its next block came last to.
  void held_up(std::uint32_t worker, bool held_up) { streams_[worker].held_up = held_up; }

 private:
  struct Stream {
    std::size_t next = 0;  ///< in the order of its blocks
    bool busy = false;
    double began = 0, ended = 0;  ///< of the newest block
    bool held_up = false;
    std::uint32_t running_members = 0;         ///< still in the block
    std::vector<std::uint32_t> backward_left;  ///< by micro-batch: backward blocks to come
  };
  void start(std::uint32_t worker, std::uint32_t op);
  void member_ended(std::uint32_t worker, std::uint32_t op);
  void block_ended(std::uint32_t worker, std::uint32_t op);

  const IterationRequest& request_;
  const StepPrograms& programs_;
  const StepHardware& hardware_;
  StepRecord& record_;
  OpListener& listener_;
  std::vector<Stream> streams_;  ///< by worker
};

}  // namespace orrery::estimates
