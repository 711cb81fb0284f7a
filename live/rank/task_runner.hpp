// Carries out what the control core tells a rank to do: enter an epoch and listen, link up with its
// members and take their state, work on a step, apply its sum. Whatever is interrupted or breaks is
// given up and said; what comes next the control core knows. The agent's step loop calls; one
// thread.
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

class TaskRunner {
 public:
  using Task = membership::Task;
  /// What it works with; outlives it.
  struct With {
    Trainer& trainer;
    RankState& state;
    CheckpointShards& shards;
    const EpochFabrics& fabrics;
  };

  /// `domains`: by rank. `send`: hears what became of each step.
  TaskRunner(std::uint32_t rank, std::vector<FailureDomain> domains, const With& with,
             std::function<void(const AgentMessage&)> send);

  void carry_out(const Task& task);

 private:
  void apply(const Task& task);
  void enter(std::uint64_t epoch);
  void link(const Task& task);
  void work(const Task& task);
  void abandon(const Task& task);
  void report(StepReport step) const;
  ShardedOptimizer::Keepers keepers(const Task& task) const;

  const std::uint32_t rank_;
  const std::vector<FailureDomain> domains_;
  const With with_;
  const std::function<void(const AgentMessage&)> send_;
};

}  // namespace orrery::live
