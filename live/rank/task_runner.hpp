// Execution of the control core's tasks on one rank: begin an epoch, link with its members and
// receive their state, work on a step, apply the step's gradient sum.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "live/control.pb.h"
#include "live/rank/checkpoint_shards.hpp"
#include "live/rank/epoch_fabrics.hpp"
#include "live/rank/rank_state.hpp"
#include "live/training/trainer.hpp"
#include "topologies/failure_domain.hpp"

namespace orrery::live {

/// Runner of the control core's tasks. If a task is interrupted or its links break, the runner
/// abandons the task and reports so; the control core decides the next task. Used by the agent's
/// step loop; single-threaded.
class TaskRunner {
 public:
  using Task = membership::Task;
  /// References to the collaborators; each must outlive this object.
  struct With {
    Trainer& trainer;
    RankState& state;
    CheckpointShards& shards;
    const EpochFabrics& fabrics;
  };

  /// Stores the collaborators. `domains`: failure domain of every rank of the run, by rank. `send`:
  /// receives the report of each step.
  TaskRunner(std::uint32_t rank, std::vector<FailureDomain> domains, const With& with,
             std::function<void(const AgentMessage&)> send);

  /// Carries out one task of the control core and blocks until it is done, abandoned or not due
  /// any more; records its completion at the RankState. A task of kind `none` does nothing. After
  /// an interruption or broken links, a `work` task sends a report of the lost work; broken links
  /// are recorded too. Throws all other errors. For an `apply` task, broken links after the update
  /// only leave the parameters ungathered. Call with the tasks of RankState::next(), in order.
  void carry_out(const Task& task);

 private:
  /// Applies the update of a final step and writes its planned shard.
  void apply(const Task& task);
  /// Makes the fabric of `epoch`, which listens, and then reports the epoch as begun.
  void begin_epoch(std::uint64_t epoch);
  /// Connects this rank to the members of the epoch and shares the training state.
  void link(const Task& task);
  /// Computes a step, reports it and plans its shard.
  void run_step(const Task& task);
  /// Reports the work that an interrupted step has lost.
  void report_lost_work(const Task& task);
  /// Sends a step report to the controller.
  void report(StepReport step) const;
  /// Returns the members that hold copies of each optimizer shard.
  ShardedOptimizer::Keepers keepers(const Task& task) const;

  const std::uint32_t rank_;
  const std::vector<FailureDomain> domains_;
  const With with_;
  const std::function<void(const AgentMessage&)> send_;
};

}  // namespace orrery::live
