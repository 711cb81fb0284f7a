// Facts of a recorded run for the training spec, read from the log of `orrery simulate --record`,
// `orrery live --record` or `orrery run --record`. Called by `orrery check --spec`. One thread.
#pragma once

#include <string>

#include "sim/planning/training_spec.hpp"
#include "traces/scenario.pb.h"

namespace orrery::sim {

/// Recorded run: its scenario and its facts.
struct RecordedTraining {
  Scenario scenario;
  RunFacts facts;
};

/// Returns the scenario and the facts of a log, of its first job. Throws bad_input if the file is
/// no log, is damaged, or is the log of a job replay.
RecordedTraining read_training(const std::string& path);

}  // namespace orrery::sim
