// Gradient codes of a step in its plan, from the controller to the ranks. Pure functions,
// thread-safe.
#pragma once

#include <span>
#include <vector>

#include "live/control.pb.h"
#include "policies/seam/job.hpp"

namespace orrery::live {

/// Writes the rules into a plan, in place of its earlier ones.
void set_codecs(const CodecRules& rules, StepPlan& plan);
/// Returns the rules of a plan. Throws bad_input for an invalid code.
CodecRules codecs_of(const StepPlan& plan);

/// Returns true if some rule has a codec other than `none`.
bool lossy(std::span<const CodecRule> rules);

}  // namespace orrery::live
