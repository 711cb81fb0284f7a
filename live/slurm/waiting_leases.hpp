// Leases of the waiting jobs of one Slurm: each job has a begin time shortly ahead that is moved
// on, or, if many jobs wait, all jobs wait for the end of one keeper job that is moved on. If
// nobody moves them on, Slurm starts the jobs by itself. Used by live/slurm/job_follower. One
// thread. Instants are seconds since 1970, durations seconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "live/slurm/answers.hpp"
#include "live/slurm/follow_rules.hpp"
#include "live/slurm/start_order.hpp"

namespace orrery::live {

/// Managed job that Slurm could start by itself, and that has no order.
struct WaitingJob {
  const SlurmJob* row = nullptr;  ///< the job in the newest reading
  std::int64_t not_before_s = 0;  ///< begin time that its user chose
  bool has_our_nodes = false;     ///< its required nodes are those of an earlier order
};

/// Leases of all waiting jobs. While more than `keeper_from` jobs wait, and until nine tenths of
/// that wait, they depend on the keeper (`afterany`) and only the keeper is renewed: one update in
/// half a lease. A new keeper gets the first five jobs, and all others once a reading shows that
/// these depend on it. Whenever the keeper is missing or refused, jobs have leases of their own.
class WaitingLeases {
 public:
  /// Constructs the leases of no job; both references must outlive this object.
  WaitingLeases(const SlurmRules& rules, SlurmOutlet& outlet) : rules_(rules), outlet_(outlet) {}

  /// Remembers which jobs of a reading wait for a keeper. Call before any other method.
  void read_rows(const std::vector<SlurmJob>& rows);
  /// Renews the leases of `waiting` at `now_s`, moves jobs to the keeper or back, and submits,
  /// finds and renews the keeper. `rows`: all jobs of the reading.
  void renew_leases(const std::vector<WaitingJob>& waiting, const std::vector<SlurmJob>& rows,
                    std::int64_t now_s);
  /// Returns true if the job waits for a keeper, by the newest reading or by a line since then.
  bool is_kept(const std::string& id) const { return kept_.contains(id); }
  /// Returns the line that starts a job on `nodes`. A job that waits for the keeper waits only for
  /// the jobs that its user chose from then on.
  SlurmLine start_line(const std::string& id, const std::vector<std::string>& nodes) const;

 private:
  void follow_keeper(const std::vector<SlurmJob>& rows, bool has_dependents, std::int64_t now_s);
  bool adopt_keeper(const std::vector<SlurmJob>& rows);
  void submit_keeper(std::int64_t now_s);
  void renew_keeper(const SlurmJob& row, std::int64_t now_s);
  void refuse_keeper(const std::string& why, std::int64_t now_s);
  void prove_keeper(const std::vector<WaitingJob>& waiting, std::int64_t now_s);
  std::optional<std::string> new_dependency(const SlurmJob& row);
  bool is_safe(const SlurmJob& row) const { return keeper_ && row.keeper == keeper_->id; }

  const SlurmRules& rules_;
  SlurmOutlet& outlet_;
  std::map<std::string, std::string> kept_;     ///< user's dependencies of jobs that have a keeper
  std::map<std::string, std::uint32_t> tries_;  ///< moves of jobs that no reading shows yet
  bool is_keeping_ = false;                     ///< true: jobs wait for a keeper
  std::optional<SlurmKeeper> keeper_;           ///< keeper that a reading has shown
  bool is_proven_ = false;                      ///< a reading has shown a job that depends on it
  std::size_t probes_ = 0;           ///< readings in which the first jobs were sent to the keeper
  std::size_t probes_left_ = 0;      ///< jobs that may still be sent in this reading
  std::size_t lost_renewals_ = 0;    ///< renewals without an effect, in a row
  std::int64_t renewed_from_s_ = 0;  ///< begin of the keeper before its newest renewal
  std::string submitted_;            ///< id of a keeper that no reading has shown
  std::int64_t submit_after_s_ = 0, paused_until_s_ = 0;
  std::string refusal_;  ///< newest reason for having no keeper
};

}  // namespace orrery::live
