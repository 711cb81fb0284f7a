// Messages of World that several places use. Included by world_actions.cpp and world_events.cpp
// only. Pure functions; thread-safe.
#pragma once

#include <string>

#include <fmt/format.h>

#include "core/ids.hpp"

namespace orrery {

inline constexpr const char* kNoRanks =
    "the layout has no ranks: each of its sizes must be 1 or more";

inline std::string no_such_job(JobId job) { return fmt::format("there is no job {}", job.value); }
inline std::string no_such_gpu(GpuId gpu) { return fmt::format("there is no GPU {}", gpu.value); }

}  // namespace orrery
