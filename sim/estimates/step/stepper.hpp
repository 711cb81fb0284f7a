// Simulator of training steps for any state of the hardware. Called by the backend with the SimGrid
// engine and by prediction with the contention-free engine. One thread. Seconds within the step.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/estimates/engine/engine.hpp"
#include "sim/estimates/plan/hardware_state.hpp"
#include "sim/estimates/plan/plan.hpp"
#include "sim/estimates/plan/plan_base.hpp"
#include "sim/estimates/prices/exchange_load.hpp"
#include "sim/estimates/prices/machine_costs.hpp"
#include "sim/estimates/step/iteration.hpp"
#include "topologies/cluster.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::estimates {

/// Returns the cost profile of the cluster's GPU with the job's attention kernels, the factors and
/// host times of the job's software stack, and the cluster's line rate if it asks for one; values
/// of `machine` replace them. Throws bad_input if the node of `machine` has other GPUs.
CostProfile job_profile(const Job& job, const Cluster& cluster, const MachineCosts& machine = {});
/// Returns the price of every block of a job on its software stack, including the stack's additions
/// to each step, which belong to the optimizer's blocks; values of `machine` replace those of the
/// stack. `exchanges`: price of the exchanges that lengthen the computation beside them. Throws
/// bad_input if the GPU lacks the job's precision.
std::vector<BlockPrice> block_prices(const Cluster& cluster, const StepGraph& graph,
                                     const BlockGroups& groups, const ExchangePrice& exchanges,
                                     const MachineCosts& machine = {});
/// Returns the price of exchanges as plans with this cache execute them: by `algorithm`, or by
/// rings if it is automatic. The cache must outlive the result.
ExchangePrice planned_exchanges(PlanBase& base,
                                CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring);

/// Returns the number of hosts and links that an engine needs for the plans of a job. Without
/// `full_detail` at most 16,384 links or a quarter of the GPUs, which only a step with thousands of
/// different faults exceeds (Stepper::step throws then).
EngineRoom engine_room(const Cluster& cluster, const StepGraph& graph, bool full_detail);

/// Simulated step with the plan on which it ran.
struct SimulatedStep {
  Plan plan;
  IterationRun run;
  double wire_bytes = 0;  ///< bytes that all ranks together send for gradients
};

/// Simulator and cache of the steps of one job. A folded step is simulated once per distinct key
/// (hardware state, micro-batches, collectives, codecs, input) and then returned from the cache; in
/// full detail every step is simulated. Owns the prices, the cache and a share of the engine. Every
/// list `micro_batches` has one number for each replica of the graph, and states name ranks and
/// links of the job's graph and cluster (not checked). Not thread-safe.
class Stepper {
 public:
  /// Settings of a stepper, fixed at construction.
  struct Options {
    bool full_detail = false;
    /// True if steps keep intervals for the timeline.
    bool slices = false;
    /// Algorithm of collectives; automatic: by size.
    CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;
    MachineCosts machine = {};
  };
  /// Sets the algorithms of collectives from the next step on, in place of an earlier table;
  /// collectives without an entry in the table use Options. Steps in the cache stay and are found
  /// again under the same table.
  void set_collectives(const CollectiveTable& table);
  /// Sets the rules of gradient codecs from the next step on, in place of earlier ones; without
  /// rules gradients travel uncoded. The cache stays.
  void set_codecs(const std::vector<CodecRule>& rules);
  /// Sets the processes that read data for a rank, and the micro-batches that they read ahead, from
  /// the next step on. No effect on a job without input. The cache stays.
  void set_input(std::uint32_t workers, std::uint32_t prefetch);
  /// Sets the nanoseconds in which one process reads one micro-batch, in place of job.input.read,
  /// from the next step on. No effect on a job without input. The cache stays.
  void set_read_time(Nanos read);
  /// Stepper of the same job with more replicas, whose results this stepper reuses. The replicas of
  /// this job have the same placement there.
  struct Whole {
    Stepper* stepper;                 ///< stepper of the larger job, or null
    std::vector<std::uint32_t> kept;  ///< number of each replica in the larger job, ascending
  };
  /// Prices the blocks and creates the engine. `placement`: GPU of each rank. Throws bad_input if
  /// the GPU lacks the job's precision, and as `engine` does. All arguments passed by reference
  /// except `engine`, and the larger job's stepper, must outlive this object.
  Stepper(const Cluster& cluster, StepGraph& graph, const std::vector<GpuId>& placement,
          Options options, const EngineFactory& engine, Whole whole = {});

  /// Returns the step under `state` with `micro_batches`: from the cache if known, else blocks
  /// while the engine simulates it. The cache forgets all steps after 1024; the returned step stays
  /// valid. Call outside of Engine::run(). Throws bad_input if the step needs more links than the
  /// engine has, an internal Error if it needs more hosts.
  std::shared_ptr<const SimulatedStep> step(const HardwareState& state,
                                            const std::vector<std::uint32_t>& micro_batches);

  /// Change of the hardware at second `at` >= 0 of the step: the affected ranks and links, and the
  /// state from then on. `fatal`: the step is cut short at the change.
  struct Change {
    double at = 0;
    HardwareState state;
    std::vector<RankId> ranks = {};
    std::vector<LinkId> links = {};
    bool fatal = false;
  };
  /// Returns the step with changes during it, in any order; never cached, counts as simulated(). A
  /// change sets only the listed ranks and links to its state; a link that is down stays down until
  /// the end of the step. A change after the end of the step has no effect. Blocks and throws as
  /// step().
  std::shared_ptr<const SimulatedStep> step_with(const HardwareState& state,
                                                 const std::vector<std::uint32_t>& micro_batches,
                                                 const std::vector<Change>& changes);

  /// Returns the links that the step's flows cross with the present collectives and codecs,
  /// ascending; simulates nothing.
  std::vector<LinkId> links_crossed_by(const HardwareState& state,
                                       const std::vector<std::uint32_t>& micro_batches);
  /// Returns the number of flows that cross a link between switches in a step without faults, with
  /// the present collectives and codecs; 0 for any other link and for a link without flows.
  /// Simulates nothing.
  std::uint64_t flows_over(LinkId link);
  /// Returns true if `link` is between switches and cannot bind a step, even with 1/`slow` of its
  /// bandwidth: the flows of a step without faults need less. `slow` > 0. Returns false for all
  /// other links.
  bool has_room(LinkId link, double slow);
  /// Returns a step with a plan but without a run, for execution by the caller; `pinned` are links
  /// of their own in the plan. Never cached; counts as simulated().
  std::unique_ptr<SimulatedStep> planned(const HardwareState& state,
                                         const std::vector<std::uint32_t>& micro_batches,
                                         std::vector<LinkId> pinned);
  /// Returns the step graph of the job.
  StepGraph& graph() { return graph_; }
  /// Returns the cluster of the job.
  const Cluster& cluster() const { return cluster_; }
  /// Returns the price of each block.
  const std::vector<BlockPrice>& prices() const { return prices_; }
  /// Returns the engine, which other steppers may share.
  Engine& engine() { return *engine_; }

  /// Returns the seconds of forward and backward blocks per micro-batch on a nominal GPU, of the
  /// slowest stage, with the collectives inside blocks.
  double nominal_micro_batch_time();
  /// Returns the seconds that the host adds to every step.
  double rest() const { return rest_.value; }
  /// Returns the rate of a flow alone on `link` under `state`, in bytes per second; not 0 for a
  /// link that is down.
  double effective_bandwidth(LinkId link, const HardwareState& state) const;

  /// Returns the number of simulated and planned() steps, cached results excluded.
  std::uint64_t simulated() const { return simulated_; }
  /// Returns the largest number of replica classes of any plan.
  std::uint64_t most_classes() const { return most_classes_; }

 private:
  /// Cache key of a folded step.
  struct Key {
    HardwareState state;
    std::vector<std::uint32_t> micro_batches;
    CollectiveTable collectives;
    std::string codecs;  ///< codec rules as text
    /// workers, micro-batches read ahead, and nanoseconds of one read
    std::tuple<std::uint32_t, std::uint32_t, Nanos> input;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  /// Returns the request of a plan with the current settings.
  PlanRequest plan_request(const HardwareState& state,
                           const std::vector<std::uint32_t>& micro_batches);
  /// Returns a step with a new plan and without a run; counts the step as simulated.
  std::unique_ptr<SimulatedStep> plan(const PlanRequest& request);
  /// Returns a newly simulated step.
  std::shared_ptr<const SimulatedStep> simulate_step(const PlanRequest& request,
                                                     std::vector<TimedChange> changes);
  /// Returns the bytes that all ranks send for gradients.
  double wire_bytes(const Plan& plan);
  /// Returns the need of a link between switches without faults; zero for a link without flows.
  LinkNeed link_need(LinkId link);

  const Cluster& cluster_;
  StepGraph& graph_;
  const std::vector<GpuId>& placement_;
  Options options_;
  const CostProfile profile_;
  const Seconds rest_;
  const ReplicaGroups groups_;
  PlanBase plan_base_;
  std::vector<BlockPrice> prices_;
  CollectiveTable collectives_;
  GradientCodes codes_;
  /// SimGrid allows one engine per process, so steppers share the engine.
  std::shared_ptr<Engine> engine_;
  std::map<Key, std::shared_ptr<const SimulatedStep>> memo_;
  /// Needs of links between switches, computed on first use.
  std::optional<std::map<std::uint32_t, LinkNeed>> needs_;
  std::uint64_t simulated_ = 0;
  std::uint64_t most_classes_ = 0;
};

}  // namespace orrery::estimates
