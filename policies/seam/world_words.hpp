// Messages and a rule of World that several places use. Included by world_actions.cpp and
// world_events.cpp only. Pure functions; thread-safe.
#pragma once

#include <string>
#include <variant>

#include <fmt/format.h>

#include "core/ids.hpp"
#include "policies/seam/decision.hpp"

namespace orrery {

inline constexpr const char* kNoRanks =
    "the layout has no ranks: each of its sizes must be 1 or more";

inline std::string no_such_job(JobId job) { return fmt::format("there is no job {}", job.value); }
inline std::string no_such_gpu(GpuId gpu) { return fmt::format("there is no GPU {}", gpu.value); }

/// Returns true if an announced decision sets shares, and the present Batch of the job, of the
/// precedences `present`, is that of a later step. The Batch has divided its micro-batches anew, so
/// the shares have no effect. Ranks that agree late must not turn them into an objection.
template <class Present, class Announced>
bool is_divided_anew(const Present& present, const Announced& announced) {
  const auto* configure = std::get_if<Configure>(&announced.decision.what);
  if (configure == nullptr || !std::holds_alternative<Shares>(configure->what)) return false;
  const auto batch = present.find({configure->job, Setting(Batch()).index()});
  return batch != present.end() && announced.precedence() < batch->second;
}

}  // namespace orrery
