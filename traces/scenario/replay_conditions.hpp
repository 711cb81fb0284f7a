// Replays of job traces as files: detection of such files, and the work of recorded jobs with
// simulated speed. Called by the loaders of scenarios and replays, by the simulator and the command
// line. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/schema/yaml_loader.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Returns true if the file is YAML that names a log, `trace: log.csv`; the trace of a scenario is
/// a map. Unknown keys and values do not matter. Returns false for a file that is unreadable, too
/// large or not YAML.
bool describes_replay(const std::string& path);

/// Resolves names, sets defaults and checks kinds. `prefix` is the place of the conditions in the
/// file, for example "recorded.conditions.". Throws bad_input with the place, also for simulated
/// speed without kinds.
void complete(ReplayConditions& conditions, const SourceMap& places, const std::string& prefix);

/// Returns the index of the first kind that matches a job (the kind's name begins the job's name,
/// and the GPUs are in the kind's range and fill whole replicas); nothing if the job runs as
/// recorded. Call after complete(), which sets the sizes of the layouts.
std::optional<std::size_t> kind_of(const ReplayConditions& conditions, std::string_view name,
                                   std::uint32_t gpus);

/// Returns the training job of a kind on `gpus` GPUs, which must be a whole number of its replicas;
/// the global batch grows with the replicas. Call after complete(). Throws bad_input if the job
/// cannot be laid out over the GPUs.
Job job_on(const JobKind& kind, std::uint32_t gpus);

}  // namespace orrery
