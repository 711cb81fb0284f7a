// Complete scenarios from files: loaded, overridden, with defaults and presets, checked across
// fields. The result of load_scenario() can be run if build_cluster() accepts its cluster.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/schema/yaml_loader.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Scenario with the places of its values in the file.
struct LoadedScenario {
  Scenario scenario;
  SourceMap places;
};

/// Returns the scenario of a file. `overrides` are "path=value" ("cluster.nodes=128",
/// "run.steps=10"). Throws bad_input for the first problem, also for a file that is the replay of a
/// job trace; a usage Error for an override without a path and "=". Conditions between the fields
/// of the cluster are left to build_cluster(), unless faults or failures need the cluster.
LoadedScenario load_scenario(const std::string& path, const std::vector<std::string>& overrides);
/// Returns the scenario of a text. `file` is for messages, and names the folder of recordings.
/// Throws as load_scenario() does.
LoadedScenario parse_scenario(std::string_view text, const std::string& file,
                              const std::vector<std::string>& overrides);

/// Returns all problems of the text, at most `limit` (at least 1), those of build_cluster()
/// included; conditions across fields are checked only if each field is valid, and of presets,
/// recordings and the cluster only the first problem is found. Empty if the text is a valid
/// scenario.
std::vector<Error> check_scenario(std::string_view text, const std::string& file,
                                  std::size_t limit = 100);

/// Sets the data-parallel size so that the job has `ranks` ranks. Does nothing if the job has so
/// many. Throws bad_input, without a change, if the scenario has no job or is not elastic, or if
/// `ranks` is no multiple of a replica; throws bad_input after the change if the new layout
/// violates another condition.
void set_ranks(LoadedScenario& loaded, std::uint32_t ranks);

/// Returns the SHA-256 after defaults and overrides, without the seed, the fabric of live mode and
/// the path of a recording, whose content counts.
std::string scenario_hash(const Scenario& scenario);

/// Returns the time of one step when all replicas end together as nearly as whole micro-batches
/// allow, for given replica speeds: min over assignments of max(n_i x cost / speed_i), in units of
/// `cost`. Returns 0 without micro-batches. Throws an internal Error without replicas or for a
/// speed that is not positive.
double ideal_makespan(const std::vector<double>& speeds, std::uint32_t micro_batches, double cost);

}  // namespace orrery
