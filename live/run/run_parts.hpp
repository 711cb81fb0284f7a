// Parts of a live run that exist before its ranks.
#pragma once

#include <cstdint>

#include "live/run/checkpoints/run_checkpoints.hpp"
#include "live/run/files/journal.hpp"
#include "live/run/losses/failure_records.hpp"
#include "live/run/metrics/live_metrics.hpp"
#include "live/run/observations/journal_replay.hpp"
#include "live/run/observations/observations.hpp"
#include "live/run/observations/policy_clock.hpp"
#include "live/run/operator/operator_desk.hpp"
#include "live/run/processes/placement.hpp"
#include "live/supervision.pb.h"
#include "live/training/text.hpp"
#include "policies/run/worker.hpp"
#include "traces/run.pb.h"

namespace orrery::live {

/// Owner of the parts of a live run that need no process of a rank: the request, the journal, the
/// world, and the objects that show the run to policies and to the operator. The live backend owns
/// the only one; its step driver and the functions of job_release.hpp change the parts. Each part
/// may refer to those before it. Single-threaded. Instants are times of the policy clock.
struct RunParts {
  /// Checks the request and opens the journal; starts no process. `asked.scenario` must be
  /// resolved. `cluster` must outlive this object. `place`: the run's folder. `orders`: access to
  /// the run for the operator. Throws the errors of check_request(), Text::load(), Journal,
  /// RunCheckpoints and StatusBoard.
  RunParts(const RunRequest& asked, const Cluster& cluster, const ControllerStart& place,
           ProgressSink progress, OperatorDesk::Run orders);
  RunParts(const RunParts&) = delete;
  RunParts& operator=(const RunParts&) = delete;

  /// Returns the scenario of the request.
  const Scenario& scenario() const { return request.scenario(); }
  /// Returns the number of ranks with which the run begins.
  std::uint32_t initial_ranks() const { return scenario().job().layout().data(); }
  /// Returns the world, which follows the replay and then the run.
  World& world() { return replay.world(); }
  const World& world() const { return observations.world(); }

  const RunRequest request;
  const Text text;
  Journal journal;
  JournalReplay replay;
  Placement placement;
  PolicyClock clock;
  LiveMetrics metrics;
  RunCheckpoints checkpoints;
  FailureRecords failures;
  Observations observations;
  OperatorDesk desk;
};

}  // namespace orrery::live
