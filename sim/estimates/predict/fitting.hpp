// Memory check of a job, and remedies for a job that does not fit. Called by
// sim/estimates/predict/prediction and sim/estimates/predict/layouts. Pure functions, thread-safe.
#pragma once

#include <string>

#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"

namespace orrery::estimates {

/// Returns true if the layout of the job is valid and every stage fits the memory of its GPUs.
bool fits_in(const Job& job, const Cluster& cluster);

/// Returns the first of the usual remedies, from the cheapest to the dearest, alone or with the
/// cheaper ones, with which the job fits; "more GPUs for each copy of the model" if none does. Call
/// for a job that does not fit.
std::string remedy(const Job& job, const Cluster& cluster);

}  // namespace orrery::estimates
