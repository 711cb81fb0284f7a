// Where the time of a job's GPUs went, each GPU-nanosecond once: a cursor runs along the policy
// clock, and whatever lies between it and an instant is booked before the cursor passes on. So
// parts add up to elapsed time x GPUs by construction of the clock, not of the sum. Told by
// Accounts and by the run; one thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "core/ids.hpp"
#include "core/units.hpp"
#include "traces/report.pb.h"

namespace orrery::sim {

/// In the order of GpuTime (report.proto). Those of steps come first.
enum class GpuUse : std::uint8_t {
  computing, exposed_communication, bubble, waiting,
  checkpoint, lost_work, detection, recovery, idle
};
inline constexpr std::size_t kGpuUses = 9, kStepUses = 4;

class TimeLedger {
 public:
  __extension__ using GpuNanos = __int128;

  /// Of a job of `gpus` GPUs. Nothing is booked before begin().
  explicit TimeLedger(std::uint32_t gpus) : gpus_(gpus) {}

  void begin(Nanos at) { began_ = cursor_ = at; }
  Nanos began() const { return began_; }
  Nanos booked_until() const { return cursor_; }

  /// The job stands still until `until`, for `use`: behind what it stands still for already.
  void stand_still(Nanos until, GpuUse use);
  /// What it stood still for after `now` does not come any more.
  void interrupt(Nanos now);
  /// All time up to `now` in which it did not work on a step.
  void pass(Nanos now);
  /// A step from `began` on to `now` that does not count, of `working` GPUs.
  void lose_step(Nanos began, Nanos now, std::uint32_t working);
  /// Steps that took `length` together, the last thing that has happened. `shares`: what of the
  /// time of `working` GPUs went into computing, exposed communication, bubble and waiting.
  void commit(Nanos length, const std::array<double, kStepUses>& shares, std::uint32_t working);

  /// A checkpoint of the state before `step`, as of now. Nothing will go back behind `durable`.
  void mark(Step step, Step durable);
  /// The job goes on from `step`: what it worked since that one's mark, or since the beginning, was
  /// lost work.
  void roll_back(Step step);

  GpuNanos total() const;
  double seconds(GpuUse use) const;
  void fill(GpuTime& report) const;

 private:
  struct Pause {
    Nanos until = 0;
    GpuUse use{};
  };
  using StepTime = std::array<GpuNanos, kStepUses>;

  void book(Nanos until, GpuUse use);
  GpuNanos& spent(GpuUse use) { return spent_[static_cast<std::size_t>(use)]; }
  StepTime step_time() const;

  const std::uint32_t gpus_;
  Nanos began_ = 0, cursor_ = 0;
  std::vector<Pause> pauses_;  ///< by `until`
  std::array<GpuNanos, kGpuUses> spent_{};
  std::map<Step, StepTime> marks_;
};

}  // namespace orrery::sim
