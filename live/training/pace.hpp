// Pace of a rank: the computation of a step takes as long as its declared micro-batches divided by
// the declared speed, however fast the work itself is done. Times count from the step's start, so
// one late wake-up does not delay the rest, and a change of speed applies at once. The trainer's
// thread begins and waits; set_speed(), interrupt_waits(), resume_waits() and deadline() may be
// called by any thread. Nanoseconds.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/ids.hpp"
#include "live/machine/host_clock.hpp"

namespace orrery::live {

/// Exception of an interrupted wait.
struct Stopped {};

/// Error: the pace is shorter than the work; a replacement would fail in the same way.
class PaceMissed : public Error {
 public:
  explicit PaceMissed(std::string message) : Error(ErrorKind::environment, std::move(message)) {}
};

/// Timer of a rank's paced work. For example, at speed 0.5 a micro-batch declared as 10 ms ends 20
/// ms after its begin.
class Pace {
 public:
  /// Constructs a pace with the duration of a micro-batch at nominal speed.
  explicit Pace(Nanos micro_batch) : micro_batch_(static_cast<double>(micro_batch)) {}

  /// Sets the speed (> 0; 1 is nominal) from now on, also for the rest of the current micro-batch.
  void set_speed(double speed);
  /// Ends the current wait, and all later waits until resume_waits(): wait() throws Stopped.
  /// begin_step() does not resume.
  void interrupt_waits();
  /// Lets later waits wait for their deadlines again.
  void resume_waits();
  /// Throws Stopped between interrupt_waits() and resume_waits().
  void throw_if_interrupted();

  /// Begins the computation of a step at `start`, which may be in the past; the speed stays. The
  /// deadline is `start` until begin_micro_batch().
  void begin_step(Clock::time_point start);
  /// Begins a micro-batch: the next deadline is the end of `count` micro-batches of the step,
  /// counted from the start of the step; does not wait. The first micro-batch has count 1.
  void begin_micro_batch(std::uint32_t count);
  /// Blocks until the deadline, which moves with set_speed(); returns at once if the deadline has
  /// passed. Throws Stopped if interrupted, also after the deadline.
  void wait();
  /// Returns the deadline of the current micro-batch at the present speed. Call after begin_step().
  Clock::time_point deadline() const;

  /// Time from `begin` to `end`.
  struct Span {
    Clock::time_point begin, end;
  };
  /// Returns the rest of the time in which the backward pass, two thirds of a micro-batch, would
  /// release its gradients: at the earliest from now, to the deadline; empty, at the present
  /// instant, if the deadline has passed.
  Span backward_pass() const;

  /// Checks the CPU time `work` of a step's micro-batches against the paced time from the step's
  /// start to the deadline. Call once per step, after the last micro-batch. Throws PaceMissed at
  /// the third consecutive step, and at each further one, that took longer than its pace: a single
  /// one may be a hiccup of the machine. `rank` and `step` are for the message.
  void check_pace(std::uint32_t rank, Step step, Nanos work);

 private:
  Clock::time_point deadline_now() const;

  const double micro_batch_;
  int overrun_ = 0;  ///< consecutive steps beyond the pace

  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  bool interrupted_ = false;
  Clock::time_point step_start_;
  // Paced work of the step, in nanoseconds at nominal speed: `passed_` of it had passed at
  // `passed_at_`, and it continues at `speed_`; the current micro-batch ends at `until_`.
  Clock::time_point passed_at_;
  double passed_ = 0, until_ = 0, speed_ = 1;
};

}  // namespace orrery::live
