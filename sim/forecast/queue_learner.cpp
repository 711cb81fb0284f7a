#include "sim/forecast/queue_learner.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace orrery::sim {
namespace {

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double log_factor(double estimate_s, double duration_s) {
  return std::abs(std::log(std::max(estimate_s, 1.0) / std::max(duration_s, 1.0)));
}

}  // namespace

JobColumns columns_of_spec(const JobSpec& job) {
  return {.gpus = job.gpus, .user = job.user, .pool = job.pool};
}

JobColumns columns_of_request(const JobSpec& job) {
  JobColumns columns = columns_of_spec(job);
  columns.name = job.title;
  columns.limit_s = job.estimate / kNanosPerSecond;
  return columns;
}

ColumnsOf columns_of_log(const std::vector<TraceJob>& log) {
  struct More {
    Label name;
    std::int64_t limit_s;
  };
  auto more = std::make_shared<std::map<std::string, More>>();
  for (const TraceJob& job : log) more->try_emplace(job.id.str(), More{job.name, job.requested_s});
  return [more](const JobSpec& job) {
    JobColumns columns = columns_of_spec(job);
    if (const auto found = more->find(job.name); found != more->end()) {
      columns.name = found->second.name;
      columns.limit_s = found->second.limit_s;
    }
    return columns;
  };
}

void QueueLearner::learn_from(const Observation& seen) {
  for (const Event& event : seen.events) {
    if (const auto* done = std::get_if<JobDone>(&event)) add_end(seen.jobs[done->job], done->ran);
    if (const auto* submitted = std::get_if<JobSubmitted>(&event)) add_arrival(submitted->job);
  }
}

void QueueLearner::learn_from_running(const QueueSnapshot& now) {
  std::vector<std::pair<JobColumns, double>> running;
  for (std::size_t job = 0; job < now.jobs().size(); ++job) {
    const Nanos served = now.jobs()[job].served;
    if (served > 0) running.emplace_back(columns_(now.spec(job)), to_seconds(served));
  }
  durations_.set_running(running);
  for (Drawn& each : drawn_) each = {};
}

void QueueLearner::add_arrival(const JobSpec& job) {
  open_[job.id] = durations_.medians(columns_(job));
  const Nanos gap = newest_arrival_ < 0 ? 0 : std::max<Nanos>(0, job.submit - newest_arrival_);
  newest_arrival_ = job.submit;
  if (arrivals_.size() < kArrivals) {
    arrivals_.push_back({job, gap});
    drawn_.emplace_back();
    return;
  }
  arrivals_[oldest_] = {job, gap};
  drawn_[oldest_] = {};
  oldest_ = (oldest_ + 1) % kArrivals;
}

/// `ran`: as in JobDone.
void QueueLearner::add_end(const JobInfo& job, Nanos ran) {
  const double seen_s = job.gpu_seconds / std::max(1u, job.spec.gpus);
  const double duration_s = ran > 0 ? to_seconds(ran) : seen_s;
  const auto open = open_.extract(job.spec.id);
  if (duration_s <= 0) return;  // the job never ran
  durations_.record_end(columns_(job.spec), duration_s);
  for (Drawn& each : drawn_) each = {};
  if (open) ended_.push_back({job.spec.submit, open.mapped(), duration_s});
}

DurationDistribution QueueLearner::duration_of(const JobSpec& job, Nanos served) const {
  return durations_.of(columns_(job), to_seconds(served));
}

double QueueLearner::duration_of_arrival(std::size_t index, double u,
                                         PossibleDurations* possible) const {
  Drawn& drawn = drawn_[index];
  const JobSpec& spec = arrivals_[index].spec;
  if (possible == nullptr) {
    if (!drawn.duration) drawn.duration = duration_of(spec, 0);
    return drawn.duration->quantile(u);
  }
  if (!drawn.kinds) drawn.kinds = kinds_for(spec);
  return possible->draw_duration(*drawn.kinds, 0, u);
}

std::vector<LaterJob> QueueLearner::draw_arrivals(Nanos from, Nanos until, std::size_t most,
                                                  Rng& rng, PossibleDurations* possible) const {
  std::vector<LaterJob> drawn;
  if (arrivals_.size() < kLeastArrivals) return drawn;
  for (Nanos at = from; drawn.size() < most;) {
    const std::size_t index = rng.below(arrivals_.size());
    const Arrival& like = arrivals_[index];
    at += like.gap;
    if (at > until) break;
    LaterJob job{.spec = like.spec,
                 .duration = to_nanos(duration_of_arrival(index, rng.uniform(), possible))};
    job.spec.submit = at;
    drawn.push_back(std::move(job));
  }
  return drawn;
}

DurationAccuracy QueueLearner::accuracy(Nanos begin, Nanos end) const {
  DurationAccuracy out;
  std::vector<double> model, by_size;
  for (const Estimated& job : ended_) {
    if (job.submit < begin || job.submit >= end) continue;
    model.push_back(log_factor(job.medians.model_s, job.duration_s));
    by_size.push_back(log_factor(job.medians.by_size_s, job.duration_s));
    out.model_mean_log += model.back();
    out.by_size_mean_log += by_size.back();
  }
  out.jobs = model.size();
  if (model.empty()) return out;
  out.model_mean_log /= static_cast<double>(out.jobs);
  out.by_size_mean_log /= static_cast<double>(out.jobs);
  out.model_median = std::exp(median_of(std::move(model)));
  out.by_size_median = std::exp(median_of(std::move(by_size)));
  return out;
}

}  // namespace orrery::sim
