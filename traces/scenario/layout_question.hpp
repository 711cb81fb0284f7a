// "Which layout for this model on so many of these GPUs?" as a scenario, for those who have none:
// presets by name, and stated assumptions for what was not said. Called by `orrery layouts` and
// orrery.layouts(). Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/scenario/scenario.hpp"

namespace orrery {

struct LayoutQuestion {
  std::string model, cluster;      ///< presets
  std::uint32_t gpus = 0;
  std::uint32_t sequence_length = 0;  ///< 0, or empty: assumed, as all below
  std::uint32_t global_batch = 0;     ///< sequences
  double tokens_per_batch = 0;        ///< instead of them
  std::string stack, precision;
};

struct AskedScenario {
  LoadedScenario loaded;
  std::vector<std::string> assumed;  ///< "stack nemo"
};

/// Throws bad_input, with everything that is missing at once or the nearest name of a preset.
AskedScenario scenario_of(const LayoutQuestion& question,
                          const std::vector<std::string>& overrides = {});

}  // namespace orrery
