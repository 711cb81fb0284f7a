#include "sim/jobs/training_run.hpp"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "core/random.hpp"
#include "policies/seam/fabric_rules.hpp"
#include "sim/jobs/job_fit.hpp"

namespace orrery::sim {
namespace {

/// Returns the costs of the measured machine, if one is given. A built-in model's ranks are
/// processes of live mode: their gradients are sent as whole numbers, over links with the
/// scenario's rates.
estimates::MachineCosts costs_of(const RunRequest& request) {
  const Scenario& scenario = request.scenario();
  estimates::MachineCosts costs =
      estimates::machine_costs(request.machine(), scenario.job().layout().data());
  if (scenario.job().model().builtin().empty()) return costs;
  costs.link_limit = scenario.live().link_rate();
  if (reproducible_sums(scenario)) costs.plain_bytes = sizeof(std::int64_t);
  return costs;
}

/// Null: none is wanted. Of a job that does not fit there is none: throws bad_input.
std::unique_ptr<SimTimeline> timeline_of(const RunRequest& request, const StepGraph& graph,
                                         const Cluster& cluster) {
  if (request.scenario().run().memory() != "warn") check_memory(graph, cluster);
  if (request.timeline().empty()) return nullptr;
  return std::make_unique<SimTimeline>(request.timeline());
}

/// Ends the checkpoints in flight whose copies are lost with the part.
void fail_saves_held_by(const PartChanged& change, CheckpointWriter& saving,
                        const JobInWorld& here) {
  if (change.part.kind != PartKind::node || change.to.health != Health::lost) return;
  for (SaveDone& done : saving.abandon_holder({change.part.index})) {
    here.emit_event(std::move(done));
  }
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
      books_(here_, fits_),
      timeline_(timeline_of(request_, fits_.initial_fit()->graph(), place.cluster)),
      steps_({here_, fits_, losses_, faults_, next_, books_, saving_, timeline_.get()}, *this,
             request_.full_detail()),
      standing_({here_, fits_, losses_, faults_, next_, books_, saving_, steps_, timeline_.get()}) {
}

TrainingRun::~TrainingRun() = default;

JobSpec TrainingRun::spec() const {
  const StepGraph& graph = fits_.initial_fit()->graph();
  const Standing where = fits_.home();
  JobSpec spec;
  spec.id = here_.id();
  spec.name = scenario().name();
  spec.submit = arrival_.at;
  spec.gpus = graph.ranks();
  spec.layout = where.layout;
  spec.least_gpus = where.layout.ranks_per_replica();
  spec.most_gpus = most_gpus(scenario().job(), scenario().elastic(), here_.cluster().gpus());
  spec.micro_batches = graph.micro_batches();
  spec.max_micro_batches = max_micro_batches(scenario(), graph.micro_batches(), graph.data());
  spec.steps = scenario().run().steps();
  spec.nominal_micro_batch_time =
      to_nanos(fits_.initial_fit()->stepper().nominal_micro_batch_time());
  spec.can = settable(scenario());
  spec.settings = {loss_response(scenario(), needs_, request_.mode() != "shadow")};
  if (scenario().live().has_checkpoints()) {
    spec.settings.push_back(
        CheckpointPlan{scenario().live().checkpoints().every(), Tier::local_disk});
  }
  return spec;
}

void TrainingRun::submit_job() {
  here_.submitted_as({here_.world().jobs().submitted()});
  submitted_ = true;
  here_.emit_event(JobSubmitted{spec()});
  if (!arrival_.first_gpu) return;
  const JobStarted start{.job = here_.id(), .epoch = {1}, .from = 0, .where = fits_.home()};
  if (here_.world().objection(Event(start)).empty()) standing_.place_initially(start);
}

/// The first job's noise is the run's own.
std::uint64_t TrainingRun::noise_seed(std::uint64_t run) const {
  if (arrival_.number == 0) return run;
  return Rng(run).split_stream(fmt::format("job {}", arrival_.number)).next();
}

void TrainingRun::reseed_noise(Nanos from, std::uint64_t run) {
  fits_.reseed_noise(from, noise_seed(run));
}

/// At the job's step, which begins anew.
void TrainingRun::continue_from(const Past& past) {
  here_.submitted_as({0});  // a log that a run goes on from has one job
  submitted_ = true;
  steps_.start_from(past.now(), 0);
  const JobInfo* const known = here_.world().jobs().find(here_.id());
  books_.continue_from(past, known == nullptr || known->phase == JobPhase::done);
  if (books_.is_over()) return;
  steps_.start_from(past.now(), job().step);
  faults_.continue_from(job().step, past.now(), past.lost_in_step());
  standing_.continue_from_world();
  if (!past.lost_in_step().empty() || past.steps().empty()) return;
  if (job().phase != JobPhase::running || past.last_commit() == past.now()) return;
  steps_.restart_current_step(past.last_commit());  // it was under way where the past ends
}

// ---- time -------------------------------------------------------------------------------------

Step TrainingRun::next_boundary(Step step) const {
  Step boundary = std::min(scenario().run().steps(), here_.gate().next_effect(here_.id(), step));
  if (const auto change = faults_.plan().next_change(step)) boundary = std::min(boundary, *change);
  const std::uint64_t every = job().now.get<CheckpointPlan>().every_steps;
  if (every > 0) boundary = std::min(boundary, (step / every + 1) * every);
  return boundary;
}

Nanos TrainingRun::next_interruption(const Watch& watch) const {
  return std::min({watch.limit, here_.gate().next_wake(), faults_.next_event_time(), saving_.next(),
                   standing_.next_change()});
}

/// Between two steps, and nothing keeps it from the next one.
bool TrainingRun::can_begin() const {
  return submitted_ && !books_.is_over() && steps_.is_idle() && standing_.can_begin_step();
}

void TrainingRun::announce_work(Nanos now) {
  steps_.set_clock(now);
  if (!submitted_ || books_.is_over() || !steps_.is_idle()) return;
  standing_.change_between_steps();
  if (!can_begin()) return;
  const double delay = job().now.get<Delay>().seconds;
  if (delay > 0 && delayed_ != steps_.step()) {
    delayed_ = steps_.step();
    next_.leave_step();  // jobs that share its links have them alone until then
    return standing_.stall_until(now + to_nanos(delay), GpuUse::idle);
  }
  steps_.enter_step();
  next_.begins_at(steps_.now());
}

void TrainingRun::begin(Nanos, const Watch& watch) {
  if (can_begin()) steps_.begin_steps(watch);
}

Nanos TrainingRun::next_event_time() const {
  if (books_.is_over()) return kNever;
  if (!submitted_) return arrival_.at;
  return std::min(
      {steps_.end(), standing_.next_event_time(), faults_.next_event_time(), saving_.next()});
}

void TrainingRun::advance_to(Nanos now, const Watch& watch) {
  if (!submitted_) {
    steps_.set_clock(now);
    return submit_job();
  }
  steps_.settle_steps(now);
  steps_.set_clock(now);
  if (steps_.is_step_open() && now == steps_.end()) steps_.close_step(watch);
  standing_.apply_faults_between_steps();
  if (standing_.is_given_up()) {
    losses_.record_job_loss("no new step in 30 days: ranks are lost faster than they recover", now);
    books_.time().interrupt_at(now);
    return end(Ending::failed);
  }
  emit_due_events();
  standing_.notice_losses();
}

/// Emits the events that are due at this instant; none after the end of the job.
void TrainingRun::emit_due_events() {
  std::vector<Event> due;
  faults_.drain_events(steps_.now(), due);
  while (auto done = saving_.take_done(steps_.now())) due.push_back(std::move(*done));
  std::stable_sort(due.begin(), due.end(),
                   [](const Event& a, const Event& b) { return a.index() < b.index(); });
  bool parts_changed = false;
  for (Event& event : due) {
    const auto* const part = std::get_if<PartChanged>(&event);
    parts_changed = parts_changed || part != nullptr;
    if (part != nullptr) fail_saves_held_by(*part, saving_, here_);
    here_.emit_event(std::move(event));
  }
  if (parts_changed && books_.has_started()) standing_.on_parts_changed();
}

void TrainingRun::end(Ending how) {
  emit_due_events();
  books_.end(steps_.now());
  next_.leave_contention();
  here_.emit_event(JobDone{here_.id(), how});
  here_.gate().reject_decisions(here_.id(), steps_.now());
}

void TrainingRun::on_cut(const estimates::PlayedStep& played) {
  if (!standing_.cut_step(played)) end(Ending::failed);
}

void TrainingRun::on_committed(bool tell) {
  losses_.mark_resumed(steps_.now());
  books_.record_progress(steps_.step(), steps_.now());
  faults_.plan().forget_before(steps_.now(), books_.started());
  const Step all = scenario().run().steps();
  if (tell || steps_.step() == all) {
    steps_.tell_committed();
    here_.gate().settle_deferred(here_.id(), steps_.now());
    save_if_due();
  }
  if (steps_.step() == all) end(Ending::completed);
  if (!progress_) return;
  Progress progress;
  progress.set_steps_done(steps_.step());
  progress.set_steps(all);
  progress.set_elapsed_s(to_seconds(steps_.now()));
  progress_(progress);
}

void TrainingRun::save_if_due() {
  const auto tier = saving_.drain_due(steps_.step(), job().now.get<CheckpointPlan>());
  if (!tier) return;
  const std::vector<GpuId> writers = working_part(job()).first.gpus.to_vector();
  const Nanos stall =
      saving_.begin({.job = here_.id(),
                     .step = steps_.step(),
                     .tier = *tier,
                     .holders = copy_holders(*tier, here_.cluster(), writers),
                     // storage rate at the begin of the save
                     .storage = faults_.plan().storage(steps_.step(), steps_.now())},
                    steps_.now(), scenario().live().checkpoints());
  books_.time().mark_checkpoint(steps_.step(), job().saved);
  standing_.stall_until(steps_.now() + stall, GpuUse::checkpoint);
}

// ---- decisions --------------------------------------------------------------------------------

std::string TrainingRun::refusal(const Decision& decision) const {
  return fabric_refusal(scenario(), decision, job().is_placed());
}

void TrainingRun::carry_out(const Decision& decision, Nanos now) {
  steps_.set_clock(now);
  if (const auto* save = std::get_if<Save>(&decision.what)) saving_.request_save(save->tier);
  const auto* assign = std::get_if<Assign>(&decision.what);
  if (assign == nullptr) return;
  assign->is_release() ? standing_.release_gpus() : standing_.assign_gpus(*assign);
}

// ---- telemetry and the end ----------------------------------------------------------------

void TrainingRun::ranks(Nanos now, std::vector<RankSample>& out) const {
  if (next_.circumstances() == nullptr) return;
  const std::size_t others = out.size();  // samples of other jobs
  fit().telemetry().ranks(now, out);
  for (RankSample& sample : std::span(out).subspan(others)) {
    sample.job = here_.id();
    sample.rank = fit().rank_of_job(sample.rank.value);
  }
}
void TrainingRun::devices(Nanos now, std::vector<DeviceSample>& out) const {
  if (next_.circumstances() != nullptr) fit().telemetry().devices(now, out);
}
void TrainingRun::links(Nanos now, std::vector<LinkSample>& out) const {
  const NextStep::Circumstances* const here = next_.circumstances();
  if (here != nullptr) fit().telemetry().links(now, fit().stepper(), here->state, out);
}
void TrainingRun::collectives(std::vector<CollectiveSample>& out) const { steps_.collectives(out); }

void TrainingRun::fill(Report& report, Nanos now) {
  if (timeline_) timeline_->close();
  books_.fill(report);
  report.set_steps_completed(books_.steps() + steps_.gone_by(now));
  const Step last =
      steps_.step() > 0 ? steps_.step() - (steps_.step() == scenario().run().steps() ? 1 : 0) : 0;
  books_.fill_faults(faults_.plan(), last, now, report);
  losses_.fill(report);
  if (const auto ideal = next_.ideal_time()) report.set_ideal_step_time_s(*ideal);
}

void TrainingRun::add_outcomes(Report& report) const {
  JobOutcome& outcome = *report.add_jobs();
  outcome.set_name(scenario().name());
  outcome.set_kind("training");
  outcome.set_gpus(fits_.initial_fit()->graph().ranks());
  outcome.set_submitted_s(to_seconds(arrival_.at));
  books_.fill(outcome, steps_.step() < scenario().run().steps(), losses_.newest_cause());
}

}  // namespace orrery::sim
