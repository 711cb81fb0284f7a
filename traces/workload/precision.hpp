// Number formats of a job, as Job.precision names them. The formats in which a GPU computes are
// Precision (topologies/cluster.hpp); sim/estimates/prices/cost_model.hpp says which of them a job
// uses. Pure functions; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/schema/names.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Format of the operands of the layers' matrix products. mxfp8 and nvfp4 have scales for blocks of
/// numbers.
enum class JobPrecision : std::uint8_t { fp32, fp16, bf16, fp8, mxfp8, nvfp4 };
constexpr std::array<std::string_view, 6> names_of(JobPrecision) {
  return {"fp32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4"};
}

/// Returns the precision of a job; bf16 if the job names none. Throws as named().
inline JobPrecision precision_of(const Job& job) {
  return named(job.precision(), std::optional(JobPrecision::bf16));
}

/// Returns the bytes of a weight, an activation or a gradient as the job stores them: 4 in fp32, in
/// which built-in models are trained whatever the job's precision, and otherwise 2.
inline double value_bytes(const Job& job) {
  return !job.model().builtin().empty() || precision_of(job) == JobPrecision::fp32 ? 4 : 2;
}

}  // namespace orrery
