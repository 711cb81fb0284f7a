#include "sim/forecast/forked_queue.hpp"

#include <algorithm>
#include <utility>

namespace orrery::sim {

ForkedQueue::ForkedQueue(const QueueSnapshot& from, const std::vector<Nanos>& left,
                         std::vector<LaterJob> later, Nanos until)
    : world_(from.world()),
      gate_(world_, {Kinds<Action>::of<Assign>(), {}}, *this),
      later_(std::move(later)),
      until_(until),
      jobs_(from.jobs().size()),
      now_(from.now()) {
  for (std::uint32_t id = 0; id < jobs_.size(); ++id) {
    ForkedJob& job = jobs_[id];
    job.left = left[id];
    job.since = now_;
    job.is_running = from.jobs()[id].is_running;
    events_.push_back(JobSubmitted{from.spec(id)});
    if (!job.is_running) continue;
    job.start = now_;
    expect_end(id);
  }
}

// ---- decisions ------------------------------------------------------------------------------

std::string ForkedQueue::refusal(const Decision& decision) const {
  const auto* assign = std::get_if<Assign>(&decision.what);
  if (assign == nullptr) return "a job of a queue has nothing to set and nothing to save";
  const JobInfo* const job = world_.jobs().find(assign->job);
  const bool moved = job != nullptr && job->is_placed() && !assign->is_release();
  return moved ? "a job stays where it was started until it leaves" : "";
}

void ForkedQueue::emit_event(Event event) {
  world_.apply(event, now_);
  events_.push_back(std::move(event));
}

void ForkedQueue::apply(const DecisionList& decisions) {
  world_.begin_batch();
  gate_.accept_decisions(decisions, now_);
}

void ForkedQueue::carry_out(const Decision& decision) {
  const Assign& assign = std::get<Assign>(decision.what);
  const std::uint32_t id = assign.job.value;
  ForkedJob& job = jobs_[id];
  const Nanos passed = now_ - std::exchange(job.since, now_);
  ++job.moves;
  job.is_running = !assign.is_release();
  if (assign.is_release()) {
    job.left -= passed;
    return emit_event(JobStopped{assign.job, 0});
  }
  job.waited += passed;
  job.start = std::min(job.start, now_);
  expect_end(id);
  const Epoch epoch{world_.jobs()[assign.job].epoch.value + 1};
  emit_event(JobStarted{
      .job = assign.job, .epoch = epoch, .from = 0, .where = {assign.gpus, assign.layout}});
}

// ---- time -----------------------------------------------------------------------------------

void ForkedQueue::expect_end(std::uint32_t id) {
  const Nanos left = std::min(jobs_[id].left, kNever - 1 - now_);
  ends_.push({now_ + left, id, jobs_[id].moves});
}

void ForkedQueue::end_jobs() {
  while (!ends_.empty() && ends_.top().at <= now_) {
    const End end = ends_.top();
    ends_.pop();
    ForkedJob& job = jobs_[end.job];
    if (job.moves != end.move) continue;
    job.end = now_;
    job.is_running = false;
    ++job.moves;
    emit_event(JobDone{{end.job}, Ending::completed});
  }
}

void ForkedQueue::submit_jobs() {
  for (; arrived_ < later_.size() && later_[arrived_].spec.submit <= now_; ++arrived_) {
    JobSpec spec = later_[arrived_].spec;
    spec.id = {static_cast<std::uint32_t>(jobs_.size())};
    jobs_.push_back({.left = later_[arrived_].duration, .since = now_});
    emit_event(JobSubmitted{std::move(spec)});
  }
}

/// Advances until an event must be shown; returns false at the end of the future.
bool ForkedQueue::advance_clock() {
  while (events_.empty()) {
    Nanos stop = gate_.next_wake();
    if (!ends_.empty()) stop = std::min(stop, ends_.top().at);
    if (arrived_ < later_.size()) stop = std::min(stop, later_[arrived_].spec.submit);
    if (stop > until_ || stop == kNever) return false;
    now_ = std::max(now_, stop);
    end_jobs();
    submit_jobs();
    if (gate_.pop_due_wakes(now_)) emit_event(Tick{});
  }
  return true;
}

void ForkedQueue::close_waits() {
  const bool is_over = ends_.empty() && arrived_ == later_.size();
  now_ = is_over ? now_ : std::max(now_, until_);
  for (ForkedJob& job : jobs_) {
    if (job.end == kNever && !job.is_running) job.waited += now_ - std::exchange(job.since, now_);
  }
}

std::optional<Observation> ForkedQueue::next() {
  if (!advance_clock()) {
    close_waits();
    return {};
  }
  shown_ = std::exchange(events_, {});
  return Observation{.now = now_,
                     .sequence = calls_++,
                     .events = shown_,
                     .cluster = world_.cluster(),
                     .state = world_.state(),
                     .jobs = world_.jobs(),
                     .samples = samples_};
}

}  // namespace orrery::sim
