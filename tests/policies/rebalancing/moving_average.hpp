// The yardstick for prediction: the same shares and thresholds as predictive-rebalance, but the
// micro-batch time of a rank is the average of its last `window` steps. For tests only.
#pragma once

#include <cmath>
#include <deque>
#include <vector>

#include "policies/rebalancing/shares.hpp"
#include "policies/seam/policy.hpp"

namespace orrery::test {

/// Baseline policy with moving averages instead of filters.
class MovingAverage : public Policy {
 public:
  explicit MovingAverage(std::size_t window) : window_(window) {}

  Needs needs() const override { return {}; }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}

  void observe(Context&, const Observation& seen, DecisionList& decisions) override {
    const JobInfo& job = seen.jobs[{0}];
    steps_.resize(job.layout.data);
    newest_.resize(job.layout.data);
    if (job.step != step_) close_step(job.step);
    for (const RankSample& sample : seen.samples.ranks(job.spec.id)) {
      if (sample.micro_batches_done.value < 1) continue;
      newest_[sample.rank.value].push_back(sample.micro_batch_time.value);
    }
    if (job.step + 1 < next_ || steps_[0].size() < window_) return;
    std::vector<double> times;
    for (const auto& steps : steps_) times.push_back(mean(steps));
    const ShareList best = best_shares(job.shares(), times, 0, job.spec.max_micro_batches);
    const double now = makespan(job.shares(), times, 0);
    if (best == job.shares() || 1 - makespan(best, times, 0) / now < kGain) return;
    decisions.add(Configure{job.spec.id, Shares{best}}, "average").at_step = job.step + 1;
    next_ = job.step + 1 + kCooldown;
  }

 private:
  static constexpr double kGain = 0.03;
  static constexpr Step kCooldown = 2;

  template <class Values>
  static double mean(const Values& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  }
  void close_step(Step step) {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (!newest_[i].empty()) steps_[i].push_back(mean(newest_[i]));
      if (steps_[i].size() > window_) steps_[i].pop_front();
      newest_[i].clear();
    }
    step_ = step;
  }

  std::size_t window_;
  Step step_ = 0, next_ = 0;
  std::vector<std::deque<double>> steps_;    ///< one mean a step for each rank
  std::vector<std::vector<double>> newest_;  ///< samples of the step under way
};

}  // namespace orrery::test
