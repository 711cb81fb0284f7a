// Timeline of the simulated steps: one process for each replica class and stage, with a track for
// computation and one for communication. Written during the run; one thread.
#pragma once

#include <memory>
#include <string>

#include "core/ids.hpp"
#include "sim/estimates/step/stepper.hpp"

namespace orrery {
class Timeline;
}

namespace orrery::sim {

/// Writer of a timeline.
class SimTimeline {
 public:
  /// Creates the file. Throws an environment Error if the file cannot be written, a usage Error if
  /// its name has the ending of another format (Timeline).
  explicit SimTimeline(const std::string& path);
  ~SimTimeline();

  /// Adds the slices of a simulated step with number `step`, which began at `start`, and an event
  /// at its begin. Slices need steps that were simulated with Stepper::Options::slices. Only
  /// close() reports errors of writing.
  void add(const estimates::SimulatedStep& simulated, Step step, Nanos start);
  /// Writes the remaining data; call once, after the last event. Throws an environment Error if any
  /// data could not be written, or if the timeline is closed already.
  void close();
  /// Adds an event of the run named `what` at the instant `at`: a fault or a decision.
  void instant(Nanos at, const std::string& what);

 private:
  std::unique_ptr<Timeline> file_;
};

}  // namespace orrery::sim
