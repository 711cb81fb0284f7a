// What is known of the pace of one running training job: per rank a speed filter, fed with the
// micro-batch times and the progress that the samples show, and with hints from device and link
// signals. Used by predictive_rebalance; one thread. Times are seconds unless they are Nanos.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "policies/seam/policy.hpp"
#include "policies/scheduling/signal_model.hpp"
#include "policies/scheduling/speed_filter.hpp"

namespace orrery {

/// A replica goes at the pace of its slowest rank.
struct ReplicaForecast {
  double log_time = 0;   ///< natural logarithm of the seconds per micro-batch
  double deviation = 0;  ///< of log_time
  std::uint32_t rank = 0;
  bool known = false;  ///< false: no rank of it was ever measured
};

class JobWatch {
 public:
  JobWatch() = default;
  explicit JobWatch(const JobInfo& job);

  /// Still the same ranks on the same GPUs?
  bool fits(const JobInfo& job) const;
  /// Notes the step and the shares that the job works on now. Before any sample of an instant.
  void follow(const JobInfo& job, Nanos now);
  /// Samples of other jobs, missing values and absurd ones are passed over.
  void see(const RankSample& sample, Nanos now);
  void see(const DeviceSample& sample, Nanos now);
  void see(const LinkSample& sample, Nanos now);
  /// Learns from the samples of an instant, and turns the signals of the step under way into
  /// hints. After the last sample of the instant.
  void settle();

  /// One of the slowest ranks is slower than was expected of it, beyond noise.
  bool is_surprised_by(const RankSummary& summary) const;

  Step step() const { return step_; }
  std::vector<ReplicaForecast> forecast(Step target) const;
  /// Of this rank only a lower bound is known, and there is still time in this step for its
  /// first micro-batch to finish: the other ranks are at work too.
  bool knows_more_soon(std::uint32_t rank) const;
  /// Every rank that was ever measured has been for `steps` steps, and none is in doubt.
  bool measured(std::uint64_t steps) const;
  /// A rank gets slower or faster by more than `change` (log time) until `target`, and its
  /// slope exceeds its uncertainty by `confidence` standard deviations.
  bool drifting(Step target, double change, double confidence) const;

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.job_), archive(self.gpus_), archive(self.shares_);
    archive(self.ranks_per_replica_), archive(self.replica_stride_), archive(self.pipeline_);
    archive(self.step_), archive(self.step_began_), archive(self.changed_step_);
    archive(self.noise_);
    SignalModel::fields(self.signals_, archive);
    for (auto& rank : self.ranks_) Rank::fields(rank, archive);
  }
  template <class Archive>
  void restore(Archive& archive, std::size_t ranks) {
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
    Step seen_step = 0;           ///< of the newest progress
    double seen_done = 0;         ///< whole micro-batches
    Step started_step = 0;        ///< the step in which it was first seen at work ...
    Nanos started_at = kNever;    ///< ... at this time; kNever: not yet
    double started_done = 0;      ///< ... with so much done
    Signals before, current;      ///< last step and this one
    SignalVector change = SignalVector::Zero();  ///< that the step before ended with

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
  std::vector<SignalVector> changes() const;
  void add_signal(GpuId gpu, std::size_t signal, const Sample<double>& sample, Nanos now);
  bool is_news(Rank& rank, const RankSample& sample, double limit);
  void measure(Rank& rank, Step step, double seconds);
  void note_progress(Rank& rank, const RankSample& sample, Nanos now, double limit);

  JobId job_;
  std::vector<GpuId> gpus_;
  std::vector<std::uint32_t> shares_;
  std::uint32_t ranks_per_replica_ = 1, replica_stride_ = 1, pipeline_ = 1;
  Step step_ = 0;
  Nanos step_began_ = 0;   ///< when the step was first seen
  Step changed_step_ = 0;  ///< the step that Rank::change belongs to
  JobNoise noise_;
  SignalModel signals_;
  std::vector<Rank> ranks_;
  std::vector<std::pair<GpuId, std::uint32_t>> rank_on_gpu_;  ///< by GPU; follows from gpus_
};

}  // namespace orrery
