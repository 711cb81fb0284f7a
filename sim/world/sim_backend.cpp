#include "sim/world/sim_backend.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace orrery::sim {

SimBackend::SimBackend(const Cluster& cluster, Capabilities offered)
    : world_(cluster), offered_(offered), gate_(world_, offered, *this) {}

JobModel::Happen SimBackend::teller() {
  return [this, number = models_.size()](Event event) {
    if (std::holds_alternative<JobSubmitted>(event)) {
      JobModel* const model = models_[number].get();
      if (runs_.empty() || runs_.back().model != model) {
        runs_.push_back({world_.jobs().submitted(), model});
      }
    }
    emit_event(std::move(event));
  };
}

void SimBackend::begin(const Needs& needs) {
  needs_ = needs;
  next_tick_ = needs_.tick > 0 ? (now_ / needs_.tick + 1) * needs_.tick : kNever;
  for (const auto& model : models_) model->prepare_job(needs);
}

void SimBackend::branch_at(Nanos at, std::function<Continuation()> branch) {
  for (const auto& model : models_) model->set_milestones(milestones_);
  milestones_.add_milestone(at, [this, at, branch = std::move(branch)] {
    branches_at_ = at;
    const Continuation on = branch();
    branches_at_ = 0;
    for (const auto& model : models_) {
      if (on.seed) model->reseed_noise(at, *on.seed);
    }
    if (on.ask) gate_.wake(at);
  });
}

JobModel* SimBackend::model_of(JobId job) const {
  if (job.value >= world_.jobs().submitted()) return nullptr;
  auto run = runs_.end() - 1;
  while (run->job > job.value) --run;
  return run->model;
}

// ---- decisions ------------------------------------------------------------------------------

std::string SimBackend::refusal(const Decision& decision) const {
  return model_of(job_of(decision.what))->refusal(decision);
}

bool SimBackend::is_step_open(JobId job) const {
  const JobModel* const model = model_of(job);
  return model != nullptr && model->is_step_open(job);
}

void SimBackend::emit_event(Event event) {
  if (!std::holds_alternative<StepsDone>(event)) {
    for (const auto& model : models_) model->emit_steps();
  }
  if (const auto* change = std::get_if<PartChanged>(&event)) {
    // Each job that a part's fault may touch tells of it.
    const auto known = world_.state().parts.find(change->part);
    static const PartState kNominal;
    const PartState& was = known == world_.state().parts.end() ? kNominal : known->second;
    const PartState& to = change->to;
    if (was.health == to.health && was.rate == to.rate && was.removal == to.removal) return;
  }
  world_.apply(event, now_);
  events_.push_back(std::move(event));
}

void SimBackend::carry_out(const Decision& decision) {
  model_of(job_of(decision.what))->carry_out(decision, now_);
}

void SimBackend::apply(const DecisionList& decisions) {
  at_rest_ = decisions.is_resting();
  if (past_) return past_->check_decisions(decisions);
  // A decision at this instant may change work that has just begun.
  for (const auto& model : models_) model->settle_until(now_);
  world_.begin_batch();
  gate_.accept_decisions(decisions, now_);
}

// ---- observations ---------------------------------------------------------------------------

/// A log whose end is given may tell its last before it: until then its policies go on.
void SimBackend::continue_from(std::unique_ptr<Past> past, std::function<bool()> hand_over) {
  if (models_.size() > 1) {
    throw Error(ErrorKind::bad_input,
                "--from: a log goes on with one job, this scenario has "
                "several");
  }
  past_ = std::move(past);
  models_.front()->set_milestones(milestones_);
  if (!past_->until()) {
    hand_over_ = std::move(hand_over);
    return;
  }
  milestones_.add_milestone(*past_->until(),
                            [this, at = *past_->until(), hand_over = std::move(hand_over)] {
                              if (!hand_over()) return;
                              at_rest_ = false;  // the promise of the earlier policies
                              gate_.wake(at);
                            });
}

/// Continues at the end of the log: the same world with its waiting decisions, and the job at its
/// step.
void SimBackend::continue_run() {
  const std::unique_ptr<Past> past = std::move(past_);
  if (past->calls() == 0) return;
  world_ = past->world();
  now_ = past->now();
  calls_ = past->calls();
  next_tick_ = needs_.tick > 0 ? (now_ / needs_.tick + 1) * needs_.tick : kNever;
  for (const Nanos at : past->wake_times()) gate_.wake(at);
  for (const auto& [job, step] : past->effects()) gate_.expect_effect(job, step);
  runs_ = {{0, models_.front().get()}};
  models_.front()->continue_from(*past);
  world_.begin_batch();
  gate_.resume_decisions(past->open(), now_);
  if (hand_over_ && hand_over_()) emit_event(Tick{});
}

namespace {

using Models = std::vector<std::unique_ptr<JobModel>>;

bool is_any_watched(const Models& models, const JobModel::Watch& watch) {
  return std::any_of(models.begin(), models.end(),
                     [&watch](const auto& model) { return model->is_watched(watch); });
}

bool only_steps(const std::vector<Event>& events) {
  return std::all_of(events.begin(), events.end(), [](const Event& event) {
    return std::holds_alternative<Tick>(event) || std::holds_alternative<StepsDone>(event);
  });
}

}  // namespace

std::optional<Observation> SimBackend::next() {
  if (past_) {
    if (std::optional<Observation> seen = past_->next()) return seen;
    continue_run();
  }
  resting_ = false;
  if (events_.empty()) {
    if (is_over()) return {};
    // Advances only if no outcomes are pending: those belong to the same instant.
    advance_clock();
    if (events_.empty()) return {};
  }
  shown_.clear();
  shown_.swap(events_);
  instruments_.forget_samples();
  return Observation{.now = now_,
                     .sequence = calls_++,
                     .events = shown_,
                     .cluster = world_.cluster(),
                     .state = world_.state(),
                     .jobs = world_.jobs(),
                     .samples = instruments_,
                     .resting = resting_ && only_steps(shown_)};
}

bool SimBackend::is_over() const {
  return std::all_of(models_.begin(), models_.end(),
                     [](const auto& model) { return model->is_over(); });
}

JobModel::Watch SimBackend::watch_state() const {
  return {.resting = at_rest_,
          .reads = needs_.tick > 0 || instruments_.read(),
          .step_times = needs_.step_times,
          .alone = models_.size() == 1,
          .limit = end_};
}

/// No job works under circumstances of which its policies have not seen a whole step.
bool SimBackend::are_jobs_unchanged() const {
  return std::all_of(models_.begin(), models_.end(), [watch = watch_state()](const auto& model) {
    return model->is_unchanged(watch);
  });
}

void SimBackend::begin_models() {
  for (const auto& model : models_) model->announce_work(now_);
  for (const auto& model : models_) {
    model->begin(now_, watch_state());
    now_ = std::max(now_, model->now());
  }
}

/// Advances all models to `stop`; models with an event at `stop` handle it.
void SimBackend::pass_models(Nanos stop) {
  now_ = stop;
  for (std::size_t i = 0; i < models_.size(); ++i) {
    if (stops_[i] > stop) models_[i]->settle_until(stop);
  }
  for (std::size_t i = 0; i < models_.size(); ++i) {
    if (stops_[i] <= stop) models_[i]->advance_to(stop, watch_state());
  }
  // Sorts the events of one instant by kind: each model emits in that order, but several models are
  // interleaved.
  if (models_.size() == 1) return;
  std::stable_sort(events_.begin(), events_.end(),
                   [](const Event& a, const Event& b) { return a.index() < b.index(); });
}

/// Until something has happened that is to be shown, or nothing ever will.
void SimBackend::advance_clock() {
  while (events_.empty()) {
    milestones_.reach_milestones(now_);
    begin_models();
    resting_ = at_rest_ && are_jobs_unchanged();
    if (!events_.empty() || is_over()) break;
    Nanos stop = next_stop();
    if (milestones_.reach_milestones(stop)) stop = next_stop();
    if (stop == kNever) {  // jobs are held or wait, and nobody will ever decide
      gate_.close("the run has ended");
      break;
    }
    if (stop > end_) break;
    pass_models(stop);
    const bool due = gate_.pop_due_wakes(now_);
    resting_ = resting_ && !due;
    if (due || is_tick_due()) emit_event(Tick{});
    pass_ticks();
  }
  pass_ticks();
}

/// An event ends the rest: at its instant a tick comes as it would to policies that do not rest.
bool SimBackend::is_tick_due() const {
  if (next_tick_ > now_ || now_ % needs_.tick != 0) return false;
  JobModel::Watch watch = watch_state();
  watch.resting = watch.resting && only_steps(events_);
  return is_any_watched(models_, watch);
}

/// Nobody is asked while a policy rests or everything stands still; ticks keep their rhythm.
void SimBackend::pass_ticks() {
  if (next_tick_ <= now_) next_tick_ = (now_ / needs_.tick + 1) * needs_.tick;
}

Nanos SimBackend::next_stop() {
  Nanos stop = gate_.next_wake();
  stops_.clear();
  for (const auto& model : models_)
    stop = std::min(stop, stops_.emplace_back(model->next_event_time()));
  return next_tick_ < stop && is_any_watched(models_, watch_state()) ? next_tick_ : stop;
}

void SimBackend::fill(Report& report) {
  models_.front()->fill(report, std::max(now_, branches_at_));
  if (models_.size() == 1) return;
  for (const auto& model : models_) model->add_outcomes(report);
}

// ---- telemetry ------------------------------------------------------------------------------

namespace {

/// Returns the result of `draw`, computed once.
template <class Sample, class Draw>
std::span<const Sample> drawn(std::optional<std::vector<Sample>>& once, const Draw& draw) {
  if (!once) draw(once.emplace());
  return *once;
}

}  // namespace

std::span<const RankSample> SimBackend::Instruments::ranks(JobId job) {
  read_ = true;
  const JobModel* const model = of_.model_of(job);
  if (model == nullptr) return {};
  return drawn(drawn_[job].ranks, [&](auto& out) { model->ranks(of_.now_, out); });
}

std::span<const DeviceSample> SimBackend::Instruments::devices(JobId job) {
  read_ = true;
  const JobModel* const model = of_.model_of(job);
  if (model == nullptr) return {};
  return drawn(drawn_[job].devices, [&](auto& out) { model->devices(of_.now_, out); });
}

std::span<const LinkSample> SimBackend::Instruments::links(JobId job) {
  read_ = true;
  const JobModel* const model = of_.model_of(job);
  if (model == nullptr) return {};
  return drawn(drawn_[job].links, [&](auto& out) { model->links(of_.now_, out); });
}

std::span<const CollectiveSample> SimBackend::Instruments::collectives(JobId job) {
  read_ = true;
  const JobModel* const model = of_.model_of(job);
  if (model == nullptr) return {};
  return drawn(drawn_[job].collectives, [&](auto& out) { model->collectives(out); });
}

RankSummary SimBackend::Instruments::summary(JobId job, std::uint32_t latest) {
  const std::span<const RankSample> all = ranks(job);
  return summarize(all, latest, drawn_[job].slowest);
}

}  // namespace orrery::sim
