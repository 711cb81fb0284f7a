// Course of a long training run under failures, without a simulated step: the rules of `recover`
// with `on_loss: hold` and of periodic checkpoints, in closed form between two failures.
// A run of months takes microseconds, so that a plan can play hundreds of seeds for each
// candidate; tests compare it with `orrery simulate`, seed by seed. Pure function of its arguments
// but for the failures, which it draws, and steps that it prices. Nanoseconds of the policy clock.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "core/ids.hpp"
#include "sim/planning/interruptions.hpp"

namespace orrery::sim {

/// Factor on the duration of a step by the job's nodes, in the order of their ranks.
using Slowdown = std::function<double(const std::vector<std::uint32_t>&)>;

/// Ways of the policy `recover`, as far as long runs know them. restart: after a loss all ranks
/// load the newest checkpoint. replace: replacements receive the state of another replica, and no
/// step is repeated but the one that the loss has cut; if no replica is complete, all restart.
enum class Recovery : std::uint8_t { restart, replace };
constexpr std::array<std::string_view, 2> names_of(Recovery) { return {"restart", "replace"}; }

/// Policies of a long run that a plan chooses. For example, {replace, 2}: replacements from peers,
/// and checkpoints half as often as Daly's interval demands.
struct RunPolicies {
  Recovery recovery = Recovery::restart;
  double interval = 1;  ///< interval of checkpoints over Daly's
};

/// Training run to play. For example, 1,000 steps of 10 s with a checkpoint of 5 s every 100 steps
/// take 10,045 s without a failure: the checkpoint of the last step does not count.
struct LongRun {
  std::uint64_t steps = 0;
  Nanos step = 0;           ///< duration of a step on the first nodes
  std::uint64_t every = 1;  ///< steps between two checkpoints
  Nanos stall = 0;          ///< stall of the training for a checkpoint
  Nanos write = 0;          ///< time from the end of the stall until the checkpoint is durable
  Nanos detection = 0;      ///< time from a loss until it is known
  Nanos restart = 0;        ///< time from then until the processes have loaded the checkpoint
  Nanos regroup = 0;        ///< time from then until the ranks work
  std::uint32_t nodes = 0;  ///< nodes of the job
  std::uint32_t cluster_nodes = 0;  ///< nodes of the cluster; the others are spares
  Slowdown slowdown = {};           ///< empty: steps take as long on all nodes
  Recovery recovery = Recovery::restart;
  Nanos replacement = 0;  ///< time from a loss until a replacement on another node can join
  std::uint32_t replicas = 1;          ///< data-parallel replicas
  std::uint32_t replicas_of_node = 1;  ///< most replicas with ranks on one node
};

/// Duration of a played run and its parts: steps x step + the other times = elapsed.
struct RunCourse {
  bool finished = false;  ///< false: given up, without progress for 30 days (and not before day 60)
  Nanos elapsed = 0;      ///< time until the last step
  Nanos checkpoints = 0;  ///< stalls for checkpoints
  Nanos lost_work = 0;    ///< steps that were cut, or repeated after a rollback
  Nanos detection = 0;    ///< times until losses were known
  Nanos recovery = 0;     ///< restarts and regrouping
  Nanos waiting = 0;      ///< waits for hardware, because no spare node was healthy
  Nanos displaced = 0;    ///< longer steps on spare nodes
  std::uint64_t failures = 0;  ///< losses that stopped the run
};

/// Committed steps at an instant of a played run.
struct CoursePoint {
  Nanos at = 0;
  std::uint64_t step = 0;
};

/// Returns the course of the run. The failures must be those of `cluster_nodes` nodes. Appends to
/// `points`, unless null, the begin, each loss (before and after the rollback), each end of a
/// recovery and the end, by time: steps grow evenly in between.
RunCourse play_run(const LongRun& run, Interruptions& failures,
                   std::vector<CoursePoint>* points = nullptr);

}  // namespace orrery::sim
