// Recording of a step whose micro-batch is one example of each batch, in place of a whole pass, as
// policies count the shares of a user's program. Used by `orrery calibrate --per-example`. Pure
// functions; thread-safe.
#pragma once

#include <cstdint>

#include "traces/scenario.pb.h"

namespace orrery::live {

/// Returns the step with micro-batches of one example of each batch. `examples`: examples of a
/// batch, at least 1. The result has two micro-batches, of which any number may follow: an early
/// one with 1 / `examples` of the computation of all passes, and the last one, which has all
/// collectives, too. So a rank with 3 of 8 examples computes 3/8 of the recorded time, its cost
/// beside the examples included. Throws an environment Error for a step with sharded parameters,
/// whose collectives belong to passes.
RecordedStep per_example_step(const RecordedStep& step, std::uint32_t examples);

}  // namespace orrery::live
