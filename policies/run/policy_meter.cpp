#include "policies/run/policy_meter.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "policies/handover/fallback.hpp"

namespace orrery {
namespace {

constexpr int kEndPauseMs = 50;  // pause once the run does not advance any more

double seconds(PolicyMeter::Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void PolicyMeter::begin_call() {
  ++calls_;
  began_ = Clock::now();
}

void PolicyMeter::end_call() {
  const Clock::duration took = Clock::now() - *began_;
  began_.reset();
  total_ += took;
  longest_ = std::max(longest_, took);
}

void PolicyMeter::await_answer(const std::function<bool(int)>& is_answered) {
  if (rules_.timeout == 0 && !rules_.attend) {
    while (!is_answered(-1)) {}
    return;
  }
  while (!is_answered(run_ends_ ? kEndPauseMs : rules_.pause_ms)) {
    check_limits();
    if (rules_.attend && rules_.attend() && !run_ends_) run_ends_ = Clock::now();
  }
}

bool PolicyMeter::is_overdue() const {
  return began_ && rules_.timeout > 0 &&
         Clock::now() - *began_ >= std::chrono::nanoseconds(rules_.timeout);
}

void PolicyMeter::check_limits() const {
  if (!began_) return;
  const Clock::time_point now = Clock::now();
  const Clock::duration took = now - *began_;
  if (run_ends_ && now - *run_ends_ > kEndPatience) {
    throw PolicyGivenUp(
        fmt::format("expected an answer of {} before the end of the run, found none "
                    "after {:.1f} s; the run ended without the answer",
                    name(), seconds(took)),
        true);
  }
  if (!is_overdue()) return;
  throw PolicyGivenUp(
      fmt::format("expected an answer of {} within {} s, found none; make its calls shorter, or "
                  "raise the limit (--policy-timeout, in Python policy_timeout)",
                  name(), to_seconds(rules_.timeout)),
      false);
}

std::optional<double> PolicyMeter::waiting_s() const {
  if (!began_) return std::nullopt;
  return seconds(Clock::now() - *began_);
}

void PolicyMeter::fill(HostUse& host) const {
  if (calls_ == 0) return;
  host.set_policy_time_s(seconds(total_));
  host.set_policy_time_max_s(seconds(longest_));
}

void MeteredPolicy::observe(Context& context, const Observation& seen, DecisionList& decisions) {
  struct Call {
    explicit Call(PolicyMeter& of) : meter(of) { meter.begin_call(); }
    ~Call() { meter.end_call(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    PolicyMeter& meter;
  } call(meter_);
  inner_.observe(context, seen, decisions);
}

}  // namespace orrery
