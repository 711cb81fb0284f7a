// Step loop of one rank: paced micro-batches on a device; the gradient exchange, beside the last
// micro-batch's backward pass if the plan has codes; and, once the step is final, the update.
// Reports one StepReport with its operations for each step, on any device. One thread calls it, but
// snapshot(), set_speed() and interrupt_step() may be called by any.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "live/control.pb.h"
#include "live/fabric/fabric.hpp"
#include "live/training/device.hpp"
#include "live/training/fixed_point.hpp"
#include "live/training/gradient_exchange.hpp"
#include "live/training/metered_fabric.hpp"
#include "live/training/pace.hpp"
#include "live/training/progress_meter.hpp"
#include "live/training/sharded_optimizer.hpp"
#include "live/training/text.hpp"
#include "traces/scenario.pb.h"
#include "traces/workload/model.hpp"

namespace orrery::live {

/// Trainer of one rank.
class Trainer {
 public:
  /// Constructs a trainer without a fabric; all arguments must outlive it. The job must have a
  /// pace. Throws an environment Error if the job shards the optimizer and the device's parameters
  /// are not in host memory, and bad_input for an unknown built-in model.
  Trainer(const Scenario& scenario, const Text& text, Device& device);

  /// Sets the fabric of later steps, and releases the earlier one; null: none. Call between two
  /// steps.
  void set_fabric(std::shared_ptr<Fabric> fabric) { fabric_.set_fabric(std::move(fabric)); }
  /// Sets the pace of micro-batches, including the current one; above 0, 1 is nominal.
  void set_speed(double speed) { pace_.set_speed(speed); }
  /// Computes this rank's share of `plan` and exchanges gradients, without an update; blocks as
  /// long as the pace and the exchange need. Afterwards the device's gradient is the sum over all
  /// ranks. Returns the step's report, which also contains the time of the update before. Needs a
  /// fabric, and a plan with one share for each of its ranks and a micro-batch in one of them.
  /// Throws FabricBroken; Stopped; PaceMissed if the work of 3 or more consecutive steps took
  /// longer than the pace; an internal Error for codes in a reproducible run, and as
  /// Fabric::all_reduce(); bad_input for invalid codes in the plan, and for a text shorter than a
  /// sequence; an environment Error if the device fails or for a gradient that a reproducible sum
  /// cannot hold; and, in a step whose number is a multiple of survival.verify_every, StateDamaged
  /// if the state in memory differs from the one that updates and transfers have written: the
  /// gradient must not become final. After an error the step may be run again.
  StepReport run_step(const StepPlan& plan);
  /// Applies the update along the sum of the last run_step(), divided by the step's predicted bytes
  /// of all ranks, with the learning rate times the factor of its plan. Call once, only after a
  /// run_step() without an error whose step is final. With a sharded optimizer it updates the
  /// parameters whose state this rank holds; gather_parameters() then fetches the others. Throws an
  /// environment Error if the device fails, and an internal Error if a sharded optimizer has had
  /// neither share_state() nor restore_state(). Damage of the state is not hidden by the update.
  void apply();
  /// Fetches the parameters of the other ranks, and sends them this rank's; does nothing without a
  /// sharded optimizer. Call after apply(), on all ranks, over the fabric of the newest
  /// share_state(). Throws FabricBroken: parameters are missing then until the next share_state();
  /// and StateDamaged, before anything is sent, if this rank's part is damaged or, after a step
  /// that verifies the state, any of its state.
  void gather_parameters();
  /// Returns the report of the last run_step(), as far as the step came, marked as abandoned. Call
  /// after a run_step() that threw; without a step number before the first run_step().
  StepReport abandoned_report() const;
  /// Shares the state over a new fabric: ranks without state, if any, receive the state of rank
  /// `source`; a sharded state is distributed again. `current`: this rank has the current state.
  /// Call after set_fabric(), on all ranks of the fabric, with the same `source` (a rank of the
  /// fabric), `newcomers` and `keepers`; blocks until this rank has its state. Without a sharded
  /// state and without newcomers nothing is sent. Throws FabricBroken, StateLost if a part of a
  /// sharded state is lost, StateDamaged if this rank's state was damaged before or meanwhile, and
  /// an internal Error for a sharded state with another number of keepers than ranks.
  void share_state(std::uint32_t source, bool newcomers, bool current,
                   const ShardedOptimizer::Keepers& keepers);
  /// Returns a copy of the state of some parameters (see Device); with a sharded state, of those
  /// that this rank holds. Throws StateDamaged if any of this rank's state is damaged, and an
  /// internal Error for a range beyond the model or the held state; with a sharded state the range
  /// must lie within the model, which is not checked.
  TrainingState part(const Range& range) const;
  /// Throws StateDamaged if the state in memory differs from the one that updates and transfers
  /// have written.
  void verify_state() const;
  /// Returns the checksums of the state that updates and transfers have written, for a comparison
  /// with other ranks (ShardedOptimizer::part_checksums()); empty if the state is not in host
  /// memory. Reads no state.
  PartChecksums state_checksums() const;
  /// Sets parameters and optimizer state, and accepts the result as the undamaged state. With a
  /// sharded optimizer this rank holds the whole state until the next share_state(). Throws an
  /// internal Error for a state of another model; the parameters may have changed by then.
  void restore_state(const TrainingState& whole);

  /// Returns the progress of the current step, or of the last one between two steps, with the bytes
  /// sent by all steps; without a round trip if no fabric is set.
  ProgressSample snapshot() const;
  /// Ends a run_step() at its current or next wait for the pace, by Stopped; the caller must abort
  /// the fabric, for which the step may wait as well. Until resume_steps(), every run_step() throws
  /// Stopped. Other methods are not affected.
  void interrupt_step() { pace_.interrupt_waits(); }
  /// Lets later run_step() work again; a step that has thrown stays lost.
  void resume_steps() { pace_.resume_waits(); }

 private:
  /// Instants of the current step.
  struct Marks;
  double compute_gradient(const StepPlan& plan, const Share& share, Marks& marks,
                          StepReport& report);
  void start_exchange(const StepPlan& plan);
  void exchange(const StepPlan& plan);
  /// Reports the squares of the gradients before and after the exchange, if it had several ranks.
  void report_squares(double own, double total);
  double micro_batch(Step step, std::uint64_t id);
  /// Copies the state of rank `source` to all ranks.
  void copy_state(std::uint32_t source);
  void report_state();

  const Scenario& scenario_;
  const BuiltinCost cost_;
  const Text& text_;
  Device& device_;
  std::optional<FixedPointSum> sum_;  ///< set if the reduction is reproducible; otherwise:
  GradientExchange exchange_;
  std::vector<CodecRule> codecs_;           ///< rules of the current step
  bool beside_ = false;                     ///< true if its exchange runs beside the computation
  std::optional<ShardedOptimizer> shards_;  ///< replaces the device's optimizer
  StepReport report_;                       ///< report of the current step
  double predictions_ = 0;                  ///< predicted bytes of all ranks in the last step
  double rate_factor_ = 1;                  ///< factor on the learning rate in the last step
  Nanos update_ = 0;                        ///< duration of the last update
  bool verifies_ = true;                    ///< true if the current step verifies the state
  Pace pace_;
  ProgressMeter progress_;
  MeteredFabric fabric_;
};

}  // namespace orrery::live
