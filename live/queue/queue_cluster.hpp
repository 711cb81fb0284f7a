// Real cluster under a batch scheduler as a world of policies: the same interface, log and queue
// policies as a replay of a job log. Common part of live/slurm and live/kubernetes: readings at
// fixed intervals, wake-ups, limits and reports. One thread. Policy time is nanoseconds since 1970.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "live/queue/node_map.hpp"
#include "policies/handover/hand_over.hpp"
#include "policies/seam/backend.hpp"
#include "policies/seam/gate.hpp"
#include "traces/scenario.pb.h"

namespace orrery::live {

/// Adds the nodes of a real cluster to the replay that its log describes. `nodes_per_rack` > 0: the
/// nodes are consecutive racks of this size, which become scalable units of a fat-tree; GPU and
/// rates of this tree are stand-ins, because no scheduler knows them. 0: no racks.
void describe_nodes(const NodeMap& nodes, std::uint32_t nodes_per_rack, JobReplay& replay);

/// Backend whose cluster is a real one. A subclass reads the cluster, shows the differences as
/// events and carries out assignments. A reading that fails or is wrong changes nothing and is
/// repeated at the next interval. Not thread-safe.
class QueueCluster : public Backend, protected Carrier {
 public:
  /// Options of a run.
  struct Options {
    std::chrono::nanoseconds every = std::chrono::seconds(1);          ///< interval of the readings
    std::chrono::nanoseconds until = std::chrono::nanoseconds::max();  ///< length of the run
    std::uint32_t per_minute = 0;  ///< limit of starts and stops in any minute; 0: no limit
    /// true: wake-ups that are due at once wait for the next event, so that refused decisions are
    /// not repeated at each interval
    bool is_quiet = false;
    bool has_ticks = false;                 ///< true: each reading is an observation
    std::function<bool()> stopped = {};     ///< ends the run; read many times a second
    std::function<bool()> halted = {};      ///< kill switch: no command is sent while true
    std::function<void()> at_reading = {};  ///< called before each reading
    /// returns the parameters that the operator has set since the last call; each becomes an event
    /// of the reading that has just been shown
    std::function<std::vector<ParameterSet>()> drain_parameters = {};
    std::function<void(const std::string&)> tell = {};  ///< receives reports for the operator
  };
  /// Figures of a run.
  struct Counts {
    std::uint64_t readings = 0, failed_readings = 0;
    std::uint64_t starts = 0, stops = 0;  ///< orders of the policies
    std::uint64_t leases = 0;             ///< commands that renewed leases
    std::uint64_t complaints = 0;         ///< commands that the scheduler refused
    std::chrono::nanoseconds slowest{0};  ///< slowest reading
  };

  Capabilities capabilities() const override { return {Kinds<Action>::of<Assign>(), {}}; }
  const Cluster& cluster() const override { return cluster_; }
  /// Throws bad_input for policies that need ticks.
  void begin(const Needs& needs) override;
  /// Blocks until a reading shows an event, a wake-up is due, or, with `has_ticks`, until the next
  /// reading. After a release it returns at once, at the instant of the release. Returns nothing
  /// when the run is over or stopped.
  std::optional<Observation> next() override;
  /// Sends the orders of the accepted decisions. Rejects a decision on a job that is only observed,
  /// on nodes that do not fit the job's request, and beyond the limit of a minute.
  void apply(const DecisionList& decisions) override;

  /// Changes the mode of the decisions from the newest reading on: sends commands unless the mode
  /// is shadow, and makes each reading an observation in mode approve. mode_objection() must be
  /// empty.
  void set_mode(HandOverMode mode);
  /// Returns the reason why this run cannot change to the mode; empty if it can.
  virtual std::string mode_objection(HandOverMode) const { return {}; }

  /// Returns the nodes of the run.
  const NodeMap& nodes() const { return nodes_; }
  /// Returns the scheduler's id of a job of the world; empty for an unknown job.
  virtual std::string id_of(JobId job) const = 0;
  /// Returns the jobs of the world: those that wait, and those that have GPUs.
  const JobTable& jobs() const { return world_.jobs(); }
  /// Returns the number of orders that the scheduler has not carried out yet.
  virtual std::size_t open_orders() const = 0;
  /// Returns a text about leases that only the scheduler knows, for example "leads as host-1";
  /// empty without one.
  virtual std::string lease_text() const { return {}; }
  /// Returns true once next() has returned nothing.
  bool is_over() const { return is_over_; }
  /// Returns the figures so far.
  const Counts& counts() const { return counts_; }

 protected:
  /// Constructs the world of `nodes`, in racks as describe_nodes(). `scheduler`: name in reports.
  QueueCluster(std::string scheduler, NodeMap nodes, std::uint32_t nodes_per_rack, Options options);

  /// Reads the cluster and stores the reading. Throws an Error, and stores nothing, if the reading
  /// fails. Returns false if nothing may be shown, because another controller leads.
  virtual bool read_cluster() = 0;
  /// Returns the time by which the scheduler's clock is ahead of this machine's. All instants of
  /// the run are those of the scheduler's clock.
  virtual Nanos clock_ahead() const { return 0; }
  /// Returns the time of this machine's clock since 1970.
  static Nanos wall_clock();
  /// Emits the events of the newest reading at `now_s`, in seconds since 1970.
  virtual void show_changes(std::int64_t now_s) = 0;
  /// Returns the reason why a decision cannot be carried out; empty if it can.
  virtual std::string objection(const Assign& assign) const = 0;
  /// Carries out an accepted decision at `now_s`: a start, or a stop with its event.
  virtual void order(const Assign& assign, std::int64_t now_s) = 0;
  /// Sends the orders since the last call. Throws an Error if the scheduler does not answer.
  virtual void send_orders() = 0;
  /// Sends commands from now on, or none at all.
  virtual void set_acting(bool acts) = 0;

  // Carrier
  std::string refusal(const Decision& decision) const override;
  bool is_step_open(JobId) const override { return false; }
  void emit_event(Event event) override;
  void carry_out(const Decision& decision) override;

  /// Returns the nodes of the run, so that a subclass gives new nodes a place.
  NodeMap& mutable_nodes() { return nodes_; }
  /// Emits the changes of the parts that no job can use.
  void show_lost_parts(const std::set<Part>& lost);
  /// Tells the operator about something that no policy decided.
  void report_to_operator(const std::string& text) const;
  /// Returns true while the kill switch is on.
  bool is_halted() const { return options_.halted && options_.halted(); }
  const World& world() const { return world_; }
  /// Returns the figures so far, to which a subclass adds its own.
  Counts& mutable_counts() { return counts_; }

 private:
  /// Reads the cluster until there are events; returns false if the run ends before.
  bool read_events();
  bool wait_for_reading();
  bool observe_cluster();
  void send_or_report();
  void report_failure(const std::string& why);

  const std::string scheduler_;
  Options options_;
  NodeMap nodes_;
  const Cluster cluster_;
  World world_;
  DecisionGate gate_;
  NoSamples samples_;
  std::optional<std::chrono::steady_clock::time_point> begun_, next_reading_;
  Nanos now_ = 0;
  std::int64_t reading_s_ = 0;  ///< instant of the newest reading, which a clock may set back
  std::uint64_t calls_ = 0;
  std::string failure_;         ///< newest failure of a reading; empty: the newest succeeded
  std::deque<Nanos> acted_at_;  ///< instants of the orders in the last minute
  std::vector<Event> events_, shown_;
  Counts counts_;
  bool has_released_ = false;  ///< a job was released since the newest observation
  bool is_over_ = false;
};

/// Decorator of a HandOver around a QueueCluster that ends the run with the last reading. The
/// HandOver alone would show the outcomes of the last refused decisions once more, and a queue
/// policy would repeat those decisions for ever.
class EndsWithReadings : public Backend {
 public:
  /// Constructs a decorator; both references must outlive it.
  EndsWithReadings(Backend& inner, const QueueCluster& cluster)
      : inner_(inner), cluster_(cluster) {}

  Capabilities capabilities() const override { return inner_.capabilities(); }
  const Cluster& cluster() const override { return inner_.cluster(); }
  void begin(const Needs& needs) override { inner_.begin(needs); }
  std::optional<Observation> next() override {
    std::optional<Observation> seen = inner_.next();
    return cluster_.is_over() ? std::nullopt : seen;
  }
  void apply(const DecisionList& decisions) override { inner_.apply(decisions); }

 private:
  Backend& inner_;
  const QueueCluster& cluster_;
};

}  // namespace orrery::live
