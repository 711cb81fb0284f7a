// One training step for any state of the hardware: simulated once per distinct state and
// remembered (folded), or simulated every time (full detail). Called by the backend with SimGrid's
// engine, by prediction with the free one; owns it; one thread. Seconds within the step.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "sim/estimates/engine/engine.hpp"
#include "sim/estimates/plan/hardware_state.hpp"
#include "sim/estimates/plan/plan.hpp"
#include "sim/estimates/plan/plan_base.hpp"
#include "sim/estimates/prices/machine_costs.hpp"
#include "sim/estimates/step/iteration.hpp"
#include "topologies/cluster.hpp"
#include "traces/training/step_graph.hpp"

namespace orrery::estimates {

/// The profile of a GPU with the factors of the software that the job runs on.
CostProfile job_profile(const Job& job, const Cluster& cluster);
/// Price of every block of a job on its stack, what the stack adds to a step included. Throws
/// bad_input if the GPU lacks the job's precision.
std::vector<BlockPrice> block_prices(const Cluster& cluster, const StepGraph& graph,
                                     const BlockGroups& groups, const MachineCosts& machine = {});

/// What plans of a job can need of an engine at most.
EngineRoom engine_room(const Cluster& cluster, const StepGraph& graph, bool full_detail);

/// A simulated step with the plan it ran on.
struct SimulatedStep {
  Plan plan;
  IterationRun run;
  double wire_bytes = 0;  ///< that all ranks together send for gradients
};

class Stepper {
 public:
  struct Options {
    bool full_detail = false;
    bool slices = false;
    CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;  ///< automatic: by size
    MachineCosts machine = {};
  };
  /// From the next step on; calls that the table says nothing of go by Options.
  void set_collectives(const CollectiveTable& table);
  /// From the next step on; none: gradients travel as they are.
  void set_codecs(const std::vector<CodecRule>& rules);
  /// The stepper of the same job with more replicas, and which of them are here; they stand there
  /// as well. What both have in common is known then.
  struct Whole {
    Stepper* stepper;  ///< null: there is none
    std::vector<std::uint32_t> kept;  ///< by replica: its number there, ascending
  };
  /// Throws bad_input if the GPU lacks the job's precision.
  Stepper(const Cluster& cluster, StepGraph& graph, const std::vector<GpuId>& placement,
          Options options, const EngineFactory& engine, Whole whole = {});

  /// The step under `state`, with `micro_batches` by replica.
  std::shared_ptr<const SimulatedStep> step(const HardwareState& state,
                                            const std::vector<std::uint32_t>& micro_batches);

  /// A change of the hardware at `at`: what it touches, and the state from then on.
  struct Change {
    double at = 0;
    HardwareState state;
    std::vector<RankId> ranks = {};
    std::vector<LinkId> links = {};
    bool fatal = false;
  };
  /// The same with changes during it; never remembered.
  std::shared_ptr<const SimulatedStep> step_with(const HardwareState& state,
                                                 const std::vector<std::uint32_t>& micro_batches,
                                                 const std::vector<Change>& changes);

  /// Links that the step's flows cross, ascending.
  std::vector<LinkId> crossed(const HardwareState& state,
                              const std::vector<std::uint32_t>& micro_batches);
  /// How many flows cross a link between switches in a step without faults.
  std::uint64_t flows_over(LinkId link);
  /// Whether it, a link between switches, never binds a step, with 1/`slow` of its bandwidth.
  bool has_room(LinkId link, double slow);
  /// The step with a plan in which `pinned` are links of their own, to be run by somebody else.
  std::unique_ptr<SimulatedStep> planned(const HardwareState& state,
                                         const std::vector<std::uint32_t>& micro_batches,
                                         std::vector<LinkId> pinned);
  StepGraph& graph() { return graph_; }
  const std::vector<BlockPrice>& prices() const { return prices_; }
  Engine& engine() { return *engine_; }

  /// Seconds of forward and backward blocks per micro-batch on a nominal GPU, slowest stage.
  double nominal_micro_batch_time();
  /// What the host adds to every step, seconds.
  double rest() const { return rest_.value; }
  /// What a flow over `link` alone reaches under `state`, bytes per second.
  double effective_bandwidth(LinkId link, const HardwareState& state) const;

  std::uint64_t simulated() const { return simulated_; }
  std::uint64_t most_classes() const { return most_classes_; }

 private:
  struct Key {
    HardwareState state;
    std::vector<std::uint32_t> micro_batches;
    CollectiveTable collectives;
    std::string codecs;  ///< rules in force
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  PlanRequest plan_request(const HardwareState& state,
                           const std::vector<std::uint32_t>& micro_batches);
  std::unique_ptr<SimulatedStep> plan(const PlanRequest& request);
  std::shared_ptr<const SimulatedStep> simulate(const PlanRequest& request,
                                                std::vector<TimedChange> changes);
  double wire_bytes(const Plan& plan);
  LinkNeed need(LinkId link);

  const Cluster& cluster_;
  StepGraph& graph_;
  const std::vector<GpuId>& placement_;
  Options options_;
  const CostProfile profile_;
  const Seconds rest_;
  const ReplicaGroups groups_;
  std::vector<BlockPrice> prices_;
  CollectiveTable collectives_;
  GradientCodes codes_;
  PlanBase plan_base_;
  std::shared_ptr<Engine> engine_;  ///< a process has one of SimGrid's: steppers share it
  std::map<Key, std::shared_ptr<const SimulatedStep>> memo_;
  std::optional<std::map<std::uint32_t, LinkNeed>> needs_;  ///< of links, once asked for
  std::uint64_t simulated_ = 0;
  std::uint64_t most_classes_ = 0;
};

}  // namespace orrery::estimates
