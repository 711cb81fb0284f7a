// Real time that the policies of a run take, and its limit. The time is no input of a policy and no
// part of logs and hashes. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "core/ids.hpp"
#include "policies/seam/policy.hpp"
#include "traces/report.pb.h"

namespace orrery {

/// Meter of the calls of a run's policies: sums their real time, and gives up a call that takes too
/// long.
class PolicyMeter {
 public:
  using Clock = std::chrono::steady_clock;
  /// Behaviour of the run while a policy decides.
  struct Rules {
    Nanos timeout = 0;  ///< limit of a call in nanoseconds of real time; 0: no limit
    /// Name of the policies for messages, for example "'recover'".
    std::function<std::string()> name = {};
    /// Attends to the run during a call. Returns true if the run ends, which limits the remaining
    /// calls to kEndPatience in total. Absent: the run stands still.
    std::function<bool()> attend = {};
    /// Longest wait for an answer between two calls of `attend`, in milliseconds. An `attend` that
    /// advances the run needs a short one.
    int pause_ms = 50;
  };
  /// Time that a run that ends has for its last calls.
  static constexpr std::chrono::seconds kEndPatience{5};

  /// Sets the rules for later calls; without rules a call has no limit.
  void set_rules(Rules rules) { rules_ = std::move(rules); }
  /// Records that a call has begun or ended. Each end_call() must follow a begin_call().
  void begin_call();
  void end_call();
  /// Blocks until the current call is answered. `is_answered` waits for the answer, for at most the
  /// given number of milliseconds (-1: without limit), and returns true if the answer is there.
  /// Throws PolicyGivenUp if no answer comes in time; exceptions of `is_answered` and of
  /// Rules::attend pass through. Between two calls (see begin_call()) no limit applies.
  void await_answer(const std::function<bool(int wait_ms)>& is_answered);

  /// Returns true if the current call has taken longer than its limit; false between two calls.
  bool is_overdue() const;
  /// Throws PolicyGivenUp if the current call is overdue, or if the run ends and has waited
  /// kEndPatience.
  void check_limits() const;
  /// Returns the seconds since the begin of the current call; nothing between two calls.
  std::optional<double> waiting_s() const;
  /// Returns the sum over all calls that have ended, in seconds.
  double total_s() const { return std::chrono::duration<double>(total_).count(); }
  /// Returns the name of the policies that were called last.
  std::string name() const { return rules_.name ? rules_.name() : std::string("the policies"); }
  /// Writes the sum and the longest call, if there was a call.
  void fill(HostUse& host) const;

 private:
  Rules rules_;
  std::optional<Clock::time_point> began_;
  std::optional<Clock::time_point> run_ends_;  ///< first time that attend() returned true
  Clock::duration total_{0}, longest_{0};
  std::uint64_t calls_ = 0;
};

/// Decorator of the policies of a run that measures their calls.
class MeteredPolicy : public Policy {
 public:
  /// Both must outlive the decorator.
  MeteredPolicy(Policy& inner, PolicyMeter& meter) : inner_(inner), meter_(meter) {}

  Needs needs() const override { return inner_.needs(); }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override {
    inner_.start(context, cluster, parameters);
  }
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  void save(Archive& archive) const override { inner_.save(archive); }
  void load(const Archive& archive) override { inner_.load(archive); }
  bool has_changed() const override { return inner_.has_changed(); }

 private:
  Policy& inner_;
  PolicyMeter& meter_;
};

}  // namespace orrery
