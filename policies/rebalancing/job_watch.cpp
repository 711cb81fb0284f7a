#include "policies/rebalancing/job_watch.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace orrery {
namespace {

/// Limits of a plausible micro-batch time, absolute and relative to the known one.
constexpr double kLeastTime = 1e-9, kMostTime = 1e6;
constexpr double kMostRatio = 2000;
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

/// The lower median; `values` is reordered. 0 without values.
double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

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
  clear_means(before_);
  clear_means(current_);
  index_gpus();
  forget_forecasts();
}

void JobWatch::forget_forecasts() {
  filter_versions_.assign(ranks_.size(), 0);
  forecasts_ = {};
  trends_ = {};
}

void JobWatch::index_gpus() {
  index_ = {};
  for (const GpuId gpu : gpus_) index_.placed.push_back(gpu);
  for (std::size_t i = 0; i < std::min(gpus_.size(), ranks_.size()); ++i) {
    index_.ranks.emplace_back(gpus_[i], static_cast<std::uint32_t>(i));
  }
  std::sort(index_.ranks.begin(), index_.ranks.end());
}

bool JobWatch::fits_job(const JobInfo& job) const {
  return job.gpus == index_.placed &&
         job.shares().size() == shares_.size() &&
         job.layout.pipeline == pipeline_ &&
         job.layout.ranks_per_replica() == ranks_per_replica_ &&
         job.layout.replica_stride() == replica_stride_;
}

void JobWatch::follow_job(const JobInfo& job, Nanos now) {
  const bool moved = job.shares() != shares_;
  if (job.step != step_) {
    const std::vector<SignalVector> ended = signal_changes();
    for (std::size_t i = 0; i < ranks_.size(); ++i) ranks_[i].change = ended[i];
    std::swap(before_, current_);
    clear_means(current_);
    changed_step_ = step_;
    step_ = job.step;
    step_began_ = now;
  }
  if (!moved) return;
  // Other shares change load and waiting times, but not how fast a rank is.
  clear_means(before_);
  shares_ = job.shares();
}

// ---- device and link signals ----------------------------------------------------------------

void JobWatch::clear_means(StepSignals& means) const {
  for (SignalMeans& each : means) {
    each.sum.assign(ranks_.size(), 0);
    each.count.assign(ranks_.size(), 0);
  }
}

const std::vector<std::uint32_t>& JobWatch::ranks_of_rows(const std::vector<std::uint32_t>& gpus,
                                                          RowRanks& known) const {
  if (known.gpus == gpus) return known.ranks;
  known.gpus = gpus;
  known.ranks.clear();
  for (const std::uint32_t gpu : gpus) {
    const auto found = std::lower_bound(index_.ranks.begin(), index_.ranks.end(),
                                        std::pair<GpuId, std::uint32_t>{{gpu}, 0});
    const bool there = found != index_.ranks.end() && found->first == GpuId{gpu};
    known.ranks.push_back(there ? found->second : kNoRank);
  }
  return known.ranks;
}

void JobWatch::add_signal(std::size_t signal, const std::vector<std::uint32_t>& ranks,
                          const SampleColumn& column, Nanos now) {
  SignalMeans& means = current_[signal];
  const auto [least, most] = kSignalBounds[signal];
  for (std::size_t row = 0; row < ranks.size(); ++row) {
    const double value = column.values[row];
    const std::uint32_t rank = ranks[row];
    if (rank == kNoRank || !usable(value, least, most)) continue;
    if (now - column.age(row) < step_began_) continue;  // tells of the step before
    means.sum[rank] += signal == kLatency ? std::log(value) : value;
    means.count[rank] += 1;
  }
}

void JobWatch::add_devices(const SampleRows& rows, const SampleColumn& utilization,
                           const SampleColumn& memory_bandwidth, Nanos now) {
  const std::vector<std::uint32_t>& ranks = ranks_of_rows(rows.ids, index_.device_rows);
  add_signal(kLoad, ranks, utilization, now);
  add_signal(kMemoryBandwidth, ranks, memory_bandwidth, now);
}

void JobWatch::add_links(const SampleRows& rows, const SampleColumn& latency, Nanos now) {
  add_signal(kLatency, ranks_of_rows(rows.ids, index_.link_rows), latency, now);
}

/// Returns the changes of each rank's signals since the previous step, minus those of the median
/// rank: when one rank is late, all others wait, and their signals say nothing about them.
std::vector<SignalVector> JobWatch::signal_changes() const {
  std::vector<SignalVector> out(ranks_.size(), SignalVector::Zero());
  std::vector<double> known;
  for (std::size_t signal = 0; signal < kSignals; ++signal) {
    const auto index = static_cast<Eigen::Index>(signal);
    const SignalMeans &before = before_[signal], &current = current_[signal];
    known.clear();
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (!before.has(i) || !current.has(i)) continue;
      out[i](index) = current.mean(i) - before.mean(i);
      known.push_back(out[i](index));
    }
    if (known.empty()) continue;
    const double common = median(known);
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (!before.has(i) || !current.has(i)) continue;
      out[i](index) = std::clamp(out[i](index) - common, -1.0, 1.0);
    }
  }
  return out;
}

void JobWatch::learn_from_samples() {
  if (noise_.update_noise()) ++noise_version_;
  signals_.update_weights();
  const std::vector<SignalVector> now = signal_changes();
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const SignalModel::Hint hint = signals_.hint(now[i]);
    if (ranks_[i].filter.hint(step_, hint.mean, hint.variance)) mark_changed(ranks_[i]);
  }
}

// ---- progress -------------------------------------------------------------------------------

void JobWatch::add_ranks(const SampleRows& rows, const SampleColumn& done,
                         const SampleColumn& times, Nanos now) {
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::uint32_t number = rows.ids[row];
    const Step step = rows.steps[row];
    if (number >= ranks_.size() || step > step_ + 1) continue;
    Rank& rank = ranks_[number];
    const double limit = shares_[replica_of(number)];
    const double time = times.values[row];
    if (is_news(rank, step, done.values[row], limit) && usable(time, kLeastTime, kMostTime)) {
      const bool of_last_step = rank.seen_done == 0 && step > 0;
      add_measurement(rank, of_last_step ? step - 1 : step, time);
    }
    if (pipeline_ == 1) note_progress(rank, step, done.sample(row), now, limit);
  }
}

/// True if a micro-batch was finished since the last look, so that its time is new. `count`:
/// micro-batches done, with fraction.
bool JobWatch::is_news(Rank& rank, Step step, double count, double limit) {
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
  return !known_already && !first_look;
}

void JobWatch::add_measurement(Rank& rank, Step step, double seconds) {
  SpeedFilter& filter = rank.filter;
  if (filter.is_known()) {
    if (step < filter.step()) return;
    const double known = filter.predict_step(step, noise_).log_time;
    if (std::abs(std::log(seconds) - known) > std::log(kMostRatio)) return;
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

template <class Result, class Compute>
void JobWatch::refresh_results(Results<Result>& known, Step target, const Compute& compute) const {
  const bool all = known.target != target || known.noise_version != noise_version_;
  if (all) {
    known.target = target;
    known.noise_version = noise_version_;
    known.versions.assign(ranks_.size(), 0);
    known.values.assign(ranks_.size(), {});
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (!all && known.versions[i] == filter_versions_[i]) continue;
    known.versions[i] = filter_versions_[i];
    if (ranks_[i].filter.is_known()) known.values[i] = compute(ranks_[i].filter);
  }
}

std::vector<ReplicaForecast> JobWatch::forecast(Step target) const {
  if (forecasts_[0].target != target) std::swap(forecasts_[0], forecasts_[1]);
  refresh_results(forecasts_[0], target, [&](const SpeedFilter& filter) {
    return filter.predict_step(target, noise_);
  });
  std::vector<ReplicaForecast> out(shares_.size());
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (!ranks_[i].filter.is_known()) continue;
    const SpeedFilter::Prediction& due = forecasts_[0].values[i];
    ReplicaForecast& replica = out[replica_of(i)];
    if (replica.known && due.log_time <= replica.log_time) continue;
    replica = {due.log_time, due.deviation, static_cast<std::uint32_t>(i), true};
  }
  return out;
}

bool JobWatch::knows_more_soon(std::uint32_t rank) const {
  if (!ranks_[rank].filter.is_bounded()) return false;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    // The last micro-batch does not count: noise may hide that it is done.
    const bool through = ranks_[i].seen_step == step_ &&
                         ranks_[i].seen_done + 1 >= shares_[replica_of(i)];
    if (replica_of(i) != replica_of(rank) && !through) return true;
  }
  return false;
}

bool JobWatch::has_measured(std::uint64_t steps) const {
  bool any = false;
  for (const Rank& rank : ranks_) {
    if (!rank.filter.is_known()) continue;
    if (rank.filter.steps_measured() < steps || rank.filter.is_doubtful()) return false;
    any = true;
  }
  return any;
}

bool JobWatch::is_drifting(Step target, double change, double confidence) const {
  refresh_results(trends_, 0, [&](const SpeedFilter& filter) { return filter.trend(noise_); });
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const SpeedFilter& filter = ranks_[i].filter;
    if (!filter.is_known()) continue;
    const SpeedFilter::Trend& trend = trends_.values[i];
    const double slope = std::abs(trend.slope);
    const auto ahead = static_cast<double>(target - std::min(target, filter.step()));
    if (slope > confidence * trend.deviation && slope * ahead > change) return true;
  }
  return false;
}

}  // namespace orrery
