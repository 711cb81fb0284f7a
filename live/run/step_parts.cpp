#include "live/run/step_parts.hpp"

#include <optional>
#include <utility>

#include "policies/seam/fabric_rules.hpp"
#include "traces/workload/sharding.hpp"

namespace orrery::live {
namespace {

/// Returns the longest time that a job on hold waits for an assignment; nothing if no policy
/// assigns.
std::optional<Nanos> hold_limit(const Scenario& scenario, const Needs& needs) {
  if (!needs.actions.has<Assign>()) return {};
  return scenario.survival().hold_limit();
}

}  // namespace

StepParts::StepParts(RunParts& run, Carrier& carrier, AgentProcesses& processes,
                     const ControllerStart& place, const Assignment& assignment,
                     const Capabilities& offered, const Needs& needs,
                     std::function<void(const std::string& what)> give_up)
    : crew(processes, place, assignment, run.placement.seats(), run.journal),
      gate(run.world(), offered, carrier, true),
      faults(run.scenario(), run.world().cluster(), run.placement.seats(),
             run.checkpoints.first_step(), crew, run.journal),
      tests(run.world(), faults, run.placement, crew),
      detector(run.scenario(), !run.request.has_rendezvous(), run.placement, faults, crew,
               [&run](const std::string& what) { run.desk.add_warning(run.clock.now(), what); }),
      replicas(
          crew, [&run](const std::string& what) { run.desk.add_warning(run.clock.now(), what); },
          std::move(give_up)),
      recovery(
          run.placement, crew, carrier, gate, run.clock, run.journal.state().held_since,
          hold_limit(run.scenario(), needs),
          [&run](std::uint32_t count) {
            return replicas_objection(run.scenario().job(), count).empty();
          },
          sharding_of(run.scenario().job().layout()) == Sharding::optimizer ? &run.world().cluster()
                                                                            : nullptr,
          [&run](std::uint32_t seat) { return run.checkpoints.waits_for_rank(seat); }),
      proposals(
          gate, run.clock, [this](std::uint64_t number) { crew.propose_decision(number); },
          run.journal.state().core.decided),
      step(run.journal.state().core.committed, run.placement.seats()),
      saves(run.checkpoints),
      end(run.scenario().run().steps()) {}

}  // namespace orrery::live
