// Recorded execution trace, or a single collective, in a simulated world: rank r on GPU r. Policies
// can decide nothing about it, but it is observed, recorded and reported like a job. One pass is
// simulated; the others are equal, except passes of a single collective during which links fail or
// return. Other jobs of the world do not slow it, and it slows none
// (limits: docs/chakra.md). Called by the simulator's backend; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/chakra/faulted_collective.hpp"
#include "sim/estimates/step/trace_run.hpp"
#include "sim/world/job_model.hpp"
#include "traces/chakra/chakra_trace.hpp"
#include "traces/chakra/trace_fold.hpp"
#include "traces/run.pb.h"

namespace orrery::sim {

/// Returns the trace of one collective among ranks 0 to `ranks` - 1, with one node for each. Throws
/// an internal Error for a kind outside the schema.
ChakraTrace collective_trace(const Collective& collective, std::uint32_t ranks);

/// Model of an execution trace.
class TraceModel : public JobModel, public BranchingJob {
 public:
  /// Reads the trace. Throws bad_input if it cannot be read or does not fit the cluster, a usage
  /// Error if the request asks for a timeline. Cluster and world must outlive the model. `engine`:
  /// factory of an engine with shared links.
  TraceModel(const RunRequest& request, const World& world, estimates::EngineFactory engine,
             Happen happen);

  /// Throws bad_input: all passes are equal, and no decision exists.
  void set_milestones(Milestones&) override;
  /// Simulates the trace, once, after its submission; the run begins at `now`. Does nothing before
  /// the submission and in later calls. Throws bad_input if the policy clock would overflow, or if
  /// the trace needs more links than the engine has, and as run_trace().
  void begin(Nanos now, const Watch& watch) override;
  /// Returns 0 before the submission, then the end of the run (kNever before begin()); kNever after
  /// the end.
  Nanos next_event_time() const override;
  /// Submits the trace and places it on the first GPUs in the first call; in the second call
  /// reports all steps at once and ends the job.
  void advance_to(Nanos now, const Watch& watch) override;
  bool is_over() const override { return over_; }
  /// Returns an objection to every decision.
  std::string refusal(const Decision&) const override;
  /// Does nothing: no decision passes refusal().
  void carry_out(const Decision&, Nanos) override {}
  /// Writes the metrics of the complete run, also if it ends after `now`. Call after begin() has
  /// simulated the trace.
  void fill(Report& report, Nanos now) override;
  /// Adds one entry: begin and step time only once begin() has simulated the trace, the end only
  /// once the job has ended; no step counts before the end.
  void add_outcomes(Report& report) const override;

 private:
  void submit_job();
  void execute_trace();
  /// Returns true if faults happen to a single collective.
  bool has_faults() const;
  /// Executes all passes of the single collective under the scenario's faults, from `now` on.
  void execute_under_faults(Nanos now);
  /// Writes the results of the passes that execute_under_faults() executed.
  void fill_course(Report& report) const;
  Step steps() const { return request_.scenario().run().steps(); }

  const RunRequest request_;
  const World& world_;
  estimates::EngineFactory engine_;
  Happen happen_;
  const ChakraTrace trace_;
  const FoldedTrace folded_;
  JobId id_;
  estimates::TraceRunResult result_;
  estimates::TraceBounds bounds_;
  std::optional<FaultPlan> faults_;  ///< only with has_faults(), once executed
  FaultedCollective::Course course_;
  std::uint64_t engine_events_ = 0;
  Nanos began_ = 0, ends_ = kNever;
  bool submitted_ = false, over_ = false;
};

}  // namespace orrery::sim
