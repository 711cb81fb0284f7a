// What recorded jobs compute where their speed is simulated: kinds of jobs as a replay's conditions
// describe them. Called by the loaders of scenarios and replays and by the simulator. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/schema/yaml_loader.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Names resolved, defaults filled in, kinds checked. `prefix` is where the conditions stand in the
/// file, as "recorded.conditions." is. Throws bad_input with the place.
void complete(ReplayConditions& conditions, const SourceMap& places, const std::string& prefix);

/// The first kind that suits a job; nothing: it runs as recorded.
std::optional<std::size_t> kind_of(const ReplayConditions& conditions, std::string_view name,
                                   std::uint32_t gpus);

/// The training job of a kind on so many GPUs, a whole number of its replicas. Throws bad_input
/// where it cannot be laid out over them.
Job job_on(const JobKind& kind, std::uint32_t gpus);

}  // namespace orrery
