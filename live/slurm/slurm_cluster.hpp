// Cluster under a real Slurm as a world of policies. Observes the queue at fixed intervals, shows
// the differences as events, and carries out assignments by commands. Used by the command `cluster
// slurm`. One thread. Policy time is nanoseconds since 1970.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "live/queue/queue_cluster.hpp"
#include "live/slurm/commands.hpp"
#include "live/slurm/job_follower.hpp"
#include "live/slurm/keeper_job.hpp"
#include "live/slurm/slurm_clock.hpp"

namespace orrery::live {

/// Backend whose cluster is a real Slurm. If this process stops in any way, Slurm starts the
/// managed jobs by itself when their leases end. Not thread-safe.
class SlurmCluster : public QueueCluster, private SlurmOutlet {
 public:
  /// Options of a run.
  struct Options : QueueCluster::Options {
    SlurmRules rules;
  };

  /// Reads the nodes, which are those of the whole run. `commands` must outlive this object.
  /// Throws an environment Error if Slurm does not answer, and as managed_nodes().
  SlurmCluster(SlurmCommands& commands, const Options& options);

  std::string id_of(JobId job) const override { return follower_.id_of(job); }
  std::size_t open_orders() const override { return follower_.open_orders(); }
  Nanos clock_ahead() const override { return clock_.ahead(); }

 private:
  // QueueCluster
  bool read_cluster() override;
  void show_changes(std::int64_t now_s) override;
  std::string objection(const Assign& assign) const override;
  void order(const Assign& assign, std::int64_t now_s) override;
  void send_orders() override;
  void set_acting(bool acts) override;
  // SlurmOutlet
  void emit_event(Event event) override { QueueCluster::emit_event(std::move(event)); }
  void send_line(SlurmLine line) override;
  bool can_send() const override { return rules_.acts && !is_halted(); }
  void report(std::string text) override { report_to_operator(text); }
  std::vector<SlurmEnd> find_ends(const std::vector<std::string>& ids) override;
  std::map<std::string, std::int64_t> find_run_times(const std::vector<std::string>& ids) override;
  std::map<std::string, std::string> find_owners(const std::vector<std::string>& ids) override;
  std::optional<std::vector<SlurmKeeper>> find_keepers() override;
  std::string submit_job(const std::vector<std::string>& words) override {
    return commands_.submit_job(words);
  }

  SlurmCommands& commands_;
  KeeperFinder keepers_;
  SlurmRules rules_;
  JobFollower follower_;
  SlurmClock clock_;
  std::vector<SlurmNode> read_nodes_;          ///< newest reading
  std::vector<SlurmJob> read_jobs_;            ///< newest reading
  std::int64_t read_boot_s_ = 0, boot_s_ = 0;  ///< start of slurmctld, newest and shown
  std::vector<SlurmLine> lines_;
};

}  // namespace orrery::live
