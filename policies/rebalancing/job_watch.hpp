// Estimated speed of the ranks of one running training job: a speed filter for each rank, fed with
// micro-batch times and progress from samples, and with hints from device and link signals. Used by
// predictive_rebalance; one thread. Times are seconds unless they are Nanos.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "policies/rebalancing/signal_model.hpp"
#include "policies/rebalancing/speed_filter.hpp"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Forecast of one replica, which is as slow as its slowest rank.
struct ReplicaForecast {
  double log_time = 0;   ///< natural logarithm of the seconds per micro-batch
  double deviation = 0;  ///< standard deviation of log_time
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
  /// Adds a sample. Ignores samples of other jobs and of GPUs without a rank, missing values,
  /// absurd values, signals measured before the current step was first seen, and micro-batch times
  /// and progress that an earlier sample has shown. The first sample of a rank without a completed
  /// micro-batch gives no time. In jobs without a pipeline, progress also shows that a rank is late
  /// before its micro-batch ends.
  void add_sample(const RankSample& sample, Nanos now);
  void add_sample(const DeviceSample& sample, Nanos now);
  void add_sample(const LinkSample& sample, Nanos now);
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
  /// counts as that step.
  std::vector<ReplicaForecast> forecast(Step target) const;
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
    for (auto& rank : self.ranks_) Rank::fields(rank, archive);
  }
  /// Reads the state of a job with `ranks` ranks that fields() has written, in place of the present
  /// state. Throws as ByteReader for too few bytes.
  template <class Archive>
  void restore_from(Archive& archive, std::size_t ranks) {
    ranks_.assign(ranks, {});
    fields(*this, archive);
    index_gpus();
  }
  std::size_t ranks() const { return ranks_.size(); }

 private:
  /// Means of the signals over the samples of one step.
  struct Signals {
    std::array<double, kSignals> sum{}, count{};
    bool has(std::size_t i) const { return count[i] > 0; }
    double mean(std::size_t i) const { return sum[i] / count[i]; }
    void add(std::size_t i, double value) { sum[i] += value, count[i] += 1; }
  };
  struct Rank {
    SpeedFilter filter;
    bool seen = false;
    Step seen_step = 0;           ///< step of the newest progress
    double seen_done = 0;         ///< whole micro-batches
    Step started_step = 0;        ///< step in which the rank was first seen working
    Nanos started_at = kNever;    ///< instant of that observation; kNever: none
    double started_done = 0;      ///< micro-batches done at that instant
    Signals before, current;      ///< previous step and current step
    SignalVector change = SignalVector::Zero();  ///< change at the end of the previous step

    template <class Self, class Archive>
    static void fields(Self& self, Archive& archive) {
      SpeedFilter::fields(self.filter, archive);
      archive(self.seen, self.seen_step, self.seen_done, self.started_step, self.started_at,
              self.started_done, self.before.sum, self.before.count, self.current.sum,
              self.current.count);
      for (Eigen::Index i = 0; i < self.change.size(); ++i) archive(self.change(i));
    }
  };
  void index_gpus();
  Rank* rank_on(GpuId gpu);
  std::size_t replica_of(std::size_t rank) const {
    return rank / replica_stride_ % shares_.size();
  }
  std::vector<SignalVector> signal_changes() const;
  void add_signal(GpuId gpu, std::size_t signal, const Sample<double>& sample, Nanos now);
  bool is_news(Rank& rank, const RankSample& sample, double limit);
  void add_measurement(Rank& rank, Step step, double seconds);
  void note_progress(Rank& rank, const RankSample& sample, Nanos now, double limit);

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
  /// ordered by GPU; follows from gpus_
  std::vector<std::pair<GpuId, std::uint32_t>> rank_on_gpu_;
};

}  // namespace orrery
