// Uses of the time of a job's GPUs, each GPU-nanosecond booked once: a cursor runs along the policy
// clock, and all time before an instant is booked before the cursor passes it. The parts therefore
// add up to elapsed time x GPUs by construction. Called by RunMetrics and by the run; one thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "core/units.hpp"
#include "sim/training/energy_meter.hpp"
#include "traces/report.pb.h"

namespace orrery::sim {

/// Uses of GPU time (GpuTime, report.proto). The uses within a step come first.
enum class GpuUse : std::uint8_t {
  computing, exposed_communication, bubble, waiting, input,
  checkpoint, lost_work, detection, recovery, idle
};
inline constexpr std::size_t kGpuUses = 10, kStepUses = 5;

/// Ledger of the GPU time of one job. For example, 8 GPUs, a step of 10 s, a stall of 5 s: 80
/// GPU-seconds in steps and 40 in recovery.
class GpuTimeLedger {
 public:
  __extension__ using GpuNanos = __int128;

  /// Constructs an empty ledger of a job with `gpus` GPUs, whose energy `meter` measures. Call
  /// begin() before methods that book.
  explicit GpuTimeLedger(std::uint32_t gpus, EnergyMeter meter = {})
      : gpus_(gpus), meter_(std::move(meter)) {}

  /// Sets the begin, and the end of the booked time, to the instant `at`; keeps booked time and
  /// stalls.
  void begin(Nanos at) { began_ = cursor_ = at; }
  /// Returns the instant of the newest begin(); 0 before.
  Nanos begin_time() const { return began_; }
  /// Returns the instant up to which time has been booked.
  Nanos booked_until() const { return cursor_; }

  /// Adds a stall until `until`, for `use`, behind the stalls so far; nothing if they, or without
  /// stalls the booked time, reach `until`. The stall is booked as time advances.
  void stall_until(Nanos until, GpuUse use);
  /// Books all time up to `now` as advance_to(), then removes all remaining stalls. Call before a
  /// step begins, and when a stall ends early.
  void interrupt_at(Nanos now);
  /// Books a loss of ranks at `now`: interrupt_at(), then stalls for the detection until `noticed`
  /// and for the recovery until `resumed`.
  void stall_for_loss(Nanos now, Nanos noticed, Nanos resumed);
  /// Books all time up to `now` without work on a step: the stalls for their uses, the rest as
  /// idle. Books nothing if the time is booked already. Stalls beyond `now` stay.
  void advance_to(Nanos now);
  /// Books a discarded step from `began`, or from booked_until() if that is later, to `now`:
  /// `working` GPUs as lost work, the others as idle. First books the time up to `began` as
  /// advance_to().
  void lose_step(Nanos began, Nanos now, std::uint32_t working);
  /// Books committed steps of total duration `length` from booked_until() on, whatever stalls
  /// remain: call interrupt_at() at the begin of the steps. `shares`: times of the `working` GPUs
  /// in computing, exposed communication, bubble, waiting and input, in any unit; all computing if
  /// the sum is 0. The other GPUs are idle. `mix`: activities of the same GPUs in the same time,
  /// for the energy; products if all are 0. Steps that are lost later draw power as the newest
  /// ones.
  void commit_steps(Nanos length, const std::array<double, kStepUses>& shares,
                    std::uint32_t working, const EnergyMeter::Mix& mix = {});

  /// Marks a checkpoint of the state before `step` at the booked time; replaces an earlier mark of
  /// `step`. Forgets the marks before `durable`, behind which no rollback will go.
  void mark_checkpoint(Step step, Step durable);
  /// Books a rollback to `step`: the time of the uses within steps that was booked since that
  /// step's mark, or ever if `step` has no mark, moves to lost work. Other uses and booked_until()
  /// stay. Forgets the marks of later steps, and without a mark of `step` all marks.
  void roll_back(Step step);

  /// Returns the meter of the energy.
  EnergyMeter& meter() { return meter_; }
  const EnergyMeter& meter() const { return meter_; }
  /// Returns the booked GPU-nanoseconds.
  GpuNanos total() const;
  /// Returns the booked GPU-seconds of one use.
  double seconds(GpuUse use) const;
  /// Writes the GPU-seconds of all uses.
  void fill(GpuTime& report) const;

 private:
  struct Pause {
    Nanos until = 0;
    GpuUse use{};
    /// Passes all members to a StateWriter or StateReader.
    template <class Archive>
    friend void fields(Archive& archive, Pause& of) {
      archive(of.until, of.use);
    }
  };
  using StepTime = std::array<GpuNanos, kStepUses>;

  static constexpr EnergyMeter::Mix kProducts{.time = {1, 0, 0, 0, 0}};

  void book_until(Nanos until, GpuUse use);
  GpuNanos& spent(GpuUse use) { return spent_[static_cast<std::size_t>(use)]; }
  StepTime step_time() const;

  std::uint32_t gpus_;
  Nanos began_ = 0, cursor_ = 0;
  std::vector<Pause> pauses_;  ///< indexed by `until`
  std::array<GpuNanos, kGpuUses> spent_{};
  std::map<Step, StepTime> marks_;
  EnergyMeter meter_;
  EnergyMeter::Mix newest_ = kProducts;  ///< activities of the newest steps

  /// Passes all members to a StateWriter or StateReader.
  template <class Archive>
  friend void fields(Archive& archive, GpuTimeLedger& of) {
    archive(of.gpus_, of.began_, of.cursor_, of.pauses_, of.spent_, of.marks_, of.meter_,
            of.newest_);
  }
};

}  // namespace orrery::sim
