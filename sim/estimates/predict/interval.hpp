// How far off a predicted step time may be. It depends on what the prediction rests on, its
// distance: whether the software stack was fitted, whether the run says everything, whether it has
// experts, whether its GPU was measured. Each class's intervals are what rows of that class were
// off that no fit had seen (traces/catalog/stacks.yaml, docs/accuracy.md). Called by
// sim/estimates/predict/prediction and sim/estimates/predict/layouts. Thread-safe. Seconds.
#pragma once

#include <string>

#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"

namespace orrery::estimates {

struct Interval {
  std::string distance;  ///< class of what it rests on: "fitted complete dense measured"
  double p10_s = 0, p90_s = 0, p2_5_s = 0, p97_5_s = 0;  ///< of the measured time
};

/// `complete`: nothing that a time depends on had to be assumed.
Interval interval_of(double step_s, const Job& job, bool complete, const GpuModel& gpu);

}  // namespace orrery::estimates
