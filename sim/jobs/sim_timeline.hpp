// The simulated iterations on a timeline: one process per replica class and stage, a track for
// compute and one for communication. Written while the run goes on; one thread.
#pragma once

#include <memory>
#include <string>

#include "core/ids.hpp"
#include "sim/estimates/step/stepper.hpp"

namespace orrery {
class Timeline;
}

namespace orrery::sim {

class SimTimeline {
 public:
  /// Throws an environment Error if the file cannot be written.
  explicit SimTimeline(const std::string& path);
  ~SimTimeline();

  /// The slices of a step that was simulated for `step`, which began at `start`.
  void add(const estimates::SimulatedStep& simulated, Step step, Nanos start);
  /// Writes what is left. Throws an environment Error if anything could not be written.
  void close();
  /// A fault or a decision.
  void instant(Nanos at, const std::string& what);

 private:
  std::unique_ptr<Timeline> file_;
};

}  // namespace orrery::sim
