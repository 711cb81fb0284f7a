#include "live/training/pace.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

namespace orrery::live {
namespace {

constexpr int kMostOverrun = 3;  // steps in a row beyond the pace

}  // namespace

void Pace::set_speed(double speed) {
  const std::scoped_lock lock(mutex_);
  const auto now = Clock::now();
  const auto passed = std::chrono::duration<double, std::nano>(now - passed_at_);
  passed_ += passed.count() * speed_;
  passed_at_ = now;
  speed_ = speed;
  changed_.notify_all();
}

void Pace::interrupt_waits() {
  const std::scoped_lock lock(mutex_);
  interrupted_ = true;
  changed_.notify_all();
}

void Pace::resume_waits() {
  const std::scoped_lock lock(mutex_);
  interrupted_ = false;
}

void Pace::throw_if_interrupted() {
  const std::scoped_lock lock(mutex_);
  if (interrupted_) throw Stopped{};
}

void Pace::begin_step(Clock::time_point start) {
  const std::scoped_lock lock(mutex_);
  step_start_ = passed_at_ = start;
  passed_ = until_ = 0;
}

void Pace::begin_micro_batch(std::uint32_t count) {
  const std::scoped_lock lock(mutex_);
  until_ = micro_batch_ * count;
}

/// Returns the deadline; the caller holds the lock.
Clock::time_point Pace::deadline_now() const {
  return passed_at_ + std::chrono::nanoseconds(static_cast<Nanos>((until_ - passed_) / speed_));
}

Clock::time_point Pace::deadline() const {
  const std::scoped_lock lock(mutex_);
  return deadline_now();
}

void Pace::wait() {
  std::unique_lock lock(mutex_);
  for (auto until = deadline_now(); Clock::now() < until; until = deadline_now()) {
    changed_.wait_until(lock, until, [&] { return interrupted_ || deadline_now() != until; });
    if (interrupted_) break;
  }
  if (interrupted_) throw Stopped{};
}

Pace::Span Pace::backward_pass() const {
  const std::scoped_lock lock(mutex_);
  const auto takes = std::chrono::nanoseconds(static_cast<Nanos>(micro_batch_ / speed_ * 2 / 3));
  const Clock::time_point end = deadline_now();
  const Clock::time_point begin = std::max(Clock::now(), end - takes);
  return {begin, std::max(begin, end)};
}

void Pace::check_pace(std::uint32_t rank, Step step, Nanos work) {
  Nanos allowed = 0;
  {
    const std::scoped_lock lock(mutex_);
    allowed = (deadline_now() - step_start_) / std::chrono::nanoseconds(1);
  }
  overrun_ = work > allowed ? overrun_ + 1 : 0;
  if (overrun_ < kMostOverrun) return;
  throw PaceMissed(
      fmt::format("rank {} needed {:.1f} ms of CPU in step {} for work whose pace allows "
                  "{:.1f} ms: raise job.pace.micro_batch or use fewer ranks",
                  rank, to_seconds(work) * 1e3, step, to_seconds(allowed) * 1e3));
}

}  // namespace orrery::live
