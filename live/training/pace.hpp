// The pace of a rank: the compute of a step takes as long as its declared micro-batches over the
// declared speed, however fast the work itself is done. Counts from the step's start, so that one
// late wake-up does not delay the rest, and follows the speed where it changes in between. The
// trainer's thread begins and waits; set_speed(), interrupt(), resume() and deadline() may be
// called by any. Nanoseconds.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/ids.hpp"
#include "live/machine/host_clock.hpp"

namespace orrery::live {

/// Thrown by a wait that has been interrupted.
struct Stopped {};

/// The pace allows too little for the work: a replacement would find the same.
class PaceMissed : public Error {
 public:
  explicit PaceMissed(std::string message) : Error(ErrorKind::environment, std::move(message)) {}
};

class Pace {
 public:
  /// What a micro-batch takes at nominal speed.
  explicit Pace(Nanos micro_batch) : micro_batch_(static_cast<double>(micro_batch)) {}

  /// From now on, also for the micro-batch under way; 1 is nominal.
  void set_speed(double speed);
  /// Ends a wait, and those to come until resume().
  void interrupt();
  void resume();
  void throw_if_interrupted();

  /// A step's compute begins.
  void begin_step(Clock::time_point start);
  /// So many of the step are to have passed at the next deadline.
  void begin_micro_batch(std::uint32_t count);
  /// Until the deadline; throws Stopped.
  void wait();
  /// Of the micro-batch under way, at the present speed.
  Clock::time_point deadline() const;

  struct Span {
    Clock::time_point begin, end;
  };
  /// What is left of the time in which the backward pass, two thirds of a micro-batch, would
  /// release its gradients.
  Span backward_pass() const;

  /// To be called once the step's micro-batches are done, with the CPU time of their work. Throws
  /// PaceMissed after several steps in a row that took more of it than their pace allows: one may
  /// be a hiccup of the machine.
  void check(std::uint32_t rank, Step step, Nanos work);

 private:
  Clock::time_point deadline_now() const;

  const double micro_batch_;
  int overrun_ = 0;  ///< steps in a row beyond the pace

  mutable std::mutex mutex_;  // of everything below
  std::condition_variable changed_;
  bool interrupted_ = false;
  Clock::time_point step_start_;
  // Paced work of the step, in nanoseconds at nominal speed: `passed_` of it had passed at
  // `passed_at_`, and it goes on at `speed_`; the micro-batch under way ends at `until_`.
  Clock::time_point passed_at_;
  double passed_ = 0, until_ = 0, speed_ = 1;
};

}  // namespace orrery::live
