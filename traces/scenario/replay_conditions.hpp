// Replays of job traces as files describe them: which files do, and what recorded jobs compute
// where their speed is simulated. Called by the loaders of scenarios and replays, by the simulator
// and the command line. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/schema/yaml_loader.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Whether that file is YAML which names a log, `trace: log.csv`; the trace of a scenario is a map.
/// Mistakes elsewhere in it do not matter. False for what cannot be read.
bool describes_replay(const std::string& path);

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
