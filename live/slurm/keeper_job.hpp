// Keeper job: a job of Slurm that never runs, and for whose end many waiting jobs wait instead of a
// begin time each. Its commands, and its part in the dependencies that Slurm shows. Used by
// live/slurm/waiting_leases, live/slurm/slurm_cluster and `orrery import cluster`. One thread.
// Durations are seconds.
//
// The keeper begins in a lease and must end 30 s after its begin, which its time limit of a minute
// does not allow: Slurm ends the keeper (DEADLINE) at its begin, on an idle cluster too, so that
// the keeper never occupies a node. As long as a controller moves begin and deadline on, all jobs
// wait.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "live/slurm/answers.hpp"
#include "live/slurm/commands.hpp"
#include "live/slurm/follow_rules.hpp"

namespace orrery::live {

/// Name of all keeper jobs.
inline constexpr const char* kKeeperName = "orrery-keeper";

/// Returns the Comment by which a controller with these rules finds its keeper again. For example,
/// "orrery-keeper partitions=gpu accounts=ours+theirs".
std::string keeper_comment(const SlurmRules& rules);
/// Returns the words of sbatch that submit the keeper of these rules, in the first of the
/// partitions.
std::vector<std::string> keeper_words(const SlurmRules& rules);
/// Returns the line of scontrol that moves begin and deadline of a keeper `lease_s` seconds ahead.
std::string keeper_line(const std::string& id, std::int64_t lease_s);

/// Returns the jobs in a dependency that squeue shows, as an update sets them, without those that
/// are over: "afterok:1,after:2_*" for "afterok:1(unfulfilled),after:2_*(unfulfilled)".
std::string plain_dependency(std::string_view dependency);
/// Returns true if a job with this dependency can wait for a keeper as well. Slurm cannot add a job
/// to alternatives ("afterok:1?afterok:2"), nor to the job that another job extends, and does not
/// start a job whose dependency has failed.
bool can_wait_for_keeper(std::string_view dependency);

/// Reader of the queue that knows which jobs are keepers. Not thread-safe.
class KeeperFinder {
 public:
  /// Constructs a finder; `commands` must outlive it.
  explicit KeeperFinder(SlurmCommands& commands) : commands_(commands) {}

  /// Returns all jobs; a keeper that a job waits for is in `keeper`, not in `dependency`. Costs a
  /// second command if jobs wait for a job that no earlier reading has shown. Throws as
  /// SlurmCommands and parse_jobs().
  std::vector<SlurmJob> read_jobs();
  /// Returns the keepers of all users that Slurm still shows, with their Comments. Throws as above.
  std::vector<SlurmKeeper> read_keepers();

 private:
  struct Known {
    bool is_keeper = false;
    std::int64_t submit_s = 0;  ///< 0: the job was not shown
  };
  void learn_keepers(const std::vector<SlurmJob>& jobs);

  SlurmCommands& commands_;
  std::map<std::string, Known, std::less<>> known_;  ///< jobs that others wait for, by their ids
};

}  // namespace orrery::live
