// Status of a run for its operator: the part that the records of the journal determine, and the
// fields that only the present controller knows. Plain values and a pure function; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "live/control.pb.h"
#include "live/run/files/run_state.hpp"
#include "policies/seam/event.hpp"
#include "traces/scenario.pb.h"

namespace orrery::live {

/// Status of a run at one instant.
struct RunStatus {
  /// Status of one rank.
  struct Rank {
    std::uint32_t rank = 0;
    std::string state;     ///< State: working, spare, testing, fenced, joining, lost.
    std::int64_t pid = 0;  ///< Process id on its machine; 0: no process, or not connected yet.
    std::uint64_t step = 0, micro_batches = 0;
    /// Measurements of the rank's GPU, as far as its driver reports them.
    DeviceReading device = {};
  };
  /// Phase: starting, training, waiting (for GPUs), held, stopping, over.
  std::string scenario, mode, phase;
  std::string log;  ///< Path of the log that the run records; empty: none.
  Step step = 0, steps = 0;
  double elapsed_s = 0, step_time_s = 0, loss = 0;
  std::uint64_t samples = 0;        ///< Sequences of the committed steps.
  std::uint64_t batch = 0;          ///< Micro-batches of a step.
  double learning_rate_factor = 1;  ///< Factor on the declared learning rate.
  double delay_s = 0;               ///< Delay of the step in progress.
  std::uint64_t epoch = 0, losses = 0, decisions = 0, controller_restarts = 0;
  std::uint64_t checkpoints_written = 0, checkpoints_failed = 0;
  std::uint64_t ranks_missing = 0;  ///< Ranks that the job lacks now.
  bool keeps_checkpoints = false;   ///< The run has a folder for checkpoints.
  std::optional<Step> saved;        ///< Step at which the newest durable checkpoint resumes.
  /// Decision that waits for the operator's approval.
  struct Question {
    std::uint64_t decision = 0;
    double at_s = 0;
    std::string what, why;
  };
  /// Planned removal of a part, from its announcement to its return.
  struct PlannedRemoval {
    Part part;
    Health health{};  ///< Lost once the part is removed.
    Removal what;
  };
  /// Part that works with less than the rate of its data sheet.
  struct SlowerPart {
    Part part;
    double rate = 1;     ///< Share of the rate that is left.
    double since_s = 0;  ///< Instant of the newest change of the part.
  };
  std::vector<Rank> ranks;
  std::vector<PlannedRemoval> removals;
  std::vector<SlowerPart> slower;
  std::vector<std::string> policies;
  double policy_time_s = 0;  ///< Real time of all calls of the policies.
  /// Time since the begin of the current call of the policies; absent: no call.
  std::optional<double> policy_waiting_s;
  std::string without_takeover;  ///< Reason why no controller could take over; empty: one can.
  std::string policy_asked;      ///< Policy that owes an answer; empty without a current call.
  std::vector<Question> questions;
};

/// Returns the status in a state of the run: scenario, policies, phase (starting, training or
/// held), steps, times, loss, samples, membership epoch, losses and checkpoints. A successor of the
/// controller gives the same status as the controller, whose state has the same records. All other
/// fields are empty.
RunStatus status_of(const RunState& state, const Scenario& scenario);

}  // namespace orrery::live
