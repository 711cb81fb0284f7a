// The step loop of one rank: micro-batches on a device, paced; the gradient exchange; the update.
// Emits one StepReport with its operations per step, whatever the device. run_step() is called by
// one thread; snapshot() and stop() may be called by any.
#pragma once

#include <condition_variable>
#include <mutex>
#include <span>

#include "live/control.pb.h"
#include "live/device.hpp"
#include "live/fabric.hpp"
#include "live/host_clock.hpp"
#include "live/text.hpp"
#include "traces/scenario.pb.h"

namespace orrery::live {

/// Thrown by run_step() after stop().
struct Stopped {};

class Trainer {
 public:
  /// All arguments outlive the trainer. The job has a pace.
  Trainer(const Scenario& scenario, const Text& text, Device& device, Fabric& fabric);

  /// Computes this rank's share of `plan`, exchanges gradients, updates. Throws FabricBroken,
  /// Stopped, and an environment Error when the work alone took longer than the pace allows.
  StepReport run_step(const StepPlan& plan);

  /// Where the current step stands.
  ProgressSample snapshot();
  /// Ends a run_step() that waits for its pace; the fabric is the caller's to abort.
  void stop();

 private:
  struct Marks;  // instants of the step under way
  double compute(const StepPlan& plan, const Share& share, Marks& marks, StepReport& report);
  double micro_batch(Step step, std::uint64_t id);
  void wait_until(Clock::time_point deadline);
  void begin_micro_batch(Clock::time_point start, Clock::time_point deadline);
  void end_micro_batch();
  void check_pace(const StepReport& report, Nanos allowed) const;

  const Scenario& scenario_;
  const Text& text_;
  Device& device_;
  Fabric& fabric_;

  std::mutex mutex_;  // of everything below
  std::condition_variable stopping_;
  bool stopped_ = false;
  ProgressSample progress_;
  bool computing_ = false;
  const Clock::time_point born_ = Clock::now();
  Clock::time_point micro_batch_start_, micro_batch_deadline_;
};

}  // namespace orrery::live
