// State of the jobs of one Slurm, as readings of its queue show it, turned into events of the
// policies' world and commands for Slurm. Used by live/slurm/slurm_cluster. One thread. Instants
// are seconds since 1970, durations seconds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "live/queue/node_map.hpp"
#include "live/slurm/answers.hpp"
#include "live/slurm/follow_rules.hpp"
#include "live/slurm/start_order.hpp"
#include "live/slurm/waiting_leases.hpp"
#include "policies/seam/decision.hpp"
#include "policies/seam/world.hpp"

namespace orrery::live {

/// Follower of all jobs. A job is identified by its id and its submission, because slurmctld can
/// give the id of a lost job to another one. Managed jobs that could start are shown to the
/// policies as waiting. Other jobs are shown while they occupy GPUs.
///
/// For example, a job that was ordered to start on n3 and is shown as RUNNING on n3 gives
/// JobStarted; a job that ran and is shown as PENDING gives JobStopped.
class JobFollower {
 public:
  /// Constructs a follower; all references must outlive it.
  JobFollower(const World& world, const NodeMap& nodes, SlurmRules rules, SlurmOutlet& outlet);

  /// Compares the jobs of a reading at `now_s` with those known: emits the events of all
  /// differences, renews leases, repeats or withdraws orders. `boot_s`: start of slurmctld; nothing
  /// is started for ten seconds after it has changed. Throws an environment Error if another
  /// controller orders the same jobs.
  void follow_jobs(std::vector<SlurmJob> jobs, std::int64_t now_s, std::int64_t boot_s = 0);

  /// Returns the reason why a decision cannot be carried out; empty if it can.
  std::string objection(const Assign& assign) const;
  /// Sends the order of an accepted decision at `now_s`: a start, or a stop with its event.
  void order(const Assign& assign, std::int64_t now_s);

  /// Sends lines from now on, or none at all. A follower that begins to send takes over the orders
  /// of earlier controllers, as at its start.
  void set_acting(bool acts);

  /// Returns the number of jobs with an order that Slurm has not carried out yet.
  std::size_t open_orders() const;
  /// Returns Slurm's id of a job of the world; empty for an unknown job.
  std::string id_of(JobId job) const;

 private:
  /// Stage of a job. `unseen`: not in the world. `leaving`: requeued, still on its nodes.
  enum class Stage : std::uint8_t { unseen, waiting, ordered, placed, leaving };
  struct Tracked {
    std::string id;
    std::int64_t submit_s = 0;
    std::uint32_t restarts = 0;
    std::string user = {};
    bool is_chosen = false;   ///< its partition and account are those of the rules
    bool is_managed = false;  ///< policies decide about the job
    Stage stage = Stage::unseen;
    JobId job{};            ///< valid unless `unseen`
    StartOrder order = {};  ///< valid if `ordered`
    std::vector<std::string> placed_on = {};
    std::int64_t not_before_s = 0;  ///< begin time that the user chose
    std::int64_t leaving_since_s = 0;
    std::uint32_t failures = 0;  ///< orders that Slurm did not carry out
    bool has_our_nodes = false;  ///< its required nodes are those of an order
    std::uint64_t reading = 0;   ///< newest reading that showed the job

    /// Returns true if a policy may start the job at `now_s`.
    bool is_ready(const SlurmJob& row, const NodeMap& nodes, std::int64_t now_s) const;
  };
  using Rows = std::vector<SlurmJob>;
  /// Followed jobs of a reading with their rows, in the order of the rows.
  using KnownRows = std::vector<std::pair<Tracked*, const SlurmJob*>>;

  KnownRows match_rows(const Rows& rows);
  Tracked* begin_job(const SlurmJob& row);
  void end_missing();
  void adopt_nodes(const KnownRows& rows);
  void adopt_order(Tracked& job, const SlurmJob& row, const std::string& owner);
  void leave_foreign(Tracked& job, const std::string& owner);
  void end_or_stop(Tracked& job, const SlurmJob& row);
  void follow_request(Tracked& job, const SlurmJob& row);
  void submit_job(Tracked& job, const SlurmJob& row);
  void place_job(Tracked& job, const SlurmJob& row);
  void check_order(Tracked& job, const SlurmJob& row);
  void release_refused(Tracked& job, const SlurmJob& row);
  void withdraw_order(Tracked& job);
  void leave_world(Tracked& job, Ending how, std::int64_t ran_s = 0);
  void give_back(Tracked& job, const std::string& why);

  const World& world_;
  const NodeMap& nodes_;
  SlurmRules rules_;
  SlurmOutlet& outlet_;
  WaitingLeases leases_;
  std::map<std::string, Tracked> jobs_;  ///< keys are Slurm's ids
  std::map<JobId, std::string> ids_;     ///< Slurm's ids of the world's jobs
  std::map<std::pair<std::string, std::int64_t>, std::int64_t> over_;  ///< instants of ends
  std::map<std::string, std::int64_t> run_times_;  ///< seconds by ids of jobs that have just ended
  std::set<std::string> foreign_users_;  ///< users whose jobs another controller has ordered
  std::int64_t now_s_ = 0, boot_s_ = 0;
  std::int64_t restart_s_ = 0;  ///< newest start of slurmctld after the first reading; 0: none
  std::uint64_t readings_ = 0;
  bool has_read_ = false;
};

}  // namespace orrery::live
