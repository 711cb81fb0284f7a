// Scenario for the question "which layout for this model on so many of these GPUs?": presets by
// name, and stated assumptions for omitted values. Called by `orrery layouts` and orrery.layouts().
// Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/scenario/scenario.hpp"
#include "traces/workload/framework.hpp"

namespace orrery {

/// Question of a user.
struct LayoutQuestion {
  std::string model, cluster;  ///< presets, or files: a model of another tool, a cluster (YAML)
  std::uint32_t gpus = 0;
  std::uint32_t sequence_length = 0;  ///< 0 or empty: assumed, as all below
  std::uint32_t global_batch = 0;     ///< sequences
  double tokens_per_batch = 0;        ///< alternative to `global_batch`
  std::string stack, precision;
};

/// Scenario of a question with its assumptions.
struct AskedScenario {
  LoadedScenario loaded;
  std::vector<std::string> assumed;  ///< for example "stack nemo"
  /// Framework that chooses what depends on the layout; null if the stack has none, or an override
  /// sets a value that the framework would choose.
  const FrameworkHabits* habits = nullptr;
};

/// Returns the model of a preset (not resolved), or of a file of another tool (with all sizes).
/// Throws bad_input as read_model_file().
Model asked_model(const std::string& name);

/// Returns the cluster of a preset or of a cluster file (YAML), not resolved: a caller sets the
/// number of nodes. Throws bad_input as resolve() for a file.
Topology asked_cluster(const std::string& name);

/// Returns the scenario, checked as by parse_scenario(), whose errors pass through. Throws
/// bad_input with all missing values at once, the nearest name of a preset, for GPUs that fill no
/// whole nodes, and for a batch that is given twice.
AskedScenario scenario_of(const LayoutQuestion& question,
                          const std::vector<std::string>& overrides = {});

}  // namespace orrery
