// Replays of job traces as files: detection of such files, and the work of recorded jobs with
// simulated speed. Called by the loaders of scenarios and replays, by the simulator and the command
// line. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/schema/names.hpp"
#include "core/schema/yaml_loader.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Speed of recorded jobs (ReplayConditions.speed).
enum class JobSpeed : std::uint8_t { recorded, simulated };
constexpr std::array<std::string_view, 2> names_of(JobSpeed) { return {"recorded", "simulated"}; }
/// Returns the speed of recorded jobs; recorded if the conditions name none. Throws as named().
inline JobSpeed speed_of(const ReplayConditions& conditions) {
  return named(conditions.speed(), std::optional(JobSpeed::recorded));
}

/// Estimates of job durations that policies see (JobReplay.estimates, RecordedLog.estimates).
enum class EstimateKind : std::uint8_t { recorded, requested, learned, disturbed };
constexpr std::array<std::string_view, 4> names_of(EstimateKind) {
  return {"recorded", "requested", "learned", "disturbed"};
}

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
