// What became of the jobs of a log: the figures of JobsReport, one after the other from rows, and
// the tables that a replay writes (CSV). Called by sim/jobs/recorded_jobs and sim/jobs/job_replay.
// One thread.
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

struct JobRow {
  enum class State : std::uint8_t { unfinished, completed, rejected };

  const TraceJob* job = nullptr;
  State state = State::unfinished;
  Nanos start = -1, end = -1;  ///< first start; -1: never
  Nanos ran = 0;               ///< had its GPUs; once it has ended
  Nanos lost = 0;              ///< of that: restarts, and work that was done again
  Nanos estimate = 0;          ///< that policies were told
  std::uint32_t preemptions = 0;
  std::uint32_t nodes = 0;  ///< that it last stood in
  Label reason = {};        ///< of its rejection

  Nanos submit() const { return job->submit_s * kNanosPerSecond; }
  /// From its submission to its end.
  Nanos completion() const { return end - submit(); }
  /// In the queue, before its start and after it was taken off.
  Nanos waited() const { return completion() - ran; }
};

std::string_view state_name(JobRow::State state);

/// Asks for each row a few times and keeps none: a log may have ten million.
class JobResults {
 public:
  using RowAt = std::function<JobRow(std::size_t index)>;
  /// `count` rows of a cluster of so many GPUs.
  JobResults(std::size_t count, RowAt row, std::uint32_t gpus);
  void fill(JobsReport& report) const;

 private:
  using Members = std::vector<std::uint32_t>;  ///< rows with something in common, ascending

  double gpu_seconds(const Members& members) const;
  /// Returns the GPU-seconds.
  double fill(JobGroup& into, const std::string& key, const Members& members) const;
  void fill_counts(JobsReport& report) const;
  void fill_factors(JobsReport& report) const;
  /// With what `key` gives, each with memory for its own and no more.
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

/// "1", "2", "3-4", "5-8", ...: jobs of at most so many GPUs, a power of two.
std::string size_class(std::uint32_t most);

// The tables of a replay, as CSV.
std::string jobs_header();
void write_row(const JobRow& row, std::string& jobs);
std::string jobs_csv(std::size_t count, const JobResults::RowAt& row);
std::string series_csv(const LoadSeries& load, std::uint32_t gpus);
std::string groups_csv(const JobsReport& report);

}  // namespace orrery::sim
