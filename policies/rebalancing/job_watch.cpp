#include "policies/rebalancing/job_watch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "policies/rebalancing/rank_loops.hpp"

namespace orrery {
namespace {

/// Limits of a plausible micro-batch time, absolute and relative to the known one.
constexpr double kLeastTime = 1e-9, kMostTime = 1e6;
const double kMostLogRatio = std::log(2000.0);
constexpr double kMostMicroBatches = 1e9;
/// Standard deviations, and log time, by which a rank is late beyond noise.
constexpr double kSurprising = 4, kLeastSurprise = 0.01;
/// A fraction this close to the next micro-batch is rounding.
constexpr double kRounding = 1e-6;
/// Signals of SignalModel, and the bounds of their plausible values.
constexpr std::size_t kLoad = 0, kMemoryBandwidth = 1, kLatency = 2;
constexpr std::array<std::pair<double, double>, kSignals> kSignalBounds{
    {{0, 1.5}, {0, 1.5}, {1e-12, 1e3}}};

/// Returns true for a value between the bounds; false for a missing one, which is not a number.
bool usable(double value, double least, double most) { return value >= least && value <= most; }

}  // namespace

JobWatch::JobWatch(const JobInfo& job)
    : job_(job.spec.id),
      gpus_(job.gpus.to_vector()),
      shares_(job.shares()),
      ranks_per_replica_(job.layout.ranks_per_replica()),
      replica_stride_(job.layout.replica_stride()),
      pipeline_(job.layout.pipeline),
      step_(job.step),
      noise_(job.layout.data * ranks_per_replica_),
      ranks_(job.layout.data * ranks_per_replica_) {
  before_.clear(ranks_.size());
  current_.clear(ranks_.size());
  index_ranks();
}

void JobWatch::index_ranks() {
  const std::size_t count = ranks_.size();
  glances_ = {.seen_steps = std::vector<Step>(count, kNoStep),
              .next_done = std::vector<double>(count, 0),
              .zero_hint_at = std::vector<Step>(count, kNoStep),
              .all_zero_at = kNoStep,
              .marks = std::vector<std::uint8_t>(count),
              .marked = {}};
  index_ = {};
  index_.replicas.assign(count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    if (shares_.empty() || replica_stride_ == 0) break;  // damaged state
    index_.replicas[i] = static_cast<std::uint32_t>(i / replica_stride_ % shares_.size());
    update_glance(i);
  }
  estimates_ = {.log_times = std::vector<double>(count, kMissing),
                .log_time_variances = std::vector<double>(count, 0),
                .slopes = std::vector<double>(count, 0),
                .variances = std::vector<double>(count, 0),
                .steps = std::vector<Step>(count, 0),
                .exceptions = std::vector<std::uint8_t>(count, 0),
                .measured = std::vector<std::uint64_t>(count, kNoStep),
                .ahead = std::vector<double>(count),
                .exceptional = {},
                .slowest = {},
                .valid = std::vector<std::uint8_t>(count, 0),
                .changed = {}};
  for (const GpuId gpu : gpus_) index_.placed.push_back(gpu);
  for (std::size_t i = 0; i < std::min(gpus_.size(), count); ++i) {
    index_.ranks.emplace_back(gpus_[i], static_cast<std::uint32_t>(i));
  }
  std::sort(index_.ranks.begin(), index_.ranks.end());
}

bool JobWatch::fits_job(const JobInfo& job) const {
  return job.gpus == index_.placed && job.shares().size() == shares_.size() &&
         job.layout.pipeline == pipeline_ && job.layout.ranks_per_replica() == ranks_per_replica_ &&
         job.layout.replica_stride() == replica_stride_;
}

void JobWatch::follow_job(const JobInfo& job, Nanos now) {
  const bool moved = job.shares() != shares_;
  if (job.step != step_) {
    for (std::size_t signal = 0; signal < kSignals; ++signal) {
      StepSignals::compute_changes(before_, current_, signal, changes_[signal]);
    }
    for (std::size_t i = 0; i < ranks_.size(); ++i) ranks_[i].change = change_of(i);
    std::swap(before_, current_);
    current_.clear(ranks_.size());
    changed_step_ = step_;
    step_ = job.step;
    step_began_ = now;
  }
  if (!moved) return;
  // Other shares change load and waiting times, but not how fast a rank is.
  before_.clear(ranks_.size());
  shares_ = job.shares();
}

// ---- device and link signals ----------------------------------------------------------------

const JobWatch::RowRanks& JobWatch::ranks_of_rows(const std::vector<std::uint32_t>& gpus,
                                                  RowRanks& known) const {
  if (known.gpus == gpus) return known;
  known.gpus = gpus;
  known.ranks.clear();
  for (const std::uint32_t gpu : gpus) {
    const auto found = std::lower_bound(index_.ranks.begin(), index_.ranks.end(),
                                        std::pair<GpuId, std::uint32_t>{{gpu}, 0});
    const bool there = found != index_.ranks.end() && found->first == GpuId{gpu};
    known.ranks.push_back(there ? found->second : kNoRank);
  }
  known.in_order = known.ranks.size() == ranks_.size() && counts_up(known.ranks);
  return known;
}

void JobWatch::add_signal(std::size_t signal, const RowRanks& rows, const SampleColumn& column,
                          Nanos now) {
  const auto [least, most] = kSignalBounds[signal];
  // A sample that is older than the step tells of the step before.
  if (rows.in_order && column.ages.size() == 1 && signal != kLatency) {
    const bool is_new = now - column.ages[0] >= step_began_;
    if (is_new) current_.add_values(signal, column.values, least, most);
    return;
  }
  for (std::size_t row = 0; row < rows.ranks.size(); ++row) {
    const double value = column.values[row];
    const std::uint32_t rank = rows.ranks[row];
    if (rank == kNoRank || !usable(value, least, most)) continue;
    if (now - column.age(row) < step_began_) continue;
    current_.add(signal, rank, signal == kLatency ? std::log(value) : value);
  }
}

void JobWatch::add_devices(const SampleRows& rows, const SampleColumn& utilization,
                           const SampleColumn& memory_bandwidth, Nanos now) {
  const RowRanks& ranks = ranks_of_rows(rows.ids, index_.device_rows);
  add_signal(kLoad, ranks, utilization, now);
  add_signal(kMemoryBandwidth, ranks, memory_bandwidth, now);
}

void JobWatch::add_links(const SampleRows& rows, const SampleColumn& latency, Nanos now) {
  add_signal(kLatency, ranks_of_rows(rows.ids, index_.link_rows), latency, now);
}

void JobWatch::learn_from_samples() {
  if (noise_.update_noise()) estimates_.all_changed = true;
  signals_.update_weights();
  const SignalVector limits = signals_.noise_limits();
  bool all_small = true;
  for (std::size_t signal = 0; signal < kSignals; ++signal) {
    StepSignals::compute_large_changes(before_, current_, signal, limits(Eigen::Index(signal)),
                                       changes_[signal]);
    all_small = all_small && changes_[signal].small;
  }
  if (all_small && glances_.all_zero_at == step_) return;
  mark_unsettled(glances_.zero_hint_at.data(), step_, glances_.marks);
  for (std::size_t signal = 0; signal < kSignals; ++signal) {
    if (changes_[signal].small) continue;
    mark_changes(changes_[signal].values, limits(Eigen::Index(signal)), glances_.marks);
  }
  find_marked(glances_.marks, glances_.marked);
  for (const std::uint32_t rank : glances_.marked) update_hint(rank, limits);
  glances_.all_zero_at = all_small ? step_ : kNoStep;
}

/// A small change is given as 0, which tells as little.
void JobWatch::update_hint(std::size_t rank, const SignalVector& limits) {
  const SignalVector change = change_of(rank);
  const bool told = (change.cwiseAbs2().array() > limits.array()).any();
  glances_.zero_hint_at[rank] = told ? kNoStep : step_;
  const SignalModel::Hint hint = told ? signals_.hint(change) : SignalModel::Hint{};
  if (ranks_[rank].filter.hint(step_, hint.mean, hint.variance)) mark_changed(ranks_[rank]);
}

// ---- progress -------------------------------------------------------------------------------

void JobWatch::update_glance(std::size_t rank) {
  if (!ranks_[rank].seen) return;
  glances_.seen_steps[rank] = ranks_[rank].seen_step;
  glances_.next_done[rank] = ranks_[rank].seen_done + 1;
}

void JobWatch::add_ranks(const SampleRows& rows, const SampleColumn& done,
                         const SampleColumn& times, Nanos now) {
  // Without a pipeline, progress within a micro-batch counts, too.
  const bool in_order = rows.size() == ranks_.size() && counts_up(rows.ids);
  if (pipeline_ == 1 || !in_order) {
    for (std::size_t row = 0; row < rows.size(); ++row) add_rank(row, rows, done, times, now);
    return;
  }
  mark_news({.steps = rows.steps,
             .done = done.values,
             .seen_steps = glances_.seen_steps.data(),
             .next_done = glances_.next_done.data()},
            kRounding, glances_.marks);
  find_marked(glances_.marks, glances_.marked);
  for (const std::uint32_t row : glances_.marked) add_rank(row, rows, done, times, now);
}

void JobWatch::add_rank(std::size_t row, const SampleRows& rows, const SampleColumn& done,
                        const SampleColumn& times, Nanos now) {
  const std::uint32_t number = rows.ids[row];
  const Step step = rows.steps[row];
  if (number >= ranks_.size() || step > step_ + 1) return;
  Rank& rank = ranks_[number];
  const double limit = shares_[index_.replicas[number]];
  const double time = times.values[row];
  if (is_news(number, step, done.values[row], limit) && usable(time, kLeastTime, kMostTime)) {
    const bool of_last_step = rank.seen_done == 0 && step > 0;
    add_measurement(number, of_last_step ? step - 1 : step, time);
  }
  if (pipeline_ == 1) note_progress(rank, step, done.sample(row), now, limit);
}

/// True if a micro-batch was finished since the last look, so that its time is new. `count`:
/// micro-batches done, with fraction.
bool JobWatch::is_news(std::size_t number, Step step, double count, double limit) {
  Rank& rank = ranks_[number];
  const bool counted = usable(count, 0, kMostMicroBatches);
  const double done = counted ? std::floor(count + kRounding) : 0;
  if (rank.seen && std::pair(step, done) <= std::pair(rank.seen_step, rank.seen_done)) {
    return false;
  }
  // The last micro-batch of the previous step may be known at the start of a step.
  const bool known_already =
      done == 0 && rank.seen && step == rank.seen_step + 1 && rank.seen_done >= limit;
  const bool first_look = !rank.seen && done == 0;
  rank.seen = true;
  rank.seen_step = step;
  rank.seen_done = done;
  update_glance(number);
  return !known_already && !first_look;
}

void JobWatch::add_measurement(std::size_t number, Step step, double seconds) {
  Rank& rank = ranks_[number];
  SpeedFilter& filter = rank.filter;
  const double log_time = std::log(seconds);
  if (filter.is_known()) {
    if (step < filter.step()) return;
    const bool is_valid = estimates_.is_valid(number);  // mostly an estimate of a look before
    const SpeedFilter::Level level =
        is_valid ? estimates_.level_of(number) : filter.estimate(noise_).level;
    if (step == filter.step()) {
      if (filter.add_plausible(log_time, kMostLogRatio, level, noise_)) mark_changed(rank);
      return;
    }
    const double known = filter.predict_log_time(step, level);
    if (std::abs(log_time - known) > kMostLogRatio) return;
  }
  const auto surprise = filter.advance_to(step, noise_);
  if (surprise && surprise->step == changed_step_) {
    signals_.add_surprise(rank.change, surprise->error, surprise->variance);
  }
  filter.add_measurement(seconds, noise_);
  mark_changed(rank);
}

/// A rank that should have finished by now and has not is late before its time is known: since
/// it was first seen at work it has finished at most one more than the difference of the counts.
void JobWatch::note_progress(Rank& rank, Step step, const Sample<double>& progress, Nanos now,
                             double limit) {
  const double done = progress.value;
  if (!progress.is_known() || !(done > 0) || done >= limit || progress.age < 0) return;
  const Nanos when = now - progress.age;
  if (rank.started_at == kNever || rank.started_step != step) {
    rank.started_step = step;
    rank.started_at = when;
    rank.started_done = done;
    return;
  }
  const double finished = std::max(done - rank.started_done, 0.0) + 1;
  const double seconds = to_seconds(when - rank.started_at) / finished;
  if (seconds <= kLeastTime || seconds >= kMostTime) return;
  if (rank.filter.at_least(step, seconds, noise_)) mark_changed(rank);
}

bool JobWatch::is_surprised_by(const RankSummary& summary) const {
  const auto surprises = [&](const RankSample& sample) {
    if (sample.job != job_ || sample.rank.value >= ranks_.size()) return false;
    const Sample<double>& time = sample.micro_batch_time;
    if (!time.is_known() || !usable(time.value, kLeastTime, kMostTime)) return false;
    const SpeedFilter& filter = ranks_[sample.rank.value].filter;
    if (!filter.is_known()) return false;  // learned with the others at the step's end
    const SpeedFilter::Prediction due = filter.predict_step(step_, noise_);
    const double doubt = std::max(due.deviation, summary.deviation);
    const double late = std::log(sample.micro_batch_time.value) - due.log_time;
    return late > std::max(kLeastSurprise, kSurprising * doubt);
  };
  return std::any_of(summary.latest.begin(), summary.latest.end(), surprises);
}

// ---- what comes of it -----------------------------------------------------------------------

void JobWatch::refresh_estimate(std::size_t rank) const {
  const SpeedFilter& filter = ranks_[rank].filter;
  estimates_.valid[rank] = 1;
  if (!filter.is_known()) return;
  const SpeedFilter::Estimate now = filter.estimate(noise_);
  estimates_.log_times[rank] = now.level.log_time;
  estimates_.log_time_variances[rank] = now.level.variance;
  estimates_.slopes[rank] = now.level.slope;
  estimates_.variances[rank] = now.slope_variance;
  estimates_.steps[rank] = now.step;
  estimates_.exceptions[rank] = now.decides_alone ? 0 : 1;
  estimates_.measured[rank] = filter.is_doubtful() ? 0 : filter.steps_measured() + 1;
}

void JobWatch::refresh_estimates() const {
  if (estimates_.all_changed) {
    for (std::size_t i = 0; i < ranks_.size(); ++i) refresh_estimate(i);
  } else {
    for (const std::uint32_t rank : estimates_.changed) refresh_estimate(rank);
  }
  estimates_.changed.clear();
  estimates_.all_changed = false;
}

namespace {

/// Number of steps up to `target`, with the sum of slopes over them.
class StepsAhead {
 public:
  explicit StepsAhead(Step target) : target_(target) {}
  /// Returns the multiple of the slope by which a log time of `step` changes up to the target.
  double slopes_from(Step step) {
    const Step own = target_ - std::min(target_, step);
    if (own != ahead_) {
      ahead_ = own;
      slopes_ = SpeedFilter::slopes_over(ahead_);
    }
    return slopes_;
  }

 private:
  Step target_, ahead_ = 0;
  double slopes_ = SpeedFilter::slopes_over(0);
};

}  // namespace

void JobWatch::forecast_ranks(Step target) const {
  StepsAhead steps(target);
  std::vector<double>& ahead = estimates_.ahead;
  if (are_equal(estimates_.steps) && !ahead.empty()) {
    extrapolate(estimates_.log_times, estimates_.slopes.data(),
                steps.slopes_from(estimates_.steps[0]), ahead);
  } else {
    for (std::size_t i = 0; i < ahead.size(); ++i) {
      ahead[i] =
          estimates_.log_times[i] + steps.slopes_from(estimates_.steps[i]) * estimates_.slopes[i];
    }
  }
  find_marked(estimates_.exceptions, estimates_.exceptional);
  for (const std::uint32_t rank : estimates_.exceptional) {
    ahead[rank] = ranks_[rank].filter.predict_log_time(target, estimates_.level_of(rank));
  }
}

std::vector<ReplicaForecast> JobWatch::forecast(Step target) const {
  refresh_estimates();
  forecast_ranks(target);
  std::vector<ReplicaForecast> out(shares_.size());
  if (out.empty()) return out;
  const std::vector<double>& ahead = estimates_.ahead;
  find_largest(ahead, std::max<std::size_t>(replica_stride_, 1), estimates_.slowest);
  for (const std::uint32_t rank : estimates_.slowest) {
    ReplicaForecast& slowest = out[index_.replicas[rank]];
    const double log_time = ahead[rank];
    const bool is_slower = slowest.known ? log_time > slowest.log_time : !std::isnan(log_time);
    if (is_slower) slowest = {log_time, 0, rank, true};
  }
  return out;
}

void JobWatch::add_deviations(Step target, std::vector<ReplicaForecast>& replicas) const {
  for (ReplicaForecast& replica : replicas) {
    if (!replica.known) continue;
    replica.deviation = ranks_[replica.rank].filter.predict_step(target, noise_).deviation;
  }
}

bool JobWatch::knows_more_soon(std::uint32_t rank) const {
  if (!ranks_[rank].filter.is_bounded()) return false;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    // The last micro-batch does not count: noise may hide that it is done.
    const bool through =
        ranks_[i].seen_step == step_ && ranks_[i].seen_done + 1 >= shares_[index_.replicas[i]];
    if (index_.replicas[i] != index_.replicas[rank] && !through) return true;
  }
  return false;
}

bool JobWatch::has_measured(std::uint64_t steps) const {
  refresh_estimates();
  const std::uint64_t least = least_of(estimates_.measured);
  return least > steps && least != kNoStep;
}

bool JobWatch::is_drifting(Step target, double change, double confidence) const {
  refresh_estimates();
  const Slopes slopes{.log_times = estimates_.log_times,
                      .slopes = estimates_.slopes.data(),
                      .variances = estimates_.variances.data(),
                      .steps = estimates_.steps.data()};
  return is_any_steep(slopes, target, change, confidence);
}

}  // namespace orrery
