#include "sim/world/sim_backend.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/error.hpp"
#include "policies/seam/part_changes.hpp"
#include "policies/seam/rank_summary.hpp"

namespace orrery::sim {
namespace {

bool only_steps(const std::vector<Event>& events) {
  return std::all_of(events.begin(), events.end(), [](const Event& event) {
    return std::holds_alternative<Tick>(event) || std::holds_alternative<StepsDone>(event);
  });
}

}  // namespace

SimBackend::SimBackend(const Cluster& cluster, Capabilities offered)
    : world_(cluster), offered_(offered), gate_(world_, offered, *this) {}

JobModel::Happen SimBackend::teller() {
  return [this, number = members_.size()](Event event) {
    if (std::holds_alternative<JobSubmitted>(event)) {
      if (runs_.empty() || runs_.back().member != number) {
        runs_.push_back({world_.jobs().submitted(), number});
      }
    }
    emit_event(std::move(event));
  };
}

void SimBackend::add(std::unique_ptr<JobModel> model) {
  Member& member = members_.emplace_back();
  member.model = std::move(model);
  member.stepped = dynamic_cast<SteppedJob*>(member.model.get());
  member.branching = dynamic_cast<BranchingJob*>(member.model.get());
  member.sampled = dynamic_cast<SampledJob*>(member.model.get());
}

void SimBackend::begin(const Needs& needs) {
  needs_ = needs;
  next_tick_ = needs_.tick > 0 ? (now_ / needs_.tick + 1) * needs_.tick : kNever;
  for (const Member& each : members_) {
    if (each.stepped) each.stepped->prepare_job(needs);
  }
}

void SimBackend::branch_at(Nanos at, std::function<Continuation()> branch) {
  for (const Member& each : members_) {
    if (each.branching) each.branching->set_milestones(milestones_);
  }
  milestones_.add_milestone(at, [this, at, branch = std::move(branch)] {
    instants_.branches_at = at;
    const Continuation on = branch();
    instants_.branches_at = 0;
    for (const Member& each : members_) {
      if (on.seed && each.branching) each.branching->reseed_noise(at, *on.seed);
    }
    if (on.ask) gate_.wake(at);
  });
}

const SimBackend::Member* SimBackend::member_of(JobId job) const {
  if (job.value >= world_.jobs().submitted()) return nullptr;
  auto run = runs_.end() - 1;
  while (run->job > job.value) --run;
  return &members_[run->member];
}

// ---- decisions ------------------------------------------------------------------------------

std::string SimBackend::refusal(const Decision& decision) const {
  return member_of(job_of(decision.what))->model->refusal(decision);
}

bool SimBackend::is_step_open(JobId job) const {
  const Member* const member = member_of(job);
  return member != nullptr && member->stepped && member->stepped->is_step_open();
}

void SimBackend::emit_event(Event event) {
  if (!std::holds_alternative<StepsDone>(event)) {
    for (const Member& each : members_) {
      if (each.stepped) each.stepped->emit_steps();
    }
  }
  if (const auto* change = std::get_if<PartChanged>(&event)) {
    // Each job that a part's fault may touch tells of it.
    const auto known = world_.state().parts.find(change->part);
    static const PartState kNominal;
    const PartState& was = known == world_.state().parts.end() ? kNominal : known->second;
    if (is_same_report(was, change->to)) return;
  }
  world_.apply(event, now_);
  const auto* const steps = std::get_if<StepsDone>(&event);
  const Member* const of_steps = steps == nullptr ? nullptr : member_of(steps->job);
  // Only a rest of the policies permits that steps are reported after their end.
  const bool is_known = at_rest_ && of_steps != nullptr && of_steps->stepped &&
                        of_steps->stepped->last_commit() < now_;
  if (is_known && events_.known == events_.next.size()) ++events_.known;
  events_.next.push_back(std::move(event));
}

void SimBackend::carry_out(const Decision& decision) {
  member_of(job_of(decision.what))->model->carry_out(decision, now_);
}

void SimBackend::apply(const DecisionList& decisions) {
  at_rest_ = decisions.is_resting();
  if (past_) return past_->check_decisions(decisions);
  // A folded run leaves out most calls during a rest: none of them takes time.
  if (!(resting_ && only_steps(events_.shown))) instants_.asked_at = now_;
  // A decision at this instant may change work that has just begun.
  for (const Member& each : members_) {
    if (each.stepped) each.stepped->settle_until(now_);
  }
  world_.begin_batch();
  gate_.accept_decisions(decisions, now_);
}

// ---- observations ---------------------------------------------------------------------------

/// A log whose end is given may tell its last before it: until then its policies go on.
void SimBackend::continue_from(std::unique_ptr<Past> past, std::function<bool()> hand_over) {
  if (members_.size() > 1) {
    throw Error(ErrorKind::bad_input,
                "--from: a log goes on with one job, this scenario has several");
  }
  past_ = std::move(past);
  if (members_.front().branching) members_.front().branching->set_milestones(milestones_);
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
  runs_ = {{0, 0}};
  if (members_.front().branching == nullptr) BranchingJob::refuse_log();
  members_.front().branching->continue_from(*past);
  world_.begin_batch();
  gate_.resume_decisions(past->open(), now_);
  if (hand_over_ && hand_over_()) emit_event(Tick{});
}

std::optional<Observation> SimBackend::next() {
  if (past_) {
    if (std::optional<Observation> seen = past_->next()) return seen;
    continue_run();
  }
  resting_ = false;
  if (events_.next.empty()) {
    if (is_over()) return {};
    // Advances only if no outcomes are pending: those belong to the same instant.
    advance_clock();
    if (events_.next.empty()) return {};
  }
  if (events_.show_events(instruments_.read())) resting_ = true;
  instruments_.forget_samples();
  return Observation{.now = now_,
                     .sequence = calls_++,
                     .events = events_.shown,
                     .cluster = world_.cluster(),
                     .state = world_.state(),
                     .jobs = world_.jobs(),
                     .samples = instruments_,
                     .resting = resting_ && only_steps(events_.shown)};
}

/// Nothing remains of the call about known steps, as of the calls at their ends in full detail.
bool SimBackend::Events::show_events(bool known_apart) {
  const std::size_t count = std::exchange(known, 0);
  shown.clear();
  if (count == 0 || count == next.size() || !known_apart) {
    shown.swap(next);
    return false;
  }
  const auto last = next.begin() + static_cast<std::ptrdiff_t>(count);
  shown.assign(std::make_move_iterator(next.begin()), std::make_move_iterator(last));
  next.erase(next.begin(), last);
  return true;
}

bool SimBackend::is_over() const {
  return std::all_of(members_.begin(), members_.end(),
                     [](const Member& each) { return each.model->is_over(); });
}

JobModel::Watch SimBackend::watch_state() const {
  return {.resting = at_rest_,
          .reads = needs_.tick > 0 || instruments_.read(),
          .step_times = needs_.step_times,
          .alone = members_.size() == 1,
          .limit = end_};
}

/// No job works under circumstances of which its policies have not seen a whole step.
bool SimBackend::are_jobs_unchanged() const {
  return std::all_of(members_.begin(), members_.end(), [watch = watch_state()](const Member& each) {
    return each.stepped == nullptr || each.stepped->is_unchanged(watch);
  });
}

void SimBackend::begin_models() {
  for (const Member& each : members_) {
    if (each.stepped) each.stepped->announce_work(now_, instants_.asked_at == now_);
  }
  for (const Member& each : members_) {
    each.model->begin(now_, watch_state());
    if (each.stepped) now_ = std::max(now_, each.stepped->now());
  }
}

/// Advances all models to `stop`; models with an event at `stop` handle it.
void SimBackend::pass_models(Nanos stop) {
  now_ = stop;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (stops_[i] > stop && members_[i].stepped) members_[i].stepped->settle_until(stop);
  }
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (stops_[i] <= stop) members_[i].model->advance_to(stop, watch_state());
  }
  // Sorts the events of one instant by kind: each model emits in that order, but several models are
  // interleaved.
  if (members_.size() == 1) return;
  std::stable_sort(events_.next.begin(), events_.next.end(),
                   [](const Event& a, const Event& b) { return a.index() < b.index(); });
}

/// Until something has happened that is to be shown, or nothing ever will.
void SimBackend::advance_clock() {
  while (events_.next.empty()) {
    milestones_.reach_milestones(now_);
    begin_models();
    resting_ = at_rest_ && are_jobs_unchanged();
    if (!events_.next.empty() || is_over()) break;
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
    // An event ends the rest: at its instant a tick comes as to policies that do not rest.
    const bool at_tick = next_tick_ <= now_ && now_ % needs_.tick == 0;
    if (due || (at_tick && is_watched(at_rest_ && only_steps(events_.next)))) emit_event(Tick{});
    pass_ticks();
  }
  pass_ticks();
}

/// Returns true if a job does steps of which its policies must be told at ticks.
bool SimBackend::is_watched(bool resting) const {
  JobModel::Watch watch = watch_state();
  watch.resting = resting;
  return std::any_of(members_.begin(), members_.end(), [&watch](const Member& each) {
    return each.stepped && each.stepped->is_watched(watch);
  });
}

/// Nobody is asked while a policy rests or everything stands still; ticks keep their rhythm.
void SimBackend::pass_ticks() {
  if (next_tick_ <= now_) next_tick_ = (now_ / needs_.tick + 1) * needs_.tick;
}

Nanos SimBackend::next_stop() {
  Nanos stop = gate_.next_wake();
  stops_.clear();
  for (const Member& each : members_)
    stop = std::min(stop, stops_.emplace_back(each.model->next_event_time()));
  return next_tick_ < stop && is_watched(at_rest_) ? next_tick_ : stop;
}

void SimBackend::fill(Report& report) {
  members_.front().model->fill(report, std::max(now_, instants_.branches_at));
  if (members_.size() == 1) return;
  for (const Member& each : members_) each.model->add_outcomes(report);
}

// ---- telemetry ------------------------------------------------------------------------------

void SimBackend::Instruments::forget_samples() {
  clear_tables();
  collectives_.clear();
}

const SampledJob* SimBackend::Instruments::sampled_job(JobId job) {
  read_ = true;
  const Member* const member = of_.member_of(job);
  return member == nullptr ? nullptr : member->sampled;
}

std::shared_ptr<const SampleRows> SimBackend::Instruments::make_rows(SampleTable table, JobId job) {
  const SampledJob* const sampled = sampled_job(job);
  return sampled == nullptr ? no_rows() : sampled->rows(table, of_.now_);
}

std::shared_ptr<SampleColumn> SimBackend::Instruments::empty_column() {
  constexpr std::size_t kMostColumns = 2 * kSampleFields;
  const auto unused = std::find_if(columns_.begin(), columns_.end(),
                                   [](const auto& column) { return column.use_count() == 1; });
  if (unused == columns_.end()) {
    auto column = std::make_shared<SampleColumn>();
    if (columns_.size() < kMostColumns) columns_.push_back(column);
    return column;
  }
  SampleColumn& column = **unused;
  column.values.clear();
  column.ages.assign(1, 0);
  column.origins.assign(1, Origin::measured);
  return *unused;
}

std::shared_ptr<const SampleColumn> SimBackend::Instruments::make_column(SampleField field,
                                                                         JobId job) {
  const std::shared_ptr<SampleColumn> column = empty_column();
  const SampledJob* const sampled = sampled_job(job);
  if (sampled != nullptr) sampled->fill_column(field, of_.now_, *column);
  return column;
}

std::span<const CollectiveSample> SimBackend::Instruments::collectives(JobId job) {
  const SampledJob* const sampled = sampled_job(job);
  if (sampled == nullptr) return {};
  const auto [place, is_new] = collectives_.try_emplace(job);
  if (is_new) sampled->collectives(place->second);
  return place->second;
}

RankSummary SimBackend::Instruments::summary(JobId job, std::uint32_t latest) {
  const auto fill_rank = [&](std::size_t row, RankSample& out) {
    sampled_job(job)->fill_rank(row, of_.now_, out);
  };
  return summarize(*rows(SampleTable::ranks, job), *column(SampleField::micro_batch_time, job), job,
                   latest, summaries_[job], fill_rank);
}

}  // namespace orrery::sim
