// Passes of the stages of a recorded pipeline (RecordedStep.stages), and their order for another
// number of micro-batches. Used by step_replay.cpp. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "traces/scenario.pb.h"
#include "traces/workload/step_schedule.hpp"

namespace orrery {

/// Pass of a recorded stage with its operations, by index.
struct RecordedPass {
  Pass pass;
  std::vector<int> ops;
};

/// Returns the passes of a stage in recorded order: operations in a row with equal phase,
/// micro-batch, chunk and `weights`, and the messages that the pass receives and sends. The
/// operations of the update belong to no pass. `stage` must be below stages_of() (not checked).
std::vector<RecordedPass> recorded_passes(const RecordedStep& step, std::uint32_t stage);

/// Returns the number of model chunks of a stage, at least 1.
std::uint32_t recorded_chunks(const RecordedStep& step);

/// Returns true if the recorded schedule has an order for `micro_batches`: any number up to the
/// recorded one. More need a schedule that is 1F1B, interleaved or not, that runs all forward
/// passes first, or whose recording contains a part that repeats. For example, stage 1 of 2 with
/// F0 B0 F1 B1 F2 B2 repeats F1 B1.
bool has_replayed_order(const RecordedStep& step, std::uint32_t micro_batches);

/// Returns the passes of a stage for `micro_batches`, in order. Fewer than recorded leave out the
/// last ones. Without an order for more (has_replayed_order()) those run one after the other behind
/// the recorded ones, in the order of the first micro-batch.
std::vector<Pass> replayed_order(const RecordedStep& step, std::uint32_t stage,
                                 std::uint32_t micro_batches);

}  // namespace orrery
