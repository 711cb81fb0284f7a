#include "sim/forecast/choice_guard.hpp"

#include <algorithm>
#include <utility>

#include "traces/jobs/slowdown.hpp"

namespace orrery::sim {

ChoiceGuard::ChoiceGuard(JobReplay first, QueueGoal goal, FutureOptions futures)
    : first_(std::move(first)), goal_(goal), futures_([&futures] {
        futures.most_arrivals = 0;
        return futures;
      }()) {}

// ---- the record -----------------------------------------------------------------------------

void ChoiceGuard::begin(const Observation& seen) {
  end();
  from_.emplace(seen);
  for (std::size_t i = 0; i < from_->jobs().size(); ++i) {
    open_[from_->jobs()[i].known_as] = i;
    jobs_.push_back(
        {.spec = from_->spec(i), .begin = seen.now, .before = from_->jobs()[i].served});
  }
}

void ChoiceGuard::end() {
  from_.reset();
  jobs_.clear();
  open_.clear();
  changes_.parts.clear();
}

void ChoiceGuard::record_events(const Observation& seen) {
  for (const Event& event : seen.events) {
    if (const auto* change = std::get_if<PartChanged>(&event)) {
      changes_.parts.emplace_back(seen.now, *change);
    } else if (const auto* submitted = std::get_if<JobSubmitted>(&event)) {
      open_[submitted->job.id] = jobs_.size();
      jobs_.push_back({.spec = submitted->job, .begin = seen.now});
    } else if (const auto* done = std::get_if<JobDone>(&event)) {
      const auto open = open_.extract(done->job);
      if (!open) continue;
      Job& job = jobs_[open.mapped()];
      job.whole = to_nanos(seen.jobs[done->job].gpu_seconds / std::max(1u, job.spec.gpus));
      job.end = seen.now;
    }
  }
}

// ---- the comparison -------------------------------------------------------------------------

/// Returns the goal of one job; `end` is at most the end of the future.
double ChoiceGuard::cost_of(const Job& job, Nanos whole, Nanos end, Nanos waited) const {
  if (goal_ == QueueGoal::wait) return to_seconds(waited);
  if (goal_ == QueueGoal::jct) return to_seconds(end - job.begin);
  return bounded_slowdown(end - job.spec.submit, whole);
}

/// Returns the sum of the goal over the realised course, continued under the first policy.
double ChoiceGuard::realised_sum(const QueueSnapshot& now, const std::vector<Nanos>& left,
                                 const std::vector<Nanos>& whole, Nanos until) const {
  double sum = 0;
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    const Job& job = jobs_[i];
    if (job.end == kNever) continue;
    const Nanos waited = job.end - job.begin - (job.whole - job.before);
    sum += cost_of(job, whole[i], job.end, std::max<Nanos>(waited, 0));
  }
  ForkedQueue rest(now, left, {}, until, {}, FirstEvents::one);
  run_future(rest, *resumed_policy(first_));
  for (std::size_t i = 0; i < now.jobs().size(); ++i) {
    const std::size_t index = open_.at(now.jobs()[i].known_as);
    const Job& job = jobs_[index];
    const Nanos before = now.now() - job.begin - (now.jobs()[i].served - job.before);
    sum += cost_of(job, whole[index], std::min(rest.jobs()[i].end, until),
                   std::max<Nanos>(before, 0) + rest.jobs()[i].waited);
  }
  return sum;
}

/// Returns the sum of the goal over the course under the first policy.
double ChoiceGuard::first_sum(const std::vector<Nanos>& whole, Nanos until) const {
  const std::size_t known = from_->jobs().size();
  std::vector<Nanos> left;
  std::vector<LaterJob> later;
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    const Job& job = jobs_[i];
    if (i < known) {
      left.push_back(std::max<Nanos>(whole[i] - job.before, 1));
      continue;
    }
    LaterJob& arrival = later.emplace_back();
    arrival.spec = job.spec;
    arrival.seen = job.begin;
    const bool has_run = job.end == kNever || whole[i] > 0;
    arrival.duration = has_run ? whole[i] : kNever;
    if (!has_run) arrival.leaves = job.end;  // cancelled before its start
  }
  ForkedQueue course(*from_, left, later, until, changes_, FirstEvents::one);
  run_future(course, *resumed_policy(first_));
  double sum = 0;
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    const ForkedJob& job = course.jobs()[i];
    sum += cost_of(jobs_[i], whole[i], std::min(job.end, until), job.waited);
  }
  return sum;
}

ChoiceGuard::Means ChoiceGuard::compare_means(const Observation& seen,
                                              const QueueLearner& learner) const {
  const QueueSnapshot now(seen);
  const Nanos until = seen.now + futures_.rest;
  Means means;
  const std::vector<FutureDraw> draws = draw_futures(now, learner, futures_);
  for (const FutureDraw& draw : draws) {
    std::vector<Nanos> whole;
    for (const Job& job : jobs_) whole.push_back(job.whole);
    for (std::size_t i = 0; i < now.jobs().size(); ++i) {
      whole[open_.at(now.jobs()[i].known_as)] = now.jobs()[i].served + draw.left[i];
    }
    means.realised += realised_sum(now, draw.left, whole, until);
    means.first += first_sum(whole, until);
  }
  const double count = static_cast<double>(std::max<std::size_t>(jobs_.size() * draws.size(), 1));
  return {means.realised / count, means.first / count};
}

}  // namespace orrery::sim
