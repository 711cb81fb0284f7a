// Results of the jobs of a log: the figures of JobsReport, computed from rows, and the tables of a
// replay (CSV). Called by sim/jobs/recorded_jobs and sim/jobs/job_replay. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.hpp"
#include "sim/jobs/load_series.hpp"
#include "traces/jobs/job_trace.hpp"
#include "traces/report.pb.h"

namespace orrery::sim {

/// Result of one job.
struct JobRow {
  enum class State : std::uint8_t { unfinished, completed, rejected };

  const TraceJob* job = nullptr;
  State state = State::unfinished;
  Nanos start = -1, end = -1;  ///< first start; -1: never
  Nanos ran = 0;               ///< time with GPUs, after the end
  Nanos lost = 0;              ///< part of it spent on restarts and repeated work
  Nanos estimate = 0;          ///< estimate that policies saw
  std::uint32_t preemptions = 0;
  std::uint32_t nodes = 0;  ///< number of nodes of its newest placement
  Label reason = {};        ///< reason of its rejection

  Nanos submit_time() const { return job->submit_s * kNanosPerSecond; }
  /// Returns the time from submission to end.
  Nanos completion() const { return end - submit_time(); }
  /// Returns the time in the queue, before the start and after preemptions.
  Nanos waited() const { return completion() - ran; }
};

std::string_view state_name(JobRow::State state);

/// Aggregation of rows. Reads each row a few times and stores none: a log may have ten million.
class JobResults {
 public:
  using RowAt = std::function<JobRow(std::size_t index)>;
  /// Constructs an aggregation of `count` rows of a cluster with `gpus` GPUs.
  JobResults(std::size_t count, RowAt row, std::uint32_t gpus);
  /// Writes the figures.
  void fill(JobsReport& report) const;

 private:
  using Members = std::vector<std::uint32_t>;  ///< rows of a group, ascending

  double gpu_seconds(const Members& members) const;
  /// Writes the figures of a group and returns its GPU-seconds.
  double fill(JobGroup& into, const std::string& key, const Members& members) const;
  void fill_counts(JobsReport& report) const;
  void fill_factors(JobsReport& report) const;
  /// Returns the rows grouped by `key`, each group with exactly the memory that it needs.
  template <class Key>
  auto grouped(const Key& key) const;
  void fill_sizes(JobsReport& report) const;
  void fill_clusters(const JobGroup& all, JobsReport& report) const;

  const std::size_t count_;
  const RowAt row_;
  const std::uint32_t gpus_;
  Members completed_, rejected_;
  Nanos first_submit_ = kNever, last_end_ = 0;
};

/// Returns the name of the class of jobs with at most `most` GPUs, a power of two: "1", "2", "3-4",
/// "5-8", ...
std::string size_class(std::uint32_t most);

// Functions that write the tables of a replay as CSV.
std::string jobs_header();
void write_row(const JobRow& row, std::string& jobs);
std::string jobs_csv(std::size_t count, const JobResults::RowAt& row);
std::string series_csv(const LoadSeries& load, std::uint32_t gpus);
std::string groups_csv(const JobsReport& report);

}  // namespace orrery::sim
