#include "sim/planning/simulated_step.hpp"

#include <utility>

#include "core/process.hpp"
#include "policies/run/worker.hpp"

namespace orrery::sim {

double simulated_step(Scenario scenario) {
  scenario.clear_failures();
  scenario.clear_policies();
  scenario.mutable_run()->set_steps(1);
  RunRequest request;
  *request.mutable_scenario() = std::move(scenario);
  return run_in_worker(sibling_program("orrery-sim"), request).step_time_s();
}

}  // namespace orrery::sim
