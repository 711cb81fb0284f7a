// The step loop of one rank: micro-batches on a device, paced; the gradient exchange, beside the
// last micro-batch's backward pass where the plan has codes for it; and, once the step is final,
// the update. Emits one StepReport with its operations per step, whatever the
// device. One thread calls it, but snapshot(), set_speed() and interrupt() may be called by any.
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
#include "traces/training/model.hpp"

namespace orrery::live {

class Trainer {
 public:
  /// All arguments outlive the trainer. The job has a pace.
  Trainer(const Scenario& scenario, const Text& text, Device& device);

  /// The fabric of the steps to come.
  void use(std::shared_ptr<Fabric> fabric) { fabric_.use(std::move(fabric)); }
  /// From now on micro-batches are paced at this speed, the one under way too; 1 is nominal.
  void set_speed(double speed) { pace_.set_speed(speed); }
  /// Computes this rank's share of `plan` and exchanges gradients; nothing is updated yet. Throws
  /// FabricBroken, Stopped, and PaceMissed when the work alone took longer than the pace allows.
  StepReport run_step(const StepPlan& plan);
  /// The update along the sum of the last run_step(): once, and only if that step is final. Where
  /// the optimizer's state is sharded, of the parameters whose state this rank holds; gather() then
  /// brings the others.
  void apply();
  /// Throws FabricBroken: parameters are missing then until the next share_state().
  void gather();
  /// What the last run_step() had done when it threw.
  StepReport abandoned() const;
  /// To be called with every new fabric: makes newcomers, if there are any, hold the state of rank
  /// `source` of it; deals a sharded state anew. `current`: this rank is no newcomer. Throws
  /// FabricBroken, and an environment Error if a part of a sharded state is lost.
  void share_state(std::uint32_t source, bool newcomers, bool current,
                   const ShardedOptimizer::Keepers& keepers);
  /// See Device; of a sharded state, those parts that this rank holds.
  TrainingState part(const Range& range) const;
  void restore(const TrainingState& whole);

  /// Where the current step stands.
  ProgressSample snapshot() const;
  /// Ends a run_step() that waits for its pace; the fabric is the caller's to abort. Holds until
  /// resume().
  void interrupt() { pace_.interrupt(); }
  void resume() { pace_.resume(); }

 private:
  struct Marks;  // instants of the step under way
  double compute(const StepPlan& plan, const Share& share, Marks& marks, StepReport& report);
  void start_exchange(const StepPlan& plan);
  void exchange(const StepPlan& plan);
  double micro_batch(Step step, std::uint64_t id);

  const Scenario& scenario_;
  const BuiltinCost cost_;
  const Text& text_;
  Device& device_;
  std::optional<FixedPointSum> sum_;  ///< where the reduction is reproducible; else:
  GradientExchange exchange_;
  std::vector<CodecRule> codecs_;           ///< of the step under way
  bool beside_ = false;                     ///< its exchange was started beside the computation
  std::optional<ShardedOptimizer> shards_;  ///< in place of the device's optimizer
  StepReport report_;                       ///< of the step under way
  double predictions_ = 0;                  ///< of all ranks in the last step
  Nanos update_ = 0;                        ///< how long the last update took
  Pace pace_;
  ProgressMeter progress_;
  MeteredFabric fabric_;
};

}  // namespace orrery::live
