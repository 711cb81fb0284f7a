// Rules for the jobs of one Slurm that policies manage, and the receiver of the consequences of its
// readings. Used by live/slurm/job_follower, live/slurm/waiting_leases and
// live/slurm/slurm_cluster. One thread. Durations are seconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "live/slurm/answers.hpp"
#include "live/slurm/start_order.hpp"
#include "policies/seam/event.hpp"

namespace orrery::live {

/// Rules for the jobs that the policies manage. A job is managed if its partition is one of
/// `partitions` and its account is one of `accounts`; an empty set allows all. All other jobs are
/// observed only.
struct SlurmRules {
  std::set<std::string> partitions = {}, accounts = {};
  bool acts = true;              ///< false: no command is sent
  std::int64_t lease_s = 20;     ///< managed jobs may start by themselves this long after a renewal
  std::int64_t patience_s = 60;  ///< time that Slurm has to start an ordered job
  std::string owner = "orrery:0";  ///< mark of this controller on its orders
  std::size_t keeper_from = 1000;  ///< more waiting jobs than this have no leases, but one keeper
  std::string user = {};           ///< user of this process, to whom the keeper job belongs
};

/// Receiver of the consequences of a reading.
class SlurmOutlet {
 public:
  virtual ~SlurmOutlet() = default;
  /// Applies an event to the world and shows it to the policies.
  virtual void emit_event(Event event) = 0;
  /// Sends a line to scontrol after the reading, with the mark that the line sets.
  virtual void send_line(SlurmLine line) = 0;
  /// Returns false while the kill switch keeps all commands from Slurm.
  virtual bool can_send() const = 0;
  /// Tells the operator about something that no policy decided.
  virtual void report(std::string text) = 0;
  /// Returns the recorded ends of jobs that the queue does not show any more; empty without
  /// accounts.
  virtual std::vector<SlurmEnd> find_ends(const std::vector<std::string>& ids) = 0;
  /// Returns the seconds from the newest start to the end of ended jobs that the queue still shows,
  /// by id; empty if Slurm does not answer.
  virtual std::map<std::string, std::int64_t> find_run_times(
      const std::vector<std::string>& ids) = 0;
  /// Returns the controllers that the marks of these jobs name, by their ids, without jobs that
  /// have no mark.
  virtual std::map<std::string, std::string> find_owners(const std::vector<std::string>& ids) = 0;
  /// Returns the keeper jobs of all users that Slurm still shows; nothing if Slurm does not
  /// answer.
  virtual std::optional<std::vector<SlurmKeeper>> find_keepers() = 0;
  /// Submits a job at once, with these words of sbatch, and returns its id. Throws an environment
  /// Error with Slurm's message if Slurm refuses the job.
  virtual std::string submit_job(const std::vector<std::string>& words) = 0;
};

}  // namespace orrery::live
