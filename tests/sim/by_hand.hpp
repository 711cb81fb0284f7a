// Simulated step written by hand, for tests of its users: two replicas of one stage, the second
// half as fast; four micro-batches each of 100 ms, then 50 ms of communication.
#pragma once

#include <memory>

#include "sim/estimates/step/stepper.hpp"

namespace orrery::testing {

inline std::shared_ptr<const estimates::SimulatedStep> step_by_hand() {
  auto step = std::make_shared<estimates::SimulatedStep>();
  step->plan.classes = {{.members = {0}, .micro_batches = 4},
                        {.members = {1}, .micro_batches = 4}};
  step->plan.class_of = {0, 1};
  for (const double length : {0.1, 0.2}) {
    estimates::WorkerRun& run = step->run.workers.emplace_back();
    run.compute = run.passes = run.passes_end = 4 * length;
    run.micro_batches = 4;
    run.moved = 8e9;
    run.progress = {{0, 0}, {4 * length, 4 * length}};
  }
  step->run.stage_passes_end = {0.8};
  step->run.duration = 0.85;
  return step;
}

}  // namespace orrery::testing
