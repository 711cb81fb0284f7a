// Measured run that is nearest to a planned one, from a table of runs with the columns of `orrery
// predict` and `iter_time_s`. Called by `orrery plan --measured`. No state between calls. Seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"

namespace orrery::sim {

/// Measured run and its distance from a job.
struct NearestRun {
  std::string id, model, gpu, stack;
  std::uint32_t gpus = 0;
  double measured_s = 0, predicted_s = 0;  ///< step time of the measured run
  /// Root of the sum of squares of natural logarithms of ratios (parameters, GPUs, tokens of a GPU
  /// and step, ranks of tensor x context x pipeline); 1 for another stack, 2 for another GPU.
  double distance = 0;
  std::vector<std::string> differences;  ///< for example "GPUs 1,024 / 512"
};

/// Returns the nearest run of the table at `path` to a resolved job on this cluster; nothing if no
/// row has a step time and can be priced. Throws bad_input for an unreadable table.
std::optional<NearestRun> nearest_run(const std::string& path, const Job& job,
                                      const Cluster& cluster);

}  // namespace orrery::sim
