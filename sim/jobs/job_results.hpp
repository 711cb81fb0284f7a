// What became of the jobs of a log: the figures of JobsReport, one after the other from rows, and
// the tables that a replay writes (CSV). Called by sim/jobs/recorded_jobs and sim/jobs/job_replay.
// One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.hpp"
#include "sim/jobs/load_series.hpp"
#include "traces/jobs/job_trace.hpp"
#include "traces/report.pb.h"

namespace orrery {

struct JobRow {
  enum class State : std::uint8_t { unfinished, completed, rejected };

  const TraceJob* job = nullptr;
  State state = State::unfinished;
  Nanos start = -1, end = -1;  ///< first start; -1: never
  Nanos ran = 0;               ///< had its GPUs; once it has ended
  Nanos estimate = 0;          ///< that policies were told
  std::uint32_t preemptions = 0;
  std::uint32_t nodes = 0;  ///< that it last stood in
  std::string reason = {};  ///< of its rejection

  Nanos submit() const { return job->submit_s * kNanosPerSecond; }
  /// From its submission to its end.
  Nanos completion() const { return end - submit(); }
  /// In the queue, before its start and after it was taken off.
  Nanos waited() const { return completion() - ran; }
};

std::string_view state_name(JobRow::State state);

class JobResults {
 public:
  explicit JobResults(std::uint32_t gpus) : gpus_(gpus) {}
  void add(const JobRow& row);
  void fill(JobsReport& report);

 private:
  /// Jobs with something in common.
  struct Group {
    std::vector<Nanos> completion, waited;
    double gpu_s = 0;
  };
  static void fill(JobGroup& into, const std::string& key, Group& group);
  void fill_sizes(JobsReport& report);
  void fill_clusters(JobsReport& report);

  const std::uint32_t gpus_;
  std::uint64_t in_ = 0;
  Group all_;
  std::map<std::uint32_t, Group> by_size_;  ///< by the most GPUs of the class: 1, 2, 4, 8, ...
  std::map<std::string, Group> by_cluster_;
  std::vector<double> factors_;  ///< between estimate and truth
  std::vector<RejectedRow> rejected_;
  std::uint64_t rejections_ = 0;
  Nanos first_submit_ = kNever, last_end_ = 0;
};

/// "1", "2", "3-4", "5-8", ...: jobs of at most so many GPUs, a power of two.
std::string size_class(std::uint32_t most);

// The tables of a replay, as CSV.
std::string jobs_header();
void write_row(const JobRow& row, std::string& jobs);
std::string series_csv(const LoadSeries& load, std::uint32_t gpus);
std::string groups_csv(const JobsReport& report);

}  // namespace orrery
