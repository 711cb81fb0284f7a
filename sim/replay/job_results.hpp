// Results of the jobs of a log: the metrics of JobsReport, aggregated from one row for each job,
// and the tables of a replay (CSV). Called by sim/replay/recorded_jobs and sim/replay/job_replay.
// One thread. Nanoseconds of the policy clock; seconds in reports and tables.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.hpp"
#include "sim/replay/load_series.hpp"
#include "traces/jobs/job_trace.hpp"
#include "traces/report.pb.h"

namespace orrery::sim {

/// Result of one job. The job outlives the row.
struct JobRow {
  enum class State : std::uint8_t { unfinished, completed, rejected };

  const TraceJob* job = nullptr;
  double gpus = 0;  ///< GPUs that it has in a run; below 1 for a part of a GPU
  State state = State::unfinished;
  Nanos start = -1, end = -1;  ///< first start, and end; -1: never
  Nanos ran = 0;               ///< time with GPUs; only of a completed job
  Nanos lost = 0;              ///< part of `ran` spent on restarts and on work that was lost
  Nanos held = 0;      ///< time from the submission until the jobs that it waits for had ended
  Nanos estimate = 0;  ///< estimated duration that policies saw
  bool is_variable = false;  ///< its speed depends on the number or the kind of its GPUs
  /// GPU-seconds of a completed job, and their part that went into restarts and lost work
  double used_gpu_s = 0, lost_gpu_s = 0;
  std::uint32_t preemptions = 0;  ///< number of times that the job left its GPUs before its end
  std::uint32_t resizes = 0;      ///< number of times that its number of GPUs changed while it ran
  std::uint32_t nodes = 0;        ///< number of nodes of the newest placement
  Label reason = {};              ///< reason of the rejection
  Label gpu_kind = {};            ///< kind of its newest GPUs; empty if the GPUs have no kinds

  /// Returns the instant of the submission.
  Nanos submit_time() const { return job->submit_s * kNanosPerSecond; }
  /// Returns the time from the entry into the queue to the end of a completed job. A job enters the
  /// queue at its submission, or when the jobs that it waits for have ended.
  Nanos completion() const { return end - submit_time() - held; }
  /// Returns the time that a completed job spent in the queue, before its start and after
  /// preemptions.
  Nanos waited() const { return completion() - ran; }
};

/// Returns the name of a state in tables: "completed", "rejected" or "unfinished".
std::string_view state_name(JobRow::State state);

/// Aggregation of rows. Reads each row a few times and stores no row, because a log may have ten
/// million jobs. For example, two completed jobs of 1 h on 8 GPUs each, one after the other on a
/// cluster of 16 GPUs, have a makespan of 2 h and a utilization of 0.5.
class JobResults {
 public:
  /// Function that returns the row of a job by its index in the log.
  using RowAt = std::function<JobRow(std::size_t index)>;
  /// Constructs an aggregation of `count` rows of a cluster with `gpus` GPUs. Reads each row once;
  /// `row` must give the same rows until fill() returns.
  JobResults(std::size_t count, RowAt row, std::uint32_t gpus);
  /// Writes the metrics: counts, digests of the completed jobs and of all starts and ends, and with
  /// completed jobs also completion and queue times, utilization, accuracy of the estimates, and
  /// groups by size and by virtual cluster. Appends to the lists of the report, so call once for
  /// each report.
  void fill(JobsReport& report) const;

 private:
  using Members = std::vector<std::uint32_t>;  ///< rows of a group, ascending

  /// Returns the recorded GPU-seconds of a group; those of an elastic job are the used ones without
  /// restarts and lost work.
  double gpu_seconds(const Members& members) const;
  /// Returns the time that the completed jobs spent in the queue, times the GPUs that each job asks
  /// for.
  double queue_gpu_hours() const;
  double slowdown_mean() const;
  /// Writes the metrics of a group, whose name is `key`, and returns its gpu_seconds().
  double fill(JobGroup& into, const std::string& key, const Members& members) const;
  /// Writes the counts, and the reasons of the first 100 rejected jobs.
  void fill_counts(JobsReport& report) const;
  /// Writes percentiles of the factor between estimate and recorded duration, at least 1.
  void fill_factors(JobsReport& report) const;
  /// Returns the completed rows grouped by `key`; each group has exactly the memory that its rows
  /// need.
  template <class Key>
  auto grouped(const Key& key) const;
  /// Writes the groups by size class.
  void fill_sizes(JobsReport& report) const;
  /// Writes the groups by virtual cluster: the 20 with the most GPU time, and "(others)". `all`:
  /// the group of all completed jobs.
  void fill_clusters(const JobGroup& all, JobsReport& report) const;
  /// Returns the 20 virtual clusters whose jobs, completed or not, have the most GPU time in the
  /// log, so that all outcomes of a log have the same groups.
  std::set<Label> largest_clusters() const;
  /// Adds a row to the digests.
  void digest(std::uint32_t index, const JobRow& row);

  const std::size_t count_;
  const RowAt row_;
  const std::uint32_t gpus_;
  Members completed_, rejected_;
  Nanos first_submit_ = kNever, last_end_ = 0;
  std::uint64_t completed_digest_ = 0;  ///< digest of rows and ids of the completed jobs
  std::uint64_t schedule_digest_ = 0;   ///< digest of the starts and ends of all jobs
};

/// Returns the smallest power of two that is not below the GPUs of a job; 0 for a job that asks for
/// a part of a GPU.
std::uint32_t size_limit(const TraceJob& job);
/// Returns the name of the size class of jobs with at most `most` GPUs, a power of two, and more
/// than half of `most`: "1", "2", "3-4", "5-8", ...; "part" for 0, the jobs with parts of a GPU.
std::string size_class(std::uint32_t most);

/// Returns the header line of the table of jobs.
std::string jobs_header();
/// Appends the line of one job to the table of jobs; unknown times are empty fields.
void write_row(const JobRow& row, std::string& jobs);
/// Returns the table of `count` jobs as CSV, with the header line.
std::string jobs_csv(std::size_t count, const JobResults::RowAt& row);
/// Returns the use of a cluster with `gpus` GPUs over time as CSV: a header line, and one line for
/// each interval.
std::string series_csv(const LoadSeries& load, std::uint32_t gpus);
/// Returns the groups of a report by size and by virtual cluster as CSV, with a header line. The
/// columns recorded_* are the same groups in the log's own outcome (JobsReport::recorded), and
/// empty if the log has none.
std::string groups_csv(const JobsReport& report);
/// Returns the group with this key; null if there is none.
const JobGroup* group_of(const google::protobuf::RepeatedPtrField<JobGroup>& groups,
                         const std::string& key);

}  // namespace orrery::sim
