#include "sim/jobs/training_run.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/random.hpp"
#include "policies/seam/fabric_rules.hpp"
#include "sim/estimates/prices/gradient_codes.hpp"
#include "sim/jobs/job_fit.hpp"
#include "traces/scenario/scenario.hpp"
#include "traces/training/model.hpp"
#include "traces/training/stacks.hpp"

namespace orrery {
namespace {

/// Of the measured machine, if one is given. A built-in model's ranks are processes of live mode:
/// their gradients travel in its whole numbers, over links as slow as the scenario makes them.
MachineCosts costs_of(const RunRequest& request) {
  const Scenario& scenario = request.scenario();
  MachineCosts costs = machine_costs(request.machine(), scenario.job().layout().data());
  if (scenario.job().model().builtin().empty()) return costs;
  costs.link_limit = scenario.live().link_rate();
  if (reproducible_sums(scenario)) costs.plain_bytes = sizeof(std::int64_t);
  return costs;
}

}  // namespace

TrainingRun::TrainingRun(RunRequest request, const Arrival& arrival, const Place& place,
                         Happen happen, ProgressSink progress)
    : request_(std::move(request)),
      arrival_(arrival),
      here_(request_.scenario(), place.cluster, place.world, place.gate, std::move(happen)),
      progress_(std::move(progress)),
      fits_({.scenario = scenario(),
             .cluster = place.cluster,
             .options = {.full_detail = request_.full_detail(),
                         .slices = !request_.timeline().empty(),
                         .machine = costs_of(request_)},
             .engine = place.engine,
             .seed = noise_seed(scenario().run().seed())},
            place_in_order(StepGraph(scenario().job()), place.cluster,
                           arrival.first_gpu.value_or(0))),
      faults_(here_, fits_, losses_),
      next_(here_, fits_, faults_, place.contention, request_.full_detail()),
      books_(here_, fits_) {
  if (scenario().run().memory() != "warn") check_memory(fit().graph(), here_.cluster());
  if (!request_.timeline().empty()) timeline_ = std::make_unique<SimTimeline>(request_.timeline());
}

TrainingRun::~TrainingRun() = default;

JobSpec TrainingRun::spec() const {
  const StepGraph& graph = fits_.begun()->graph();
  const Standing where = fits_.home();
  JobSpec spec;
  spec.id = here_.id();
  spec.name = scenario().name();
  spec.submit = arrival_.at;
  spec.gpus = graph.ranks();
  spec.layout = where.layout;
  spec.least_gpus = where.layout.ranks_per_replica();
  const std::uint32_t whole = here_.cluster().gpus() / spec.least_gpus * spec.least_gpus;
  spec.most_gpus = scenario().elastic() ? whole : spec.gpus;
  spec.micro_batches = graph.micro_batches();
  const double even = static_cast<double>(graph.micro_batches()) / graph.data();
  spec.max_micro_batches = static_cast<std::uint32_t>(
      std::max(std::ceil(even), std::floor(even * scenario().job().max_share())));
  spec.steps = scenario().run().steps();
  spec.nominal_micro_batch_time = to_nanos(fits_.begun()->stepper().nominal_micro_batch_time());
  spec.can = settable(scenario());
  spec.settings = {loss_response(scenario(), needs_, request_.mode() != "shadow")};
  if (scenario().live().has_checkpoints()) {
    spec.settings.push_back(
        CheckpointPlan{scenario().live().checkpoints().every(), Tier::local_disk});
  }
  return spec;
}

void TrainingRun::submit() {
  here_.submitted_as({here_.world().jobs().submitted()});
  submitted_ = true;
  here_.happen(JobSubmitted{spec()});
  if (!arrival_.first_gpu) return;
  const JobStarted start{.job = here_.id(), .epoch = {1}, .from = 0, .where = fits_.home()};
  if (here_.world().objection(Event(start)).empty()) come_home(start);
}

/// It stands for the first time: there it is at home.
void TrainingRun::come_home(const JobStarted& start) {
  if (start.where != fits_.home()) {
    fits_.begin_at(start.where);
    faults_.numbered();
  }
  books_.begin(now_);
  here_.happen(start);
}

/// The first job's noise is the run's own.
std::uint64_t TrainingRun::noise_seed(std::uint64_t run) const {
  if (arrival_.number == 0) return run;
  return Rng(run).split(fmt::format("job {}", arrival_.number)).next();
}

void TrainingRun::reseed(Nanos from, std::uint64_t run) { fits_.reseed(from, noise_seed(run)); }

/// On those that work now.
void TrainingRun::refit() {
  auto [where, ranks] = working_part(job());
  if (where.gpus.empty()) return;
  fits_.stand_on(where, std::move(ranks));
  next_.leave();
}

// ---- time -------------------------------------------------------------------------------------

/// A promise to rest holds for what the policy has seen: not before it was shown a whole step
/// under the present circumstances. One that looks at nothing may rest at any time.
bool TrainingRun::rests(const Watch& watch) const {
  return watch.resting && !request_.full_detail() && (watched_ || !watch.reads);
}

/// The first later step at which something may differ, or the end.
Step TrainingRun::next_boundary() const {
  Step boundary = std::min(scenario().run().steps(), here_.gate().next_effect(here_.id(), step_));
  if (const auto change = faults_.plan().next_change(step_)) boundary = std::min(boundary, *change);
  const std::uint64_t every = job().now.get<CheckpointPlan>().every_steps;
  if (every > 0) boundary = std::min(boundary, (step_ / every + 1) * every);
  return boundary;
}

Nanos TrainingRun::next_interruption(const Watch& watch) const {
  Nanos next = std::min(watch.limit, here_.gate().next_wake());
  if (const auto instant = faults_.plan().next_instant(now_ - 1)) next = std::min(next, *instant);
  if (transition_) next = std::min(next, transition_->ready);
  next = std::min({next, faults_.next_news(), saving_.next()});
  return next;
}

void TrainingRun::enter_circumstances() {
  if (!next_.enter(step_, now_)) return;
  watched_ = false;
  faults_.note_parts(step_, now_);
}

/// Between two steps, and nothing keeps it from the next one.
bool TrainingRun::can_begin() const {
  if (!submitted_ || books_.over() || open_ || stretch_) return false;
  return job().phase == JobPhase::running && now_ >= resume_at_;
}

void TrainingRun::ready(Nanos now) {
  now_ = now;
  if (!submitted_ || books_.over() || open_ || stretch_) return;
  if (transition_ && now_ >= transition_->ready && now_ >= resume_at_) come_true();
  if (!can_begin()) return;
  enter_circumstances();
  next_.begins_at(now_);
}

void TrainingRun::begin(Nanos, const Watch& watch) {
  if (!can_begin()) return;
  if (next_.meet()) watched_ = false;
  if (rests(watch) && skip_ahead(watch)) return;
  open_step();
}

Nanos TrainingRun::next_stop() const {
  if (books_.over()) return kNever;
  if (!submitted_) return arrival_.at;
  Nanos stop = kNever;
  if (open_) stop = open_->end();
  if (stretch_) stop = stretch_->end();
  const bool idle = !open_ && !stretch_;
  const bool to_come = transition_ || job().phase == JobPhase::running;
  if (idle && now_ < resume_at_ && to_come) stop = resume_at_;
  if (transition_ && (transition_->ready > now_ || idle)) {
    stop = std::min(stop, std::max(transition_->ready, resume_at_));
  }
  stop = std::min({stop, losses_.next_noticed(), faults_.next_news(), saving_.next()});
  if (const auto fault = next_at_rest()) stop = std::min(stop, *fault);
  return stop;
}

void TrainingRun::pass(Nanos now, const Watch& watch) {
  if (!submitted_) {
    now_ = now;
    return submit();
  }
  settle(now);
  now_ = now;
  if (open_ && now_ == open_->end()) close_step(watch);
  strike_at_rest();
  tell_due();
  const Losses::Noticed noticed = losses_.notice(now, resume_at_);
  if (!noticed.ranks.empty()) know_losses(noticed);
}

/// What is to be told at this instant; of a job that is over nothing is told any more.
void TrainingRun::tell_due() {
  std::vector<Event> due;
  faults_.take_news(now_, due);
  if (const auto done = saving_.take_done(now_)) due.push_back(*done);
  std::stable_sort(due.begin(), due.end(),
                   [](const Event& a, const Event& b) { return a.index() < b.index(); });
  for (Event& event : due) here_.happen(std::move(event));
}

/// Of the next steps as many as nothing interrupts go by at once, if they can.
bool TrainingRun::skip_ahead(const Watch& watch) {
  books_.time().interrupt(now_);
  if (!losses_.has_resumed() || saving_.asked() ||
      !faults_.next_losses(step_, now_, now_ + 1).empty())
    return false;
  const std::uint64_t simulated = fit().stepper().simulated();
  auto each = next_.undisturbed(now_);
  if (timeline_ && fit().stepper().simulated() > simulated) timeline_->add(*each, step_, now_);
  if (each->run.cut_short) return false;
  // How long noisy steps take together is known once they have been drawn, so they cannot be cut.
  if (scenario().noise().compute_cv() > 0) {
    return watch.alone && skip_noisy_steps(std::move(each), watch);
  }
  const Nanos length = length_of(*each, step_, now_, {});
  const Nanos limit = next_interruption(watch);
  const auto room = static_cast<std::uint64_t>((limit - now_) / std::max<Nanos>(length, 1));
  const std::uint64_t count = std::min<std::uint64_t>(next_boundary() - step_, room);
  if (count == 0) return false;
  stretch_ = Stretch{.each = std::move(each), .began = now_, .length = length, .count = count};
  return true;
}

/// They are told at the instant that has come.
bool TrainingRun::skip_noisy_steps(std::shared_ptr<const SimulatedStep> each, const Watch& watch) {
  const Step boundary = next_boundary();
  Nanos limit = next_interruption(watch);
  const Nanos began = now_;
  Nanos last = 0;
  std::uint64_t count = 0;
  for (; step_ + count < boundary; ++count) {
    const std::vector<double> stretch =
        fit().telemetry().stretch(step_ + count, now_, fit().graph().data());
    const Nanos duration = length_of(*each, step_, now_, stretch);
    if (reaches_milestone(now_ + duration)) limit = next_interruption(watch);
    if (duration > limit - now_) break;
    books_.commit(*each, duration, 1, *next_.circumstances(), stretch);
    now_ += duration;
    last = duration;
  }
  if (count == 0) return false;
  gone_by(each, count, now_ - began, last, true);
  return true;
}

/// `count` steps have ended at `now_`, the last one after `last`; they are committed.
void TrainingRun::gone_by(const std::shared_ptr<const SimulatedStep>& each, std::uint64_t count,
                          Nanos took, Nanos last, bool tell) {
  const Step newest = step_ + count - 1;
  const std::vector<double> stretch =
      fit().telemetry().stretch(newest, now_ - last, fit().graph().data());
  note_exchange(*each, last, stretch);
  exchange_.back().step = newest;
  fit().telemetry().begin_step(PlayedStep(newest, now_ - last, each, stretch));
  steps_done(count, took, tell);
}

/// Whole steps are done; the one under way may end otherwise than those before.
void TrainingRun::settle(Nanos now) {
  if (!stretch_) return;
  const Stretch stretch = *std::exchange(stretch_, {});
  const std::uint64_t count = stretch.ended_by(now);
  const Nanos took = stretch.length * static_cast<Nanos>(count);
  now_ = stretch.began + took;
  if (count > 0) {
    books_.commit(*stretch.each, stretch.length, count, *next_.circumstances(), {});
    gone_by(stretch.each, count, took, stretch.length, now_ == now);
  }
  if (now_ == now) return;
  open(stretch.each, {});
  now_ = now;
}

void TrainingRun::open_step() {
  books_.time().interrupt(now_);
  const std::uint64_t simulated = fit().stepper().simulated();
  std::vector<double> stretch = fit().telemetry().stretch(step_, now_, fit().graph().data());
  auto what = next_.with_changes(step_, now_, stretch);
  if (what->run.cut_short) stretch.clear();
  if (timeline_ && fit().stepper().simulated() > simulated) timeline_->add(*what, step_, now_);
  saving_.step_begins();
  open(std::move(what), std::move(stretch));
  faults_.plan().feel(step_, now_);
  for (const Nanos instant : faults_.plan().instants(now_, open_->end())) {
    faults_.note_parts(step_, instant);
    faults_.plan().feel(step_, instant);
    stalled_ += faults_.stalled_by(instant);
  }
}

void TrainingRun::open(std::shared_ptr<const SimulatedStep> what, std::vector<double> stretch) {
  open_.emplace(step_, now_, std::move(what), std::move(stretch));
  next_.begins_at(open_->end());
  fit().telemetry().begin_step(*open_);
}

/// No step will ever follow.
void TrainingRun::end_steps() {
  books_.end(now_);
  next_.stand_still();
}

void TrainingRun::close_step(const Watch& watch) {
  const PlayedStep played = std::move(*open_);
  open_.reset();
  if (played.what().run.cut_short) {
    stalled_ = 0;
    books_.time().lose_step(played.start(), now_, fit().graph().ranks());
    return cut(played);
  }
  books_.commit(played.what(), played.duration(), 1, *next_.circumstances(), played.stretch());
  note_exchange(played.what(), played.duration(), played.stretch());
  // A resting policy is told of the last step before something may differ.
  const bool tell = !rests(watch) || step_ + 1 >= next_boundary() ||
                    here_.gate().waits(here_.id()) || saving_.after_this_step();
  watched_ = watched_ || tell;
  const Nanos stalled = std::exchange(stalled_, 0);
  if (stalled > 0) stand_still_until(std::max(now_, resume_at_) + stalled, GpuUse::recovery);
  steps_done(1, played.duration(), tell);
}

/// The gradients in fp32 and how long summing them took beyond the computation, in whatever code.
void TrainingRun::note_exchange(const SimulatedStep& step, Nanos duration,
                                const std::vector<double>& stretch) {
  exchange_.clear();
  CollectiveSample sample{.job = here_.id(),
                          .step = step_,
                          .kind = CollectiveKind::all_reduce,
                          .algorithm = CollectiveAlgorithm::ring,
                          .bytes = sizeof(float) * parameter_count(scenario().job().model()) /
                                   fit().graph().tensor() / fit().graph().pipeline(),
                          .ranks = fit().graph().data(),
                          .exposed = parts_of(step, to_seconds(duration), stretch).exchange};
  double most = -1;
  for (const GroupPlan& group : step.plan.groups) {
    if (group.communicator != Communicator::gradient) continue;
    for (const GroupPlan::Way& way : group.ways) {
      if (way.bytes > most) most = way.bytes, sample.algorithm = way.algorithm;
    }
  }
  exchange_.push_back(sample);
}

/// `count` steps in `duration` are committed at `now_`.
void TrainingRun::steps_done(std::uint64_t count, Nanos duration, bool tell) {
  books_.committed_by(now_);
  losses_.resumed(now_);
  step_ += count;
  untold_.count += count;
  untold_.duration += duration;
  const Step steps = scenario().run().steps();
  if (tell || step_ == steps) {
    tell_steps();
    here_.gate().step_ended(here_.id(), now_);
    save_if_due();
  }
  if (step_ == steps) {
    tell_due();
    end_steps();
    here_.happen(JobDone{here_.id()});
    here_.gate().job_gone(here_.id(), now_);
  }
  if (!progress_) return;
  Progress progress;
  progress.set_steps_done(step_);
  progress.set_steps(steps);
  progress.set_elapsed_s(to_seconds(now_));
  progress_(progress);
}

void TrainingRun::tell_steps() {
  if (untold_.count == 0) return;
  const auto told = std::exchange(untold_, {});
  here_.happen(StepsDone{
      .job = here_.id(), .last = step_ - 1, .count = told.count, .duration = told.duration});
}

void TrainingRun::save_if_due() {
  if (!saving_.due(step_, job().now.get<CheckpointPlan>().every_steps)) return;
  const double storage = faults_.plan().storage(step_, now_);  // as it is when it begins
  const Nanos stall =
      saving_.begin(here_.id(), step_, now_, scenario().live().checkpoints(), storage);
  books_.time().mark(step_, job().saved);
  stand_still_until(now_ + stall, GpuUse::checkpoint);
}

// ---- telemetry and the end ----------------------------------------------------------------

void TrainingRun::ranks(Nanos now, std::vector<RankSample>& out) const {
  if (next_.circumstances() == nullptr) return;
  fit().telemetry().ranks(now, out);
  for (RankSample& sample : out) sample.rank = fit().rank_of_job(sample.rank.value);
}
void TrainingRun::devices(Nanos now, std::vector<DeviceSample>& out) const {
  if (next_.circumstances() != nullptr) fit().telemetry().devices(now, out);
}
void TrainingRun::links(Nanos now, std::vector<LinkSample>& out) const {
  const NextStep::Circumstances* const here = next_.circumstances();
  if (here != nullptr) fit().telemetry().links(now, fit().stepper(), here->state, out);
}
void TrainingRun::collectives(std::vector<CollectiveSample>& out) const {
  if (fit().graph().data() < 2) return;
  for (const CollectiveSample& sample : exchange_) {
    if (sample.exposed > 0) out.push_back(sample);
  }
}

void TrainingRun::fill(Report& report, Nanos now) {
  if (timeline_) timeline_->close();
  books_.fill(report);
  if (stretch_) report.set_steps_completed(books_.steps() + stretch_->ended_by(now));
  const Step last = step_ > 0 ? step_ - (step_ == scenario().run().steps() ? 1 : 0) : 0;
  books_.fill_faults(faults_.plan(), last, now, report);
  losses_.fill(report);
  if (const auto ideal = next_.ideal_time()) report.set_ideal_step_time_s(*ideal);
}

void TrainingRun::add_outcomes(Report& report) const {
  JobOutcome& outcome = *report.add_jobs();
  outcome.set_name(scenario().name());
  outcome.set_kind("training");
  outcome.set_gpus(fits_.begun()->graph().ranks());
  outcome.set_submitted_s(to_seconds(arrival_.at));
  books_.fill(outcome, step_ < scenario().run().steps(), losses_.newest_cause());
}

}  // namespace orrery
