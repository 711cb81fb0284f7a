// Mode shadow of a run of real processes: the run never waits for its policies. One thread: while
// the policies decide, the thread that would wait for them advances the run (PolicyMeter::Rules).
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <set>

#include "policies/record/encoding.hpp"
#include "policies/run/detached_samples.hpp"
#include "policies/run/run_backend.hpp"
#include "policies/seam/backend.hpp"

namespace orrery {

/// Backend decorator that answers every observation at once with no decisions, and queues the
/// observations for the policies, which must decide nothing that needs to be applied (HandOver in
/// mode shadow). The queue keeps the order and the instants of the observations. Policies that are
/// more than a second behind see everything that has happened since as one observation, so that
/// they are at most one call behind. The world that the policies see is a copy, which follows the
/// queue. Wake-ups and idle promises reach the run with the answer to its next observation; a
/// wake-up that is due at once is an observation of the queue.
class DetachedBackend : public Backend {
 public:
  /// `inner` and `paced`, which are one object, must outlive the decorator. `halted`: the kill
  /// switch, read once for each observation of `inner`; absent: off.
  DetachedBackend(Backend& inner, PacedRun& paced, std::function<bool()> halted);

  Capabilities capabilities() const override { return inner_.capabilities(); }
  const Cluster& cluster() const override { return inner_.cluster(); }
  void begin(const Needs& needs) override { inner_.begin(needs); }
  /// Advances the run until an observation is in the queue, and returns the observation; nothing if
  /// the run is over and the queue is empty. If the queue is empty and the policies have requested
  /// a call at once, returns a Tick at the instant of their newest observation.
  std::optional<Observation> next() override;
  /// Records the wake-up times and the idle promise; ignores the decisions. Call once after each
  /// observation of next().
  void apply(const DecisionList& decisions) override;

  /// Advances the run by one observation, or for at most about 50 ms without one. Returns true if
  /// the run is over, although observations may still be in the queue. Call after begin().
  bool advance_run();
  /// Returns true if the policies have answered every observation of the run.
  bool is_idle() const { return queue_.empty() && !is_deciding_ && !again_; }
  /// Returns the kill switch as it was at the newest observation that next() returned.
  bool is_halted() const { return halted_; }
  /// Sets the world that the policies see, for a run that continues from a snapshot.
  void set_world(const World& world) { reader_.world() = world; }

 private:
  using HostClock = std::chrono::steady_clock;
  /// Observation that the policies have not seen.
  struct Unseen {
    ObservationRecord record;
    SamplesCopy samples;
    bool halted = false;
    HostClock::time_point since;
  };
  /// Removes the next observation from the queue, or several as one.
  Unseen pop();

  Backend& inner_;
  PacedRun& paced_;
  const std::function<bool()> read_switch_;
  ObservationReader reader_;
  DetachedSamples samples_;
  std::deque<Unseen> queue_;
  std::set<Nanos> wakes_;  ///< wake-up times for the next answer to the run
  Nanos seen_at_ = 0;      ///< instant of the newest observation of the policies
  bool is_resting_ = false, halted_ = false;
  bool is_deciding_ = false;  ///< the policies owe an answer
  bool again_ = false;        ///< the policies want another call at `seen_at_`
  bool owes_answer_ = false;  ///< the run waits for the answer to its newest observation
  bool ended_ = false;
};

}  // namespace orrery
