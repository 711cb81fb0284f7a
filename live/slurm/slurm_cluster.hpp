// Cluster under a real Slurm as a world of policies: the same interface, log and queue policies as
// a replay of a job log. Observes the queue at fixed intervals, shows the differences as events,
// and carries out assignments by commands. Used by the command `cluster slurm`. One thread. Policy
// time is nanoseconds since 1970.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "live/slurm/commands.hpp"
#include "live/slurm/job_follower.hpp"
#include "live/slurm/node_map.hpp"
#include "policies/seam/backend.hpp"
#include "policies/seam/gate.hpp"

namespace orrery::live {

/// Backend whose cluster is a real Slurm. If this process stops in any way, Slurm starts the
/// managed jobs by itself when their leases end. A reading that fails or is wrong changes nothing
/// and is repeated at the next interval. Not thread-safe.
class SlurmCluster : public Backend, private Carrier, private SlurmOutlet {
 public:
  /// Options of a run.
  struct Options {
    SlurmRules rules;
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
    std::function<void(const std::string&)> tell = {};  ///< receives reports for the operator
  };
  /// Figures of a run.
  struct Counts {
    std::uint64_t readings = 0, failed_readings = 0;
    std::uint64_t starts = 0, stops = 0;  ///< orders of the policies
    std::uint64_t leases = 0;             ///< commands that renewed leases
    std::uint64_t complaints = 0;         ///< commands that Slurm refused
    std::chrono::nanoseconds slowest{0};  ///< slowest reading
  };

  /// Reads the nodes, which are those of the whole run. `commands` must outlive this object.
  /// Throws an environment Error if Slurm does not answer, and as NodeMap.
  SlurmCluster(SlurmCommands& commands, Options options);

  Capabilities capabilities() const override { return {Kinds<Action>::of<Assign>(), {}}; }
  const Cluster& cluster() const override { return cluster_; }
  /// Throws bad_input for policies that need ticks.
  void begin(const Needs& needs) override;
  /// Blocks until a reading shows an event, a wake-up is due, or, with `has_ticks`, until the next
  /// reading. Returns nothing when the run is over or stopped.
  std::optional<Observation> next() override;
  /// Sends the orders of the accepted decisions. Rejects a decision on a job that is only observed,
  /// on nodes that do not fit the job's request, and beyond the limit of a minute.
  void apply(const DecisionList& decisions) override;

  /// Returns the nodes of the run.
  const NodeMap& nodes() const { return nodes_; }
  /// Returns Slurm's id of a job of the world; empty for an unknown job.
  std::string id_of(JobId job) const { return follower_.id_of(job); }
  /// Returns true once next() has returned nothing.
  bool is_over() const { return is_over_; }
  /// Returns the figures so far.
  const Counts& counts() const { return counts_; }

 private:
  // Carrier
  std::string refusal(const Decision& decision) const override;
  bool is_step_open(JobId) const override { return false; }
  void emit_event(Event event) override;
  void carry_out(const Decision& decision) override;
  // SlurmOutlet
  void send_line(std::string line) override;
  void report(std::string text) override;
  std::vector<SlurmEnd> find_ends(const std::vector<std::string>& ids) override;
  std::string find_owner(const std::string& id) override;

  bool wait_for_reading();
  bool observe_slurm();
  void execute_lines();
  void report_failure(const std::string& why);

  SlurmCommands& commands_;
  const Options options_;
  const NodeMap nodes_;
  const Cluster cluster_;
  World world_;
  DecisionGate gate_;
  NoSamples samples_;
  JobFollower follower_;
  std::optional<std::chrono::steady_clock::time_point> begun_, next_reading_;
  Nanos now_ = 0;
  std::uint64_t calls_ = 0;
  std::int64_t boot_s_ = 0;     ///< start of slurmctld
  std::string failure_;         ///< newest failure of a reading; empty: the newest succeeded
  std::deque<Nanos> acted_at_;  ///< instants of the orders in the last minute
  std::vector<Event> events_, shown_;
  std::vector<std::string> lines_;
  Counts counts_;
  bool is_over_ = false;
};

/// Decorator of a HandOver around a SlurmCluster that ends the run with the last reading. The
/// HandOver alone would show the outcomes of the last refused decisions once more, and a queue
/// policy would repeat those decisions for ever.
class EndsWithReadings : public Backend {
 public:
  /// Constructs a decorator; both references must outlive it.
  EndsWithReadings(Backend& inner, const SlurmCluster& slurm) : inner_(inner), slurm_(slurm) {}

  Capabilities capabilities() const override { return inner_.capabilities(); }
  const Cluster& cluster() const override { return inner_.cluster(); }
  void begin(const Needs& needs) override { inner_.begin(needs); }
  std::optional<Observation> next() override {
    std::optional<Observation> seen = inner_.next();
    return slurm_.is_over() ? std::nullopt : seen;
  }
  void apply(const DecisionList& decisions) override { inner_.apply(decisions); }

 private:
  Backend& inner_;
  const SlurmCluster& slurm_;
};

}  // namespace orrery::live
