// Savings of one queue policy against another, or against the log's own outcome, in operators'
// units: hours, GPU-hours and money; and who waits less. Pure functions of outcomes of the jobs of
// one log. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "traces/jobs/job_trace.hpp"
#include "traces/report.pb.h"

namespace orrery::sim {

/// Outcome of each job of a log, by its row; -1: the job did not complete. Nanoseconds.
struct JobOutcomes {
  std::vector<Nanos> waits;  ///< time in the queue
  std::vector<Nanos> ends;
};

/// Properties of the jobs of a log by which waits are compared. Smaller than the log, which a
/// replay consumes.
class ComparedJobs {
 public:
  struct Row {
    double gpus;
    std::uint32_t size;  ///< size_limit()
    Label vc, user;
  };

  explicit ComparedJobs(const std::vector<TraceJob>& jobs);

  const std::vector<Row>& rows() const { return rows_; }

 private:
  std::vector<Row> rows_;
};

/// Outcome of a log: its metrics, and the outcome of each job.
struct LogOutcome {
  std::string label = {};
  JobsReport report = {};
  JobOutcomes jobs = {};
};

/// Returns the outcome that the log itself has: the metrics of its jobs with a recorded start, by
/// their recorded starts and durations; without times if there are none. `gpus`: the cluster's.
LogOutcome recorded_outcome(const std::vector<TraceJob>& jobs, std::uint32_t gpus);
/// Sets the log's own outcome in the report of a replay, if the log has one.
void set_recorded(const JobsReport& recorded, JobsReport& report);

/// Kinds of groups of jobs, in the order of the table of waits.
enum class WaitsBy : std::uint8_t { vc, size, user };

/// Waits of a group of jobs in two outcomes, of the jobs that completed in both.
struct GroupWaits {
  WaitsBy by{};
  std::string key = {};
  std::uint64_t jobs = 0;
  double wait_s = 0, wait_before_s = 0;  ///< sums over the jobs
  double wait_gpu_s = 0, wait_gpu_before_s = 0;

  /// Returns the mean time that a job of the group waits less; negative: longer.
  double saved_mean_s() const { return (wait_before_s - wait_s) / static_cast<double>(jobs); }
};

/// Savings of an outcome, and the waits by virtual cluster, size and user.
struct Saved {
  JobsSavings savings;
  std::vector<GroupWaits> groups;
};

/// Prices and sizes for savings of the cluster.
struct SavingsTerms {
  /// GPUs of both clusters, which are paid until the last end; nothing if the clusters differ,
  /// which then have no common cost
  std::optional<std::uint32_t> gpus = {};
  std::optional<double> usd_per_gpu_hour = {};
};

/// Returns the savings of `outcome` against `before`, positive if it is better. All values are of
/// the jobs that completed in both; nothing if no job did.
std::optional<Saved> savings(const ComparedJobs& jobs, const LogOutcome& outcome,
                             const LogOutcome& before, const SavingsTerms& terms);

/// Returns true if both reports are about the same completed jobs of a log.
bool have_same_jobs(const JobsReport& a, const JobsReport& b);

/// Returns the waits as CSV, with a header line; seconds, hours and GPU-hours.
std::string waits_csv(const Saved& saved);

}  // namespace orrery::sim
