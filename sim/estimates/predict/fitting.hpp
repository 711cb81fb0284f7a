// Whether a job fits the memory of its GPUs, and what would make it fit. Called by
// sim/estimates/predict/prediction and sim/estimates/predict/layouts. Pure functions, thread-safe.
#pragma once

#include <string>

#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"

namespace orrery::estimates {

bool fits_in(const Job& job, const Cluster& cluster);

/// The first of the usual remedies, from the cheapest to the dearest, that makes the job fit.
std::string remedy(const Job& job, const Cluster& cluster);

}  // namespace orrery::estimates
