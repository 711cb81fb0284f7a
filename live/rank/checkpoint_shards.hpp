// A rank's shards of checkpoints: which one it is to write and when. Such a one belongs to a step's
// plan and is written once that step is final, or is ordered between two steps. Reports how each of
// them ended. The step loop calls; `send` is called by it and by the writer's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "live/checkpoint/shard_writer.hpp"
#include "live/control.pb.h"
#include "live/training/trainer.hpp"

namespace orrery::live {

class CheckpointShards {
 public:
  using Send = std::function<void(const AgentMessage&)>;

  /// `training`: see CheckpointId; `total`: parameters of the model. Without a folder every order
  /// fails. The trainer outlives this.
  CheckpointShards(std::string training, const Trainer& trainer, std::size_t total,
                   const std::optional<std::string>& folder, Send send);

  /// Of the step whose sum this rank holds: member `index` of `count` writes its shard of the
  /// checkpoint behind it; attempt 0: there is none.
  void plan(Step step, std::uint64_t attempt, std::uint32_t index, std::uint32_t count);
  /// The update of `step` has been made.
  void write_planned(Step step);
  /// As ordered, by a rank that holds the updates of the steps before `applied`.
  void save(const SaveShard& order, Step applied);

 private:
  void report(const ShardOutcome& outcome) const;

  const std::string training_;
  const Trainer& trainer_;
  const std::size_t total_;
  const Send send_;
  ShardHeader planned_;  ///< to be written when the step whose sum is held is final
  std::optional<ShardWriter> writer_;
};

}  // namespace orrery::live
