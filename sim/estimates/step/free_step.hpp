// What a training step takes where nothing shares: the longest path through its programs, found in
// one walk over them instead of by an engine's events. The times are those of
// sim/estimates/step/iteration on sim/estimates/engine/free_engine (tests), and beside them what
// the time went into. Called by sim/estimates/predict/estimate; one thread. Seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/estimates/prices/cost_model.hpp"
#include "traces/training/step_graph.hpp"

namespace orrery::estimates {

/// What a communication takes, alone: bytes at a rate, then what its messages' latencies add.
struct FreeTime {
  double each = 0;     ///< seconds per byte of the operation
  double latency = 0;
};

struct FreeStepRequest {
  StepGraph& graph;
  std::uint32_t micro_batches = 0;        ///< of every replica
  std::uint32_t classes = 1;              ///< of replicas whose transfers differ
  std::vector<BlockPrice> prices;         ///< by block
  std::function<FreeTime(std::uint32_t of_class, std::uint32_t from, std::uint32_t to)> transfer;
  std::function<FreeTime(std::uint32_t stage, const Op& op)> collective;
};

/// What the time of a stage's GPU went into; together a step's duration.
struct StageTime {
  double compute = 0;   ///< kernels, and what the host adds
  double inside = 0;    ///< collectives inside blocks (tensor, context, expert) that show
  double exposed = 0;   ///< waiting for gradients or parameters
  double pipeline = 0;  ///< waiting for another stage
  double input = 0;     ///< waiting for data
};

struct FreeStep {
  double duration = 0;
  std::vector<StageTime> stages;  ///< of the first class
};

FreeStep free_step(const FreeStepRequest& request);

}  // namespace orrery::estimates
