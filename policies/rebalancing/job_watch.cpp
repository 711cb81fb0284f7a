#include "policies/rebalancing/job_watch.hpp"

#include <algorithm>
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

bool usable(const Sample<double>& sample, double least, double most) {
  return sample.is_known() && std::isfinite(sample.value) && sample.value >= least &&
         sample.value <= most;
}

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
  index_gpus();
}

void JobWatch::index_gpus() {
  rank_on_gpu_.clear();
  for (std::size_t i = 0; i < std::min(gpus_.size(), ranks_.size()); ++i) {
    rank_on_gpu_.emplace_back(gpus_[i], static_cast<std::uint32_t>(i));
  }
  std::sort(rank_on_gpu_.begin(), rank_on_gpu_.end());
}

bool JobWatch::fits_job(const JobInfo& job) const {
  return std::equal(job.gpus.begin(), job.gpus.end(), gpus_.begin(), gpus_.end()) &&
         job.shares().size() == shares_.size() &&
         job.layout.pipeline == pipeline_ &&
         job.layout.ranks_per_replica() == ranks_per_replica_ &&
         job.layout.replica_stride() == replica_stride_;
}

void JobWatch::follow_job(const JobInfo& job, Nanos now) {
  const bool moved = job.shares() != shares_;
  if (job.step != step_) {
    const std::vector<SignalVector> ended = signal_changes();
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      ranks_[i].change = ended[i];
      ranks_[i].before = ranks_[i].current;
      ranks_[i].current = {};
    }
    changed_step_ = step_;
    step_ = job.step;
    step_began_ = now;
  }
  if (!moved) return;
  // Other shares change load and waiting times, but not how fast a rank is.
  for (Rank& rank : ranks_) rank.before = {};
  shares_ = job.shares();
}

// ---- device and link signals ----------------------------------------------------------------

JobWatch::Rank* JobWatch::rank_on(GpuId gpu) {
  const auto found = std::lower_bound(rank_on_gpu_.begin(), rank_on_gpu_.end(),
                                      std::pair<GpuId, std::uint32_t>{gpu, 0});
  if (found == rank_on_gpu_.end() || found->first != gpu) return nullptr;
  return &ranks_[found->second];
}

void JobWatch::add_signal(GpuId gpu, std::size_t signal, const Sample<double>& sample,
                          Nanos now) {
  if (now - sample.age < step_began_) return;  // tells of the step before
  if (Rank* rank = rank_on(gpu)) rank->current.add(signal, sample.value);
}

void JobWatch::add_sample(const DeviceSample& sample, Nanos now) {
  if (usable(sample.utilization, 0, 1.5)) add_signal(sample.gpu, 0, sample.utilization, now);
  if (usable(sample.memory_bandwidth, 0, 1.5)) {
    add_signal(sample.gpu, 1, sample.memory_bandwidth, now);
  }
}

void JobWatch::add_sample(const LinkSample& sample, Nanos now) {
  Sample<double> latency = sample.latency;
  if (!usable(latency, 1e-12, 1e3)) return;
  latency.value = std::log(latency.value);
  add_signal(sample.from, 2, latency, now);
}

/// Returns the changes of each rank's signals since the previous step, minus those of the median
/// rank: when one rank is late, all others wait, and their signals say nothing about them.
std::vector<SignalVector> JobWatch::signal_changes() const {
  std::vector<SignalVector> out(ranks_.size(), SignalVector::Zero());
  std::vector<double> known;
  for (std::size_t signal = 0; signal < kSignals; ++signal) {
    const auto index = static_cast<Eigen::Index>(signal);
    known.clear();
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const Rank& rank = ranks_[i];
      if (!rank.before.has(signal) || !rank.current.has(signal)) continue;
      out[i](index) = rank.current.mean(signal) - rank.before.mean(signal);
      known.push_back(out[i](index));
    }
    const double common = median(known);
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const Rank& rank = ranks_[i];
      if (!rank.before.has(signal) || !rank.current.has(signal)) continue;
      out[i](index) = std::clamp(out[i](index) - common, -1.0, 1.0);
    }
  }
  return out;
}

void JobWatch::learn_from_samples() {
  noise_.update_noise();
  signals_.update_weights();
  const std::vector<SignalVector> now = signal_changes();
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const SignalModel::Hint hint = signals_.hint(now[i]);
    ranks_[i].filter.hint(step_, hint.mean, hint.variance);
  }
}

// ---- progress -------------------------------------------------------------------------------

void JobWatch::add_sample(const RankSample& sample, Nanos now) {
  if (sample.job != job_ || sample.rank.value >= ranks_.size()) return;
  if (sample.step > step_ + 1) return;
  Rank& rank = ranks_[sample.rank.value];
  const double limit = shares_[replica_of(sample.rank.value)];
  const bool news = is_news(rank, sample, limit);
  if (news && usable(sample.micro_batch_time, kLeastTime, kMostTime)) {
    const bool of_last_step = rank.seen_done == 0 && sample.step > 0;
    add_measurement(rank, of_last_step ? sample.step - 1 : sample.step,
                    sample.micro_batch_time.value);
  }
  note_progress(rank, sample, now, limit);
}

/// True if a micro-batch was finished since the last look, so that its time is new.
bool JobWatch::is_news(Rank& rank, const RankSample& sample, double limit) {
  const bool counted = usable(sample.micro_batches_done, 0, kMostMicroBatches);
  const double done = counted ? std::floor(sample.micro_batches_done.value + kRounding) : 0;
  if (rank.seen && std::pair(sample.step, done) <= std::pair(rank.seen_step, rank.seen_done)) {
    return false;
  }
  // The last micro-batch of the previous step may be known at the start of a step.
  const bool known_already = done == 0 && rank.seen && sample.step == rank.seen_step + 1 &&
                             rank.seen_done >= limit;
  const bool first_look = !rank.seen && done == 0;
  rank.seen = true;
  rank.seen_step = sample.step;
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
}

/// A rank that should have finished by now and has not is late before its time is known: since
/// it was first seen at work it has finished at most one more than the difference of the counts.
void JobWatch::note_progress(Rank& rank, const RankSample& sample, Nanos now, double limit) {
  if (pipeline_ > 1 || !usable(sample.micro_batches_done, 0, limit)) return;
  const double done = sample.micro_batches_done.value;
  if (done == 0 || done >= limit || sample.micro_batches_done.age < 0) return;
  const Nanos when = now - sample.micro_batches_done.age;
  if (rank.started_at == kNever || rank.started_step != sample.step) {
    rank.started_step = sample.step;
    rank.started_at = when;
    rank.started_done = done;
    return;
  }
  const double finished = std::max(done - rank.started_done, 0.0) + 1;
  const double seconds = to_seconds(when - rank.started_at) / finished;
  if (seconds > kLeastTime && seconds < kMostTime) {
    rank.filter.at_least(sample.step, seconds, noise_);
  }
}

bool JobWatch::is_surprised_by(const RankSummary& summary) const {
  const auto surprises = [&](const RankSample& sample) {
    if (sample.job != job_ || sample.rank.value >= ranks_.size()) return false;
    if (!usable(sample.micro_batch_time, kLeastTime, kMostTime)) return false;
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

std::vector<ReplicaForecast> JobWatch::forecast(Step target) const {
  std::vector<ReplicaForecast> out(shares_.size());
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const SpeedFilter& filter = ranks_[i].filter;
    if (!filter.is_known()) continue;
    const SpeedFilter::Prediction due = filter.predict_step(target, noise_);
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
  for (const Rank& rank : ranks_) {
    if (!rank.filter.is_known()) continue;
    const SpeedFilter::Trend trend = rank.filter.trend(noise_);
    const double slope = std::abs(trend.slope);
    const auto ahead = static_cast<double>(target - std::min(target, rank.filter.step()));
    if (slope > confidence * trend.deviation && slope * ahead > change) return true;
  }
  return false;
}

}  // namespace orrery
