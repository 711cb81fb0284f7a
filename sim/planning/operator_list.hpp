// Operators of a training step with their work and their time, for a roofline. Called by
// sim/planning/run_study. Pure functions. Seconds, bytes, floating-point operations.
#pragma once

#include <string>
#include <vector>

#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"

namespace orrery::sim {

/// All executions of the kernels of one name in a step. For example, 1e15 operations, 1e12 bytes
/// and 2 s: an intensity of 1,000 operations per byte at 5e14 operations per second.
struct OperatorUse {
  std::string name;  ///< name of the kernel tables, for example "qkv_dgrad"
  double flop = 0;   ///< operations that the kernels execute
  double bytes = 0;  ///< bytes through GPU memory
  double seconds = 0;
  double count = 0;  ///< executed kernels
  double peak = 0;   ///< operations per second of the data sheet in the kernels' precision
};

/// Returns the operators of a step on a GPU of the stage whose kernels take longest, the longest
/// first. The job must be resolved and laid out. Throws bad_input if the GPU lacks the precision.
std::vector<OperatorUse> operators_of(const Job& job, const Cluster& cluster);

}  // namespace orrery::sim
