#include "sim/forecast/forked_queue.hpp"

#include <algorithm>
#include <utility>

#include "topologies/part.hpp"

namespace orrery::sim {
namespace {

/// Returns true for an assignment alone, at once and without conditions.
bool is_plain_assignment(const Decision& decision) {
  return std::holds_alternative<Assign>(decision.what) && decision.group == 0 &&
         decision.at_step == 0 && !decision.if_epoch && decision.expires == kNever;
}

}  // namespace

ForkedQueue::ForkedQueue(const QueueSnapshot& from, const std::vector<Nanos>& left,
                         std::span<const LaterJob> later, Nanos until, LaterChanges changes,
                         FirstEvents first)
    : ForkedQueue(from.world(), from, left, later, until, std::move(changes), first) {}

ForkedQueue::ForkedQueue(World world, const QueueSnapshot& from, const std::vector<Nanos>& left,
                         std::span<const LaterJob> later, Nanos until, LaterChanges changes,
                         FirstEvents first)
    : world_(std::move(world)),
      gate_(world_, {Kinds<Action>::of<Assign>(), {}}, *this),
      later_(later),
      changes_(std::move(changes)),
      until_(until),
      jobs_(from.jobs().size()),
      now_(from.now()) {
  for (const LaterJob& job : later_) refuse_variable(job.spec);
  for (std::uint32_t id = 0; id < jobs_.size(); ++id) {
    ForkedJob& job = jobs_[id];
    job.left = left[id];
    job.since = now_;
    job.is_running = from.jobs()[id].is_running;
    if (first == FirstEvents::all || id == 0) events_.push_back(JobSubmitted{from.spec(id)});
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

/// Applies an event that the gate has made, with all checks.
void ForkedQueue::emit_event(Event event) {
  world_.apply(event, now_);
  events_.push_back(std::move(event));
}

/// Applies an event of the future itself.
void ForkedQueue::show_event(Event event) {
  world_.apply_possible(event, now_);
  events_.push_back(std::move(event));
}

/// Assignments that take effect at once, as all of queue policies, need no gate: the outcome of
/// each is known before the next is checked, and the world never holds a pending one.
void ForkedQueue::apply(const DecisionList& decisions) {
  world_.begin_batch();
  const std::vector<Decision>& items = decisions.items();
  if (!std::all_of(items.begin(), items.end(), is_plain_assignment)) {
    return gate_.accept_decisions(decisions, now_);
  }
  for (const Nanos at : decisions.wake_times()) gate_.wake(std::max(at, now_));
  for (const Decision& decision : items) carry_out_at_once(decision);
}

void ForkedQueue::carry_out_at_once(const Decision& decision) {
  std::string why = world_.objection(decision);
  if (why.empty()) why = refusal(decision);
  if (why.empty()) {
    events_.push_back(Decided{decision.id, Outcome::applied, {}});
    return carry_out(decision);
  }
  world_.announce_decision(decision);
  emit_event(Decided{decision.id, Outcome::rejected, std::move(why)});
}

void ForkedQueue::carry_out(const Decision& decision) {
  const Assign& assign = std::get<Assign>(decision.what);
  const std::uint32_t id = assign.job.value;
  if (assign.is_release()) return stop_job(id);
  ForkedJob& job = jobs_[id];
  job.waited += now_ - std::exchange(job.since, now_);
  ++job.moves;
  job.is_running = true;
  job.start = std::min(job.start, now_);
  expect_end(id);
  const Epoch epoch{world_.jobs()[assign.job].epoch.value + 1};
  show_event(JobStarted{
      .job = assign.job, .epoch = epoch, .from = 0, .where = {assign.gpus, assign.layout}});
}

void ForkedQueue::stop_job(std::uint32_t id) {
  ForkedJob& job = jobs_[id];
  const Nanos passed = now_ - std::exchange(job.since, now_);
  if (job.left != kNever) job.left -= passed;
  ++job.moves;
  job.is_running = false;
  show_event(JobStopped{{id}, 0});
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
    const bool is_void = end.move == kAnyMove ? job.end != kNever : job.moves != end.move;
    if (is_void) continue;
    if (!job.is_running) job.waited += now_ - job.since;
    job.end = now_;
    job.is_running = false;
    ++job.moves;
    show_event(JobDone{{end.job}, Ending::completed});
  }
}

/// Returns the jobs that have lost GPUs, in order of these GPUs.
std::vector<std::uint32_t> ForkedQueue::change_parts() {
  std::vector<std::uint32_t> struck;
  for (; changed_ < changes_.parts.size() && changes_.parts[changed_].first <= now_; ++changed_) {
    const PartChanged& change = changes_.parts[changed_].second;
    show_event(change);
    if (!changes_.stop_jobs || change.to.health != Health::lost) continue;
    for (const GpuId gpu : gpus_of(world_.cluster(), change.part)) {
      const JobId owner = world_.state().owner[gpu.value];
      if (owner == ClusterState::kNobody) continue;
      if (std::find(struck.begin(), struck.end(), owner.value) == struck.end()) {
        struck.push_back(owner.value);
      }
    }
  }
  return struck;
}

void ForkedQueue::submit_jobs() {
  for (; arrived_ < later_.size() && later_[arrived_].arrival() <= now_; ++arrived_) {
    const LaterJob& later = later_[arrived_];
    JobSpec spec = later.spec;
    spec.id = {static_cast<std::uint32_t>(jobs_.size())};
    if (later.leaves != kNever) ends_.push({later.leaves, spec.id.value, kAnyMove});
    jobs_.push_back({.left = later.duration, .since = now_});
    show_event(JobSubmitted{std::move(spec)});
  }
}

/// Advances until an event must be shown; returns false at the end of the future.
bool ForkedQueue::advance_clock() {
  while (events_.empty()) {
    Nanos stop = gate_.next_wake();
    if (!ends_.empty()) stop = std::min(stop, ends_.top().at);
    if (arrived_ < later_.size()) stop = std::min(stop, later_[arrived_].arrival());
    if (changed_ < changes_.parts.size()) stop = std::min(stop, changes_.parts[changed_].first);
    if (stop > until_ || stop == kNever) return false;
    now_ = std::max(now_, stop);
    end_jobs();
    const std::vector<std::uint32_t> struck = change_parts();
    submit_jobs();
    for (const std::uint32_t id : struck) stop_job(id);
    if (gate_.pop_due_wakes(now_)) show_event(Tick{});
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
  shown_.swap(events_);
  events_.clear();
  return Observation{.now = now_,
                     .sequence = calls_++,
                     .events = shown_,
                     .cluster = world_.cluster(),
                     .state = world_.state(),
                     .jobs = world_.jobs(),
                     .samples = samples_};
}

}  // namespace orrery::sim
