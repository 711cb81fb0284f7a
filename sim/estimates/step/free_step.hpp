// Contention-free duration of a training step. Called by sim/estimates/predict/estimate; one
// thread. Seconds.
//
// The duration is the longest path through the step's programs, found in one walk over them instead
// of by events, and without whole programs in memory. The times equal those of
// sim/estimates/step/iteration on the contention-free engine (tests compare both); in addition the
// walk attributes the time of each stage. For example,
// end(op) = max over dependencies of end + bytes x seconds per byte + latency.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/estimates/prices/cost_model.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::estimates {

/// Cost of a communication alone.
struct FreeTime {
  double each = 0;     ///< seconds per byte of the operation
  /// Seconds that the latencies of its messages add.
  double latency = 0;
};

/// Input of the walk. All references must outlive the call.
struct FreeStepRequest {
  const StepGraph& graph;
  std::uint32_t micro_batches = 0;        ///< micro-batches of every replica, at least 1
  std::uint32_t classes = 1;              ///< classes of replicas with different transfers
  std::vector<BlockPrice> prices;         ///< price of each block
  std::function<FreeTime(std::uint32_t of_class, std::uint32_t from, std::uint32_t to)> transfer;
  /// Cost of the collectives of a communicator; called once for each stage, communicator and kind.
  std::function<FreeTime(std::uint32_t stage, Communicator which, OpCollective kind)> collective;
};

/// Attribution of the time of a stage's GPU; the sum of the parts is the step's duration.
struct StageTime {
  double compute = 0;   ///< kernels, and time that the host adds
  double products = 0;  ///< part of `compute` in matrix products and attention
  double memory = 0;    ///< part of `compute` in kernels that the GPU's memory limits
  double inside = 0;    ///< exposed collectives inside blocks (tensor, context, expert)
  double exposed = 0;   ///< wait for gradients or parameters
  double pipeline = 0;  ///< wait for another stage
  double input = 0;     ///< wait for data
};

/// Duration of a step and the attribution by stage.
struct FreeStep {
  double duration = 0;
  std::vector<StageTime> stages;  ///< times of the first class
};

/// Returns the duration of a step and the attribution of its time. Throws an internal Error if the
/// programs wait for each other.
FreeStep free_step(const FreeStepRequest& request);

}  // namespace orrery::estimates
