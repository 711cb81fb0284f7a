// The codes of a step on their way from the controller to the ranks. Pure functions, thread-safe.
#pragma once

#include <span>
#include <vector>

#include "live/control.pb.h"
#include "policies/seam/job.hpp"

namespace orrery::live {

void set_codecs(const CodecRules& rules, StepPlan& plan);
/// Throws bad_input for a code that is none.
CodecRules codecs_of(const StepPlan& plan);

/// Some bucket's sum is not that of its gradients, bit for bit.
bool lossy(std::span<const CodecRule> rules);

}  // namespace orrery::live
