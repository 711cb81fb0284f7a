#include "sim/sim_backend.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace orrery {
namespace {

constexpr JobId kJob{0};

Capabilities everything() {
  return {.actions = Kinds<Action>::all(), .settings = Kinds<Setting>::all()};
}

}  // namespace

SimBackend::SimBackend(const RunRequest& request, const Cluster& cluster, ProgressSink progress)
    : request_(request),
      world_(cluster),
      gate_(world_, everything(), *this),
      run_(request_, cluster, world_, gate_, [this](Event event) { happen(std::move(event)); },
           std::move(progress)) {}

Capabilities SimBackend::capabilities() const { return everything(); }

void SimBackend::begin(const Needs& needs) {
  needs_ = needs;
  if (needs_.tick > 0) next_tick_ = needs_.tick;
}

// ---- decisions ------------------------------------------------------------------------------

std::string SimBackend::refusal(const Decision& decision) const {
  return run_.refusal(decision);
}

bool SimBackend::step_open(JobId) const { return run_.step_open(); }

void SimBackend::happen(Event event) {
  if (!std::holds_alternative<StepsDone>(event)) run_.tell_steps();
  world_.apply(event, now_);
  events_.push_back(std::move(event));
}

void SimBackend::carry_out(const Decision& decision) { run_.carry_out(decision, now_); }

void SimBackend::apply(const DecisionList& decisions) {
  at_rest_ = decisions.at_rest();
  world_.begin_batch();
  gate_.take(decisions, now_);
}

// ---- observations ---------------------------------------------------------------------------

void SimBackend::submit() {
  const JobSpec spec = run_.spec(needs_);
  happen(JobSubmitted{spec});
  happen(JobStarted{.job = kJob, .epoch = {1}, .from = 0, .where = run_.home()});
  submitted_ = true;
}

std::optional<Observation> SimBackend::next() {
  if (run_.over() && events_.empty()) return {};
  // Of decisions, since the last observation: they are of the same instant.
  if (!submitted_) {
    submit();
  } else if (events_.empty()) {
    advance();
    if (events_.empty()) return {};
  }
  shown_ = std::exchange(events_, {});
  instruments_.forget();
  return Observation{.now = now_, .sequence = calls_++, .events = shown_,
                     .cluster = world_.cluster(), .state = world_.state(), .jobs = world_.jobs(),
                     .samples = instruments_};
}

TrainingRun::Watch SimBackend::watch() const {
  return {.resting = at_rest_, .reads = needs_.tick > 0 || instruments_.read(), .limit = kNever};
}

/// Until something has happened that is to be shown, or nothing ever will.
void SimBackend::advance() {
  while (events_.empty()) {
    run_.begin(now_, watch());
    now_ = std::max(now_, run_.now());
    if (!events_.empty() || run_.over()) break;
    const Nanos stop = next_stop();
    if (stop == kNever) {  // it is held, and nobody will ever decide
      gate_.close("the run has ended");
      break;
    }
    now_ = stop;
    run_.pass(now_, watch());
    const bool due = gate_.wake_due(now_);
    if (due || (now_ == next_tick_ && run_.watched(watch()))) happen(Tick{});
    pass_ticks();
  }
  pass_ticks();
}

/// Nobody is asked while a policy rests or everything stands still; ticks keep their rhythm.
void SimBackend::pass_ticks() {
  if (next_tick_ <= now_) next_tick_ = (now_ / needs_.tick + 1) * needs_.tick;
}

Nanos SimBackend::next_stop() const {
  Nanos stop = std::min(run_.next_stop(), gate_.next_wake());
  if (run_.watched(watch())) stop = std::min(stop, next_tick_);
  return stop;
}

void SimBackend::fill(Report& report) { run_.fill(report, now_); }

// ---- telemetry ------------------------------------------------------------------------------

void SimBackend::Instruments::forget() {
  ranks_.reset();
  devices_.reset();
  links_.reset();
  collectives_.reset();
}

bool SimBackend::Instruments::has(JobId job) {
  read_ = true;
  return job == kJob;
}

std::span<const RankSample> SimBackend::Instruments::ranks(JobId job) {
  if (!has(job)) return {};
  if (!ranks_) of_.run_.ranks(of_.now_, ranks_.emplace());
  return *ranks_;
}

std::span<const DeviceSample> SimBackend::Instruments::devices(JobId job) {
  if (!has(job)) return {};
  if (!devices_) of_.run_.devices(of_.now_, devices_.emplace());
  return *devices_;
}

std::span<const LinkSample> SimBackend::Instruments::links(JobId job) {
  if (!has(job)) return {};
  if (!links_) of_.run_.links(of_.now_, links_.emplace());
  return *links_;
}

std::span<const CollectiveSample> SimBackend::Instruments::collectives(JobId job) {
  if (!has(job)) return {};
  if (!collectives_) of_.run_.collectives(collectives_.emplace());
  return *collectives_;
}

RankSummary SimBackend::Instruments::summary(JobId job, std::uint32_t latest) {
  return summarize(ranks(job), latest, slowest_);
}

}  // namespace orrery
