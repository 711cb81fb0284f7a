// Classes of training runs by which measured runs support a prediction. Pure functions.
#pragma once

#include <string>

#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"

namespace orrery::estimates {

/// Returns the class of a run as StackOnGpu.measured names it, for example "dense 16": the bits are
/// those in which the GPU computes the run's products.
std::string run_class(const Job& job, const GpuModel& gpu);

}  // namespace orrery::estimates
