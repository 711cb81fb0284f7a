// Estimated speed of the ranks of one running training job: a speed filter for each rank, fed with
// micro-batch times and progress from samples, and with hints from device and link signals. Used by
// predictive_rebalance; one thread. Times are seconds unless they are Nanos.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "policies/rebalancing/signal_means.hpp"
#include "policies/rebalancing/signal_model.hpp"
#include "policies/rebalancing/speed_filter.hpp"
#include "policies/seam/policy.hpp"
#include "policies/seam/sample_columns.hpp"

namespace orrery {

/// Forecast of one replica, which is as slow as its slowest rank.
struct ReplicaForecast {
  double log_time = 0;   ///< natural logarithm of the seconds per micro-batch
  double deviation = 0;  ///< standard deviation of log_time; set by JobWatch::add_deviations()
  std::uint32_t rank = 0;
  bool known = false;  ///< false: none of its ranks was ever measured
};

/// Speed filters of all ranks of a job.
class JobWatch {
 public:
  /// Constructs a watch of no job; call restore_from() before any other method.
  JobWatch() = default;
  /// Starts watching a training job at its current step, without measurements. The job must have
  /// GPUs and shares.
  explicit JobWatch(const JobInfo& job);

  /// Returns true if the job still has the same ranks on the same GPUs, in the same layout.
  bool fits_job(const JobInfo& job) const;
  /// Records the current step and shares of the job at `now`. Another step begins new means of the
  /// signals and keeps those of the previous step; other shares make the kept signals void. Call
  /// before any sample of an instant, and only if fits_job().
  void follow_job(const JobInfo& job, Nanos now);
  /// Adds the progress of ranks (`done`: micro_batches_done, `times`: micro_batch_time). Ignores
  /// unknown ranks, missing and absurd values, and times and progress that an earlier sample has
  /// shown. The first sample of a rank without a completed micro-batch gives no time. In jobs
  /// without a pipeline, progress also shows that a rank is late before its micro-batch ends. Each
  /// column must have a value for each row.
  void add_ranks(const SampleRows& rows, const SampleColumn& done, const SampleColumn& times,
                 Nanos now);
  /// Adds signals of GPUs. Ignores GPUs without a rank, missing and absurd values, and values
  /// measured before the current step was first seen. Each column must have a value for each row.
  void add_devices(const SampleRows& rows, const SampleColumn& utilization,
                   const SampleColumn& memory_bandwidth, Nanos now);
  /// Adds the latencies of paths as signals of the GPUs at which they begin, as add_devices() does.
  void add_links(const SampleRows& rows, const SampleColumn& latency, Nanos now);
  /// Learns noise and signal weights from the samples since the last call, and turns the signals of
  /// the current step into hints for all ranks. Call after the last sample of the instant.
  void learn_from_samples();

  /// Returns true if one of the slowest ranks is slower than expected, beyond noise; ranks that
  /// were never measured do not count.
  bool is_surprised_by(const RankSummary& summary) const;

  /// Returns the current step.
  Step step() const { return step_; }
  /// Returns the forecast of each replica for step `target`, by replica: that of its slowest
  /// measured rank; `known` is false without a measurement. A `target` before a rank's current step
  /// counts as that step. The deviations are 0.
  std::vector<ReplicaForecast> forecast(Step target) const;
  /// Sets the deviations of known replicas in the result of forecast(target).
  void add_deviations(Step target, std::vector<ReplicaForecast>& replicas) const;
  /// Returns true if only a lower bound of this rank's time is known (SpeedFilter::is_bounded) and
  /// a rank of another replica still has more than one micro-batch of the current step to do, or
  /// has shown no progress in the step, so that the time may become known in this step. `rank` must
  /// be below ranks().
  bool knows_more_soon(std::uint32_t rank) const;
  /// Returns true if every measured rank has measurements of `steps` steps and none is in doubt;
  /// false if no rank was measured.
  bool has_measured(std::uint64_t steps) const;
  /// Returns true if the log time of at least one measured rank changes, up or down, by more than
  /// `change` from the step of its newest measurement to `target`, and its slope exceeds its
  /// uncertainty by `confidence` standard deviations; false if no rank was measured before
  /// `target`.
  bool is_drifting(Step target, double change, double confidence) const;

  /// Writes every field, in a fixed order, to a ByteWriter, or reads it from a ByteReader. For
  /// reading call restore_from(), which sets the number of ranks first.
  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.job_), archive(self.gpus_), archive(self.shares_);
    archive(self.ranks_per_replica_), archive(self.replica_stride_), archive(self.pipeline_);
    archive(self.step_), archive(self.step_began_), archive(self.changed_step_);
    archive(self.noise_);
    SignalModel::fields(self.signals_, archive);
    for (std::size_t rank = 0; rank < self.ranks_.size(); ++rank) {
      Rank::fields(self.ranks_[rank], archive);
      StepSignals::fields(self.before_, rank, archive);
      StepSignals::fields(self.current_, rank, archive);
      auto& change = self.ranks_[rank].change;
      archive(change(0), change(1), change(2));
    }
  }
  /// Reads the state of a job with `ranks` ranks that fields() has written, in place of the present
  /// state. Throws as ByteReader for too few bytes.
  template <class Archive>
  void restore_from(Archive& archive, std::size_t ranks) {
    ranks_.assign(ranks, {});
    before_.clear(ranks);
    current_.clear(ranks);
    fields(*this, archive);
    index_ranks();
  }
  std::size_t ranks() const { return ranks_.size(); }

 private:
  struct Rank {
    SpeedFilter filter;
    bool seen = false;
    Step seen_step = 0;                          ///< step of the newest progress
    double seen_done = 0;                        ///< whole micro-batches
    Step started_step = 0;                       ///< step in which the rank was first seen working
    Nanos started_at = kNever;                   ///< instant of that observation; kNever: none
    double started_done = 0;                     ///< micro-batches done at that instant
    SignalVector change = SignalVector::Zero();  ///< change at the end of the previous step

    template <class Self, class Archive>
    static void fields(Self& self, Archive& archive) {
      SpeedFilter::fields(self.filter, archive);
      archive(self.seen, self.seen_step, self.seen_done, self.started_step, self.started_at,
              self.started_done);
    }
  };
  /// Ranks on the GPUs of the rows of a table that was read before.
  struct RowRanks {
    std::vector<std::uint32_t> gpus;   ///< GPUs of the rows
    std::vector<std::uint32_t> ranks;  ///< kNoRank: no rank is on that GPU
    bool in_order = false;             ///< true if the rows are those of rank 0, 1 and so on
  };
  static constexpr std::uint32_t kNoRank = ~0u;
  static constexpr Step kNoStep = ~Step{0};
  /// GPUs and replicas of the ranks, for searches.
  struct GpuIndex {
    GpuRuns placed;
    std::vector<std::pair<GpuId, std::uint32_t>> ranks;  ///< ordered by GPU
    std::vector<std::uint32_t> replicas;                 ///< replica of each rank
    RowRanks device_rows, link_rows;
  };
  /// Values that follow from the state of the ranks and are read at each look, by rank.
  struct Glances {
    std::vector<Step> seen_steps;       ///< Rank::seen_step; kNoStep: never seen
    std::vector<double> next_done;      ///< micro-batches done with which the rank has news
    std::vector<Step> zero_hint_at;     ///< step for which the filter has a hint of 0
    Step all_zero_at = kNoStep;         ///< step for which all filters have a hint of 0
    std::vector<std::uint8_t> marks;    ///< buffer for the ranks of `marked`
    std::vector<std::uint32_t> marked;  ///< buffer for ranks that need more than a glance
  };
  /// Estimates of the filters, by rank.
  struct Estimates {
    std::vector<double> log_times;           ///< NaN: never measured
    std::vector<double> log_time_variances;  ///< 0: never measured
    std::vector<double> slopes, variances;   ///< 0: never measured; variances of slopes
    std::vector<Step> steps;
    std::vector<std::uint8_t> exceptions;    ///< 1: the estimate does not decide alone
    std::vector<std::uint64_t> measured;     ///< steps + 1; 0: in doubt; kNoStep: never measured
    std::vector<double> ahead;               ///< buffer of forecast()
    std::vector<std::uint32_t> exceptional;  ///< buffer for the ranks of `exceptions`
    std::vector<std::uint32_t> slowest;      ///< buffer for the slowest of neighbouring ranks
    std::vector<std::uint8_t> valid;         ///< 1: the estimate is valid unless `all_changed`
    std::vector<std::uint32_t> changed;      ///< ranks whose estimate is not valid
    bool all_changed = true;                 ///< no estimate is valid

    bool is_valid(std::size_t rank) const { return !all_changed && valid[rank] != 0; }
    SpeedFilter::Level level_of(std::size_t rank) const {
      return {log_times[rank], log_time_variances[rank], slopes[rank]};
    }
  };
  void index_ranks();
  /// Computes the estimates anew that are not valid any more.
  void refresh_estimates() const;
  void refresh_estimate(std::size_t rank) const;
  /// Fills Estimates::ahead with the log times at `target`.
  void forecast_ranks(Step target) const;
  const RowRanks& ranks_of_rows(const std::vector<std::uint32_t>& gpus, RowRanks& known) const;
  void mark_changed(const Rank& rank) {
    const auto number = static_cast<std::uint32_t>(&rank - ranks_.data());
    if (!estimates_.is_valid(number)) return;
    estimates_.valid[number] = 0;
    estimates_.changed.push_back(number);
  }
  SignalVector change_of(std::size_t rank) const {
    return {changes_[0].change_of(rank), changes_[1].change_of(rank), changes_[2].change_of(rank)};
  }
  void add_signal(std::size_t signal, const RowRanks& rows, const SampleColumn& column, Nanos now);
  /// Adds the progress of the rank in a row of add_ranks().
  void add_rank(std::size_t row, const SampleRows& rows, const SampleColumn& done,
                const SampleColumn& times, Nanos now);
  void update_glance(std::size_t rank);
  void update_hint(std::size_t rank, const SignalVector& limits);
  bool is_news(std::size_t rank, Step step, double count, double limit);
  void add_measurement(std::size_t rank, Step step, double seconds);
  void note_progress(Rank& rank, Step step, const Sample<double>& progress, Nanos now,
                     double limit);

  JobId job_;
  std::vector<GpuId> gpus_;
  std::vector<std::uint32_t> shares_;
  std::uint32_t ranks_per_replica_ = 1, replica_stride_ = 1, pipeline_ = 1;
  Step step_ = 0;
  Nanos step_began_ = 0;   ///< instant at which the step was first seen
  Step changed_step_ = 0;  ///< step of Rank::change
  JobNoise noise_;
  SignalModel signals_;
  std::vector<Rank> ranks_;
  StepSignals before_, current_;  ///< previous step and current step
  // The following members follow from those above.
  GpuIndex index_;
  Glances glances_;
  std::array<ChangeColumn, kSignals> changes_;  ///< changes by signal since the previous step
  mutable Estimates estimates_;
};

}  // namespace orrery
