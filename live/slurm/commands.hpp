// Slurm's commands as child processes: each runs with a deadline, and its answer is complete or an
// error. Used by live/slurm/slurm_cluster and its command. One thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace orrery::live {

/// Access to one Slurm. Reads return complete answers for the parsers of live/slurm/answers. All
/// methods block, and throw an environment Error if a command is missing, fails or gives no answer
/// in time.
class SlurmCommands {
 public:
  virtual ~SlurmCommands() = default;
  /// Returns all jobs (squeue), also those that ended a few minutes ago.
  virtual std::string read_jobs() = 0;
  /// Returns all nodes (scontrol show node).
  virtual std::string read_nodes() = 0;
  /// Returns the switches (scontrol show topology). Fails if Slurm has no topology.
  virtual std::string read_topology() = 0;
  /// Returns the configuration of slurmctld (scontrol show config).
  virtual std::string read_configuration() = 0;
  /// Returns the Comments of jobs (squeue), for parse_comments().
  virtual std::string read_comments(const std::vector<std::string>& ids) = 0;
  /// Returns the keeper jobs of all users (squeue), also ended ones, for parse_keepers().
  virtual std::string read_keepers() = 0;
  /// Submits a job with these words of sbatch, of which one is --parsable. Returns the id of the
  /// job. Throws an environment Error with the message of sbatch if Slurm refuses the job.
  virtual std::string submit_job(const std::vector<std::string>& words) = 0;
  /// Returns the starts and ends of jobs (squeue), for parse_run_times().
  virtual std::string read_run_times(const std::vector<std::string>& ids) = 0;
  /// Returns the recorded ends of jobs (sacct). Fails if Slurm keeps no accounts.
  virtual std::string read_ends(const std::vector<std::string>& ids) = 0;
  /// Executes lines of scontrol, for example "requeue 17", in order. Returns the complaints of
  /// scontrol, one line each; empty if all lines were accepted. A failed line does not stop the
  /// later lines.
  virtual std::vector<std::string> execute_commands(const std::vector<std::string>& lines) = 0;
  /// Executes updates, in any order, and returns the complaints as above. Words may hold any text,
  /// for example {"update", "JobId=17", "ReqNodeList=n3", "StartTime=now",
  /// "Comment=of the night run [orrery:5]"}.
  virtual std::vector<std::string> execute_updates(
      const std::vector<std::vector<std::string>>& updates) = 0;
};

/// Returns access to the Slurm whose commands are in PATH. `patience`: deadline of each command.
/// SLURM_CONF of the environment names the configuration, as for Slurm's own commands.
std::unique_ptr<SlurmCommands> installed_slurm(std::chrono::milliseconds patience);

}  // namespace orrery::live
