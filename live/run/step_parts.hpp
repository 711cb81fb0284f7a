// Parts of a live run that its steps need.
#pragma once

#include <functional>
#include <string>

#include "live/run/checkpoints/save_events.hpp"
#include "live/run/losses/failure_detector.hpp"
#include "live/run/losses/fault_injector.hpp"
#include "live/run/losses/part_tests.hpp"
#include "live/run/losses/rank_shortage.hpp"
#include "live/run/losses/recovery.hpp"
#include "live/run/losses/replica_watch.hpp"
#include "live/run/open_step.hpp"
#include "live/run/processes/crew.hpp"
#include "live/run/proposals.hpp"
#include "live/run/run_end.hpp"
#include "live/run/run_parts.hpp"
#include "policies/seam/gate.hpp"

namespace orrery::live {

/// Owner of the parts of a live run that its steps need: the processes of the ranks, the gate of
/// the decisions, and one object for each rule. The step driver owns the only one; the driver and
/// the functions of job_release.hpp change the parts. Each part may refer to those before it and
/// to the parts of RunParts. Single-threaded.
struct StepParts {
  /// Starts the ranks and blocks until all are linked, or continues with the ranks of an earlier
  /// controller if the journal holds a started run. `run`, `carrier` and `processes` must outlive
  /// this object. `assignment`: for all ranks. `offered`: features of the run, `needs`: of the
  /// policies. `give_up` receives the name of the part of the training state that is of no use any
  /// more; it must end the run. Throws as RankProcesses and FaultSchedule.
  StepParts(RunParts& run, Carrier& carrier, AgentProcesses& processes,
            const ControllerStart& place, const Assignment& assignment, const Capabilities& offered,
            const Needs& needs, std::function<void(const std::string& what)> give_up);
  StepParts(const StepParts&) = delete;
  StepParts& operator=(const StepParts&) = delete;

  RankProcesses crew;
  DecisionGate gate;
  FaultInjector faults;
  PartTests tests;
  FailureDetector detector;
  ReplicaWatch replicas;
  Recovery recovery;
  RankShortage ranks;
  Proposals proposals;
  OpenStep step;
  SaveEvents saves;
  RunEnd end;
};

}  // namespace orrery::live
