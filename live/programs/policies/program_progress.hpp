// Steps and measurements that the ranks of a user's program report, and the telemetry that policies
// read from them. Used by program_backend. One thread. Seconds of the monotonic clock, which the
// ranks share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "live/codec/gradient_meter.hpp"
#include "live/group/frames.hpp"
#include "policies/seam/job.hpp"
#include "policies/seam/rank_summary.hpp"
#include "policies/seam/sample_columns.hpp"

namespace orrery::live {

/// End of one step of one rank.
struct RankStep {
  std::uint64_t steps = 0;  ///< steps that the rank has done
  double end_s = 0;         ///< instant of the end
  double duration_s = 0;
  double compute_s = 0;     ///< time from the begin to the start of the last collective operation
  std::uint32_t share = 1;  ///< micro-batches of the rank in this step
  double input_s = 0;       ///< time in data loaders
  Prefetch prefetch = {};   ///< readers of the newest batch
  double memory = 0;        ///< bytes of the rank's process in RAM; 0: not measured
  GradientExchange gradients = {};  ///< exchange of the step's newest backward pass
};

/// Returns the step in the message "done STEPS END DURATION COMPUTE SHARE INPUT WORKERS DEPTH
/// MEMORY BYTES ISSUED ENDED BEGUN DONE SENT VARIANCE", in which the last seven are those of
/// GradientExchange. Throws std::exception if a number or a field is missing.
RankStep rank_step_of(const Fields& fields);

/// Steps of all ranks, by rank of the program.
class ProgramProgress {
 public:
  /// Forgets all, because the ranks start again.
  void clear();
  /// Sets the number of steps that a rank has done before its first report.
  void set_begin(std::size_t rank, std::uint64_t steps);
  /// Records the end of a step.
  void record_step(std::size_t rank, const RankStep& step);

  /// Returns the number of steps that all of `members` have done; 0 without members.
  std::uint64_t completed_steps(const std::vector<std::size_t>& members) const;
  /// Returns the largest number of steps that one of `members` has done; 0 without members.
  std::uint64_t most_steps(const std::vector<std::size_t>& members) const;
  /// Returns the duration of the steps `from` + 1 to `until` in seconds: of each the longest of any
  /// rank. Forgets the steps up to `until`. 0 for steps that no rank has reported.
  double drain_duration_s(std::uint64_t from, std::uint64_t until);
  /// Returns the newest step of a rank with measurements; nothing before its second step, because
  /// the first one contains the start of the program.
  std::optional<RankStep> newest_step(std::size_t rank) const;

 private:
  struct Rank {
    std::uint64_t steps = 0;
    std::uint64_t reports = 0;
    RankStep newest;
  };
  std::map<std::size_t, Rank> ranks_;
  std::map<std::uint64_t, double> durations_;  ///< durations by number of the step, counted from 1
};

/// Telemetry of a program: steps, compute and wait times of its ranks, their memory, and the
/// exchange of their gradients. A micro-batch is one example of a batch where policies set shares,
/// otherwise the whole step of a rank. The exchange is known if all living ranks have reported the
/// same step. Its times begin with the last rank and end with the last rank: others only wait
/// before. Example: two ranks begin a transfer at 0 and 40 ms and are done at 50 ms. Each sends
/// 4 MB: 400 MB/s.
class ProgramSamples : public ColumnSamples {
 public:
  /// `progress` must outlive this object.
  explicit ProgramSamples(const ProgramProgress& progress) : progress_(progress) {}

  /// Begins another observation at `now_s`. `ranks`: ranks of the program by rank of the job, each
  /// with false if it is lost. `prefetch`: readers that the job shall have; the wait for data of a
  /// rank that still has others is missing.
  void begin(double now_s, std::vector<std::pair<std::size_t, bool>> ranks,
             const Prefetch& prefetch = {});
  /// Adds collectives that the ranks' NCCL has reported, behind the exchange of the gradients. Call
  /// after begin().
  void add_collectives(const std::vector<CollectiveSample>& samples) {
    collectives_.insert(collectives_.end(), samples.begin(), samples.end());
  }

  RankSummary summary(JobId job, std::uint32_t latest) override;
  std::span<const CollectiveSample> collectives(JobId) override { return collectives_; }

 private:
  /// Newest step of a living rank.
  struct KnownRank {
    std::uint32_t rank = 0;   ///< rank of the job
    std::uint32_t place = 0;  ///< GPU of the rank: its rank of the program
    RankStep step;
  };
  void begin_exchange();
  double value_of_rank(SampleField field, const RankStep& step) const;
  std::shared_ptr<const SampleRows> make_rows(SampleTable table, JobId job) override;
  std::shared_ptr<const SampleColumn> make_column(SampleField field, JobId job) override;

  const ProgramProgress& progress_;
  double now_s_ = 0;
  Prefetch prefetch_;
  std::vector<KnownRank> known_;  ///< ascending ranks
  double bandwidth_ = kMissing;   ///< bytes per second of the newest exchange
  std::vector<CollectiveSample> collectives_;
  std::vector<RankSample> slowest_;
};

}  // namespace orrery::live
