// Jobs of a log by number: in order of submission, ties in the log's order, without the jobs that
// can never run on the cluster. Most logs are in that order and have no such jobs; then only the
// log itself is stored. Read by sim/replay/recorded_jobs and its parts. Immutable, thread-safe;
// nanoseconds of the policy clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "traces/jobs/gpu_kinds.hpp"
#include "traces/jobs/job_trace.hpp"

namespace orrery::sim {

/// Numbered jobs of a log.
class NumberedTrace {
 public:
  static constexpr std::uint32_t kRejected = ~0u;

  /// Numbers of GPUs by kind.
  using KindSizes = std::map<std::string, std::uint32_t>;

  /// Numbers the jobs. Those that need more GPUs than `gpus`, the cluster's, or than it has of one
  /// of their kinds, get no number. `kinds`: empty for a cluster whose GPUs have no kinds.
  NumberedTrace(std::vector<TraceJob> jobs, std::uint32_t gpus, KindSizes kinds = {});

  /// Returns the jobs of all rows of the log.
  const std::vector<TraceJob>& all_rows() const { return trace_; }
  /// Returns the number of rows of the log.
  std::size_t rows() const { return trace_.size(); }
  /// Returns the job in row `index`, with or without a number; `index` < rows().
  const TraceJob& row(std::size_t index) const { return trace_[index]; }
  /// Returns the number of the job in row `index`, `index` < rows(); kRejected if it has none.
  std::uint32_t number_of_row(std::size_t index) const {
    return number_.empty() ? static_cast<std::uint32_t>(index) : number_[index];
  }
  /// Returns the reason why a job can never run; empty if it can.
  std::string misfit(const TraceJob& job) const;

  /// Returns the number of numbered jobs.
  std::size_t size() const { return number_.empty() ? trace_.size() : order_.size(); }
  /// Returns the job `number`; `number` < size().
  const TraceJob& operator[](std::size_t number) const {
    return trace_[order_.empty() ? number : order_[number]];
  }
  /// Returns true if the log gives the job `number` sizes of its own; `number` < size().
  bool is_elastic(std::size_t number) const { return !(*this)[number].sizes.empty(); }
  /// Returns the kinds of GPUs that a job may use; null if it names none or the cluster has none.
  const GpuKinds* kinds_of(const TraceJob& job) const {
    if (job.kinds.empty() || kind_sizes_.empty()) return nullptr;
    return &choices_.at(job.kinds).kinds;
  }
  /// Returns true if the speed of the job `number` depends on its GPUs; `number` < size().
  bool is_variable(std::size_t number) const {
    if (is_elastic(number)) return true;
    const GpuKinds* const kinds = kinds_of((*this)[number]);
    return kinds != nullptr && kinds->has_speeds();
  }
  /// Returns the instant of the submission of the job `number`; `number` < size().
  Nanos submission(std::size_t number) const { return (*this)[number].submit_s * kNanosPerSecond; }
  /// Returns the recorded duration of the job `number`; `number` < size().
  Nanos duration(std::size_t number) const { return (*this)[number].duration_s * kNanosPerSecond; }

 private:
  /// Kinds of a job, and the most GPUs that the cluster has of one of them.
  struct Choice {
    GpuKinds kinds;
    std::uint32_t most = 0;
  };

  /// Fills `choices_`.
  void count_kinds();

  const std::vector<TraceJob> trace_;
  std::uint32_t most_;  ///< GPUs of the cluster, of its largest kind if it has kinds
  const KindSizes kind_sizes_;
  std::map<Label, Choice> choices_;  ///< kinds of jobs, by their texts
  /// Rows by number, and numbers by row; empty where they are equal.
  std::vector<std::uint32_t> order_, number_;
};

}  // namespace orrery::sim
