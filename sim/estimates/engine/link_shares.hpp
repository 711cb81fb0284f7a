// Interface of the sharing of links among flows, with the clock of an engine. Two implementations
// exist: SimGrid (sim/engine/simgrid_shares) and a max-min solver of this project
// (sim/estimates/engine/max_min_shares). Used by sim/estimates/engine/sharing_engine; one thread.
// Seconds; units of data are those of the caller.
#pragma once

#include <cstdint>
#include <span>

namespace orrery::estimates {

/// Flows that share links max-min, and the clock on which they end. The clock stops at requested
/// dates and whenever a flow ends.
class LinkShares {
 public:
  /// Receiver of the events of a run.
  class Listener {
   public:
    virtual ~Listener() = default;
    /// Handles an advance of the clock, before the ends of flows at the new time are reported.
    virtual void on_time() = 0;
    /// Handles the end of the flow of a place.
    virtual void on_flow_end(std::uint32_t place) = 0;
    /// Handles the instant that wake_now() requested.
    virtual void on_wake() = 0;
  };

  virtual ~LinkShares() = default;
  LinkShares(const LinkShares&) = delete;
  LinkShares& operator=(const LinkShares&) = delete;

  /// Sets the receiver, which must outlive all runs. Call once, before the first run.
  void set_listener(Listener& listener) { listener_ = &listener; }
  /// Returns the clock.
  double now() const { return now_; }

  /// Starts a flow of `units` > 0 over links, each as often as it is listed in a row, and gives the
  /// flow the place, where no other flow is in progress. Call only inside run().
  virtual void start_flow(std::uint32_t place, std::span<const std::uint32_t> links,
                          double units) = 0;
  /// Cancels the flow of a place; its end is not reported. Does nothing if the flow has ended.
  virtual void cancel_flow(std::uint32_t place) = 0;
  /// Sets the bandwidth (> 0) of a link in units per second, for current flows too.
  virtual void set_bandwidth(std::uint32_t link, double bandwidth) = 0;

  /// Stops the clock at `date` at the latest, and notifies the listener of the clock. If the clock
  /// stops earlier already, nothing is added: call again at that stop.
  virtual void stop_at(double date) = 0;
  /// Requests one call of Listener::on_wake() at this instant; repeated requests before that call
  /// count once.
  virtual void wake_now() = 0;
  /// Removes the stops before now() + `precision` seconds, passed ones too.
  virtual void pass_stops(double precision) = 0;
  /// Removes all stops; a requested call of on_wake() remains.
  virtual void clear_stops() = 0;

  /// Blocks until no flow, no stop and no requested call is left.
  virtual void run() = 0;

  /// Returns true if the three methods below have an effect: the clock can be set back.
  virtual bool can_rewind() const { return false; }
  /// Sets the flows in progress aside, at their rates of this instant, and removes all stops. Until
  /// continue_flows() no flow may start over a link of these.
  virtual void set_flows_aside() {}
  /// Sets the clock. Call outside of run(), without flows but those set aside.
  virtual void set_clock(double date) { static_cast<void>(date); }
  /// Puts the flows that were set aside in progress again, which end at the dates of then. Call
  /// outside of run(). A link of a flow must not change before the date at which the flow was set
  /// aside.
  virtual void continue_flows() {}

 protected:
  explicit LinkShares(double now) : now_(now) {}
  Listener& listener() const { return *listener_; }

  double now_;  ///< clock; set by the implementation

 private:
  Listener* listener_ = nullptr;
};

}  // namespace orrery::estimates
