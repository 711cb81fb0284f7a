// Policies of the tests that keep a run waiting.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "policies/run/detached_backend.hpp"
#include "policies/run/threaded_policy.hpp"
#include "policies/seam/drive.hpp"
#include "tests/policies/toy.hpp"

namespace orrery::toy {

/// Gate at which policies of any thread wait.
class Turnstile {
 public:
  void wait() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return open_; });
  }
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

/// Shifts work as ShiftOnce does. Its call `hangs_at` waits for a turnstile, every other call takes
/// `takes`.
class SlowShift : public ShiftOnce {
 public:
  SlowShift(std::shared_ptr<Turnstile> turnstile, int hangs_at, std::chrono::milliseconds takes)
      : turnstile_(std::move(turnstile)), hangs_at_(hangs_at), takes_(takes) {}
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
    if (called_++ == hangs_at_) turnstile_->wait();
    std::this_thread::sleep_for(takes_);
    ShiftOnce::observe(context, seen, decisions);
  }

 private:
  const std::shared_ptr<Turnstile> turnstile_;
  const int hangs_at_;
  const std::chrono::milliseconds takes_;
  int called_ = 0;
};

inline std::shared_ptr<PolicyStack> stack_of(std::unique_ptr<Policy> policy,
                                             const std::string& name = "shift-once") {
  std::vector<PolicyStack::Member> members;
  members.push_back({.name = name, .policy = std::move(policy), .parameters = nullptr});
  return std::make_shared<PolicyStack>(std::move(members));
}

inline std::shared_ptr<const Cluster> shared_cluster() {
  return std::make_shared<const Cluster>(cluster());
}

/// Toy world in real time: one observation every `interval`.
class PacedToy : public ToyBackend, public PacedRun {
 public:
  PacedToy(const Cluster& cluster, std::chrono::milliseconds interval, Step steps = 40)
      : ToyBackend(cluster, steps), interval_(interval) {}
  void watch_policies(const PolicyMeter&) override {}
  bool advance_run() override {
    const auto passed = Clock::now() - last_;
    if (passed >= interval_) return true;
    std::this_thread::sleep_for(
        std::min<Clock::duration>(interval_ - passed, std::chrono::milliseconds(50)));
    return Clock::now() - last_ >= interval_;
  }
  std::optional<Observation> next() override {
    last_ = Clock::now();
    std::optional<Observation> seen = ToyBackend::next();
    if (!seen) ended_ = last_;
    return seen;
  }
  /// Returns the seconds from the first to the last observation.
  double took_s() const { return std::chrono::duration<double>(ended_ - began_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  const std::chrono::milliseconds interval_;
  const Clock::time_point began_ = Clock::now();
  Clock::time_point last_, ended_;
};

}  // namespace orrery::toy
