// One rank's shards of the run's checkpoints. A shard either belongs to a step's plan and is
// written once the step is final, or is ordered between two steps. The step loop calls all methods;
// `send` is called by the step loop and by the writer's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "live/checkpoint/shard_writer.hpp"
#include "live/control.pb.h"
#include "live/training/trainer.hpp"

namespace orrery::live {

/// Writer of one rank's checkpoint shards; reports the outcome of each shard to the controller.
/// Owns the writing thread.
class CheckpointShards {
 public:
  using Send = std::function<void(const AgentMessage&)>;

  /// Starts the writer's thread, if `folder` is given. `training`: see CheckpointId; `total`:
  /// number of the model's parameters. Without a folder every order of save() fails. The trainer
  /// must outlive this object.
  CheckpointShards(std::string training, const Trainer& trainer, std::size_t total,
                   const std::optional<std::string>& folder, Send send);

  /// Plans the shard of the checkpoint after the step of `plan`, whose gradient sum this rank
  /// holds: member `index` of `count` members writes its shard of the checkpoint, to the folder, or
  /// to the folder or the memory of the shard's holders that the plan names. Without an attempt in
  /// the plan the step has no checkpoint. Replaces an earlier plan. Writes nothing. An attempt
  /// needs a folder, which is not checked: without one write_planned() is undefined. Throws an
  /// internal Error if the plan has no holder for the member.
  void plan(const StepPlan& plan, std::uint32_t index, std::uint32_t count);
  /// Copies the planned shard of `step` and starts writing it on the writer's thread; does nothing
  /// without a plan for `step`. Forgets the plan in any case. Must be called after the update of
  /// `step` is applied and before the next one. Throws the errors of Trainer::part(), and an
  /// internal Error unless the planned index is below its count; all other failures are reported to
  /// the controller, as is success.
  void write_planned(Step step);
  /// Copies the shard of `order` and starts writing it; a plan stays. `applied`: number of steps
  /// whose updates this rank holds; if the order's step differs, or without a folder, reports a
  /// failed shard within the call. Throws as write_planned().
  void save(const SaveShard& order, Step applied);

 private:
  /// Place of a shard: opens it; empty: the folder of the run's checkpoints.
  struct Place {
    ShardWriter::OpenStore open;
    bool is_memory = false;
  };
  /// Copies a shard, with the checksums of the state, and starts writing it.
  void write(const ShardHeader& header, Place place);
  /// Sends the outcome of a shard to the controller.
  void report(const ShardOutcome& outcome) const;

  const std::string training_;
  const Trainer& trainer_;
  const std::size_t total_;
  const Send send_;
  ShardHeader planned_;  ///< Shard to write once the current step is final.
  Place place_;          ///< Place of that shard.
  std::optional<ShardWriter> writer_, memory_writer_, storage_writer_;
};

}  // namespace orrery::live
