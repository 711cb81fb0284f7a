#include "sim/training/training_run.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "core/schema/names.hpp"
#include "policies/handover/hand_over.hpp"
#include "policies/seam/fabric_rules.hpp"
#include "sim/estimates/prices/measured_kernels.hpp"
#include "sim/training/assignments.hpp"
#include "sim/training/job_faults.hpp"
#include "sim/training/job_fit.hpp"
#include "sim/training/loss_events.hpp"
#include "sim/training/next_step.hpp"
#include "sim/training/placement.hpp"
#include "sim/training/step_commits.hpp"
#include "sim/training/storage_traffic.hpp"
#include "sim/training/training_snapshot.hpp"
#include "sim/world/sim_backend.hpp"
#include "traces/report/report.hpp"
#include "traces/workload/job_choices.hpp"

namespace orrery::sim {
/// Fates of the micro-batches of lost replicas, as scenarios name them.
enum class LostWork : std::uint8_t { dealt, dropped };
constexpr std::array<std::string_view, 2> names_of(LostWork) { return {"dealt", "dropped"}; }

namespace {

/// Returns the costs of the measured machine or of the node's measured kernels, if given. Ranks of
/// a built-in model are processes of live mode: their gradients are sent as whole numbers, over
/// links with the scenario's rates.
estimates::MachineCosts costs_of(const RunRequest& request) {
  const Scenario& scenario = request.scenario();
  estimates::MachineCosts costs =
      estimates::machine_costs(request.machine(), scenario.job().layout().data());
  if (request.has_kernels()) {
    costs.node = std::make_shared<const estimates::MeasuredKernels>(request.kernels());
  }
  if (scenario.job().model().builtin().empty()) return costs;
  costs.link_limit = scenario.live().link_rate();
  if (reproducible_sums(scenario)) costs.plain_bytes = sizeof(std::int64_t);
  return costs;
}

/// Null: none is wanted. Of a job that does not fit there is none: throws bad_input.
std::unique_ptr<SimTimeline> timeline_of(const RunRequest& request, const StepGraph& graph,
                                         const Cluster& cluster) {
  const MemoryShortage shortage = memory_shortage_of(request.scenario().run());
  if (shortage == MemoryShortage::refuse) check_memory(graph, cluster);
  if (request.timeline().empty()) return nullptr;
  return std::make_unique<SimTimeline>(request.timeline());
}

}  // namespace

TrainingRun::TrainingRun(RunRequest request, const Arrival& arrival, SimBackend& world,
                         estimates::EngineFactory engine, std::shared_ptr<Contention> contention,
                         ProgressSink progress)
    : setup_{std::move(request), arrival, &world.cluster()},
      here_(setup_, world.world(), world.gate(), world.teller(), std::move(contention),
            {.setup = &setup_,
             .options = {.full_detail = setup_.request.full_detail(),
                         .slices = !setup_.request.timeline().empty(),
                         .machine = costs_of(setup_.request)},
             .engine = std::move(engine),
             .seed = setup_.noise_seed(setup_.scenario().run().seed())}),
      state_(initial_state(here_)) {
  here_.draw_on(timeline_of(setup_.request, state_.fits.first->graph(), here_.cluster()));
  if (!progress) return;
  here_.report_progress_to([this, progress = std::move(progress)](Step step, Nanos now) {
    Progress done;
    done.set_steps_done(step);
    done.set_steps(setup_.scenario().run().steps());
    done.set_elapsed_s(to_seconds(now));
    progress(done);
  });
}

TrainingRun::~TrainingRun() = default;

namespace {

/// Adds the setting Prefetch as the scenario begins it (workers and depth), and its upper limits.
void add_input(const Input& input, JobSpec& spec) {
  spec.settings.push_back(Prefetch{input.workers(), input.prefetch()});
  spec.max_workers = input.most_workers();
  if (!input.has_bytes() || !input.has_memory()) return;
  spec.max_prefetch = static_cast<std::uint32_t>(
      std::clamp(std::floor(input.memory() / input.bytes()), 1.0, double{kMostPrefetch}));
}

}  // namespace

JobSpec TrainingRun::spec() const {
  const StepGraph& graph = state_.fits.first->graph();
  const Scenario& scenario = setup_.scenario();
  const Standing& where = state_.fits.first->where();
  JobSpec spec;
  spec.id = state_.id;
  spec.name = scenario.name();
  spec.submit = setup_.arrival.at;
  spec.gpus = graph.ranks();
  spec.layout = where.layout;
  spec.can_change_layout = can_change_layout(scenario.job());
  spec.least_gpus = spec.can_change_layout ? 1 : where.layout.ranks_per_replica();
  spec.most_gpus = most_gpus(scenario.job(), scenario.elastic(), here_.cluster().gpus());
  spec.micro_batches = graph.micro_batches();
  spec.max_micro_batches = max_micro_batches(scenario, graph.micro_batches(), graph.data());
  spec.steps = scenario.run().steps();
  spec.nominal_micro_batch_time = to_nanos(state_.fits.first->stepper().nominal_micro_batch_time());
  spec.can = settable(scenario);
  spec.settings = {loss_response(scenario, needs_,
                                 hand_over_mode(setup_.request.mode()) != HandOverMode::shadow)};
  if (scenario.has_checkpoints()) {
    spec.settings.push_back(
        CheckpointPlan{scenario.checkpoints().every(), Tier::local_disk});
  }
  if (spec.can.has<Prefetch>()) add_input(scenario.job().input(), spec);
  return spec;
}

/// Shares that a policy sets contain the micro-batches of lost replicas.
void TrainingRun::prepare_job(const Needs& needs) {
  needs_ = needs;
  const LostWork fate = named(setup_.survival().lost_work(), std::optional(LostWork::dealt));
  state_.drops_lost_work = fate == LostWork::dropped && !needs.settings.has<Shares>();
}

void TrainingRun::submit_job() {
  state_.id = {here_.world().jobs().submitted()};
  state_.submitted = true;
  here_.emit_event(JobSubmitted{spec()});
  if (!setup_.arrival.first_gpu) return;
  const JobStarted start{
      .job = state_.id, .epoch = {1}, .from = 0, .where = state_.fits.first->where()};
  if (here_.world().objection(Event(start)).empty()) place_initially(here_, state_, start);
}

void TrainingRun::reseed_noise(Nanos from, std::uint64_t run) {
  here_.fits().reseed_noise(from, setup_.noise_seed(run));
}

void TrainingRun::continue_from(const Past& past) {
  state_ = state_from_log(here_, std::move(state_), past);
}

// ---- time -------------------------------------------------------------------------------------

Nanos TrainingRun::policy_time() const {
  const bool decides = !needs_.actions.empty() || !needs_.settings.empty();
  const bool watches = hand_over_mode(setup_.request.mode()) == HandOverMode::shadow;
  return decides && !watches ? setup_.scenario().run().policy_time() : 0;
}

void TrainingRun::announce_work(Nanos now, bool asked) {
  state_.now = now;
  if (!state_.submitted || state_.metrics.is_over() || !state_.is_idle()) return;
  if (state_.paused_until && now >= *state_.paused_until) state_.paused_until.reset();
  change_between_steps(here_, state_);
  if (!can_begin_step(here_, state_)) return;
  if (asked && policy_time() > 0 && state_.asked != state_.step) {
    state_.asked = state_.step;
    return stall_until(state_, now + policy_time(), GpuUse::idle);
  }
  const double delay = here_.job(state_.id).now.get<Delay>().seconds;
  if (delay > 0 && state_.delayed != state_.step) {
    state_.delayed = state_.step;
    leave_step(here_, state_);  // jobs that share its links have them alone until then
    return stall_until(state_, now + to_nanos(delay), GpuUse::idle);
  }
  if (clock_of(here_, state_) <= 0) {
    leave_step(here_, state_);
    // A policy that pauses the job changes its limit at a call, or never.
    state_.paused_until = std::min(setup_.power.next_change(now), here_.gate().next_wake());
    return stall_until(state_, *state_.paused_until, GpuUse::idle);
  }
  if (is_input_cut(here_, state_)) return wait_for_storage(here_, state_);
  enter_new_step(here_, state_);
  here_.contention().next_step(state_.id, state_.now);
}

void TrainingRun::begin(Nanos, const Watch& watch) {
  if (can_begin_step(here_, state_)) begin_steps(here_, state_, watch);
  renew_write_rate(here_, state_, state_.step_length());
}

Nanos TrainingRun::next_event_time() const {
  if (state_.metrics.is_over()) return kNever;
  if (!state_.submitted) return setup_.arrival.at;
  return std::min({state_.step_end(), next_placement_change(here_, state_),
                   next_report_time(state_.faults), state_.saving.next(),
                   next_rate_change(state_)});
}

void TrainingRun::advance_to(Nanos now, const Watch& watch) {
  if (!state_.submitted) {
    state_.now = now;
    return submit_job();
  }
  settle_steps(here_, state_, now);
  state_.now = now;
  if (state_.open && now == state_.open->end()) close_step(here_, state_, watch);
  apply_faults_between_steps(here_, state_);
  if (is_given_up(state_)) {
    state_.losses.record_job_loss("no new step in 30 days: ranks are lost faster than they recover",
                                  now);
    state_.metrics.time().interrupt_at(now);
    return end_job(here_, state_, Ending::failed);
  }
  emit_due_events(here_, state_);
  notice_losses(here_, state_);
  review_heard_ranks(here_, state_);
}

// ---- decisions --------------------------------------------------------------------------------

std::string TrainingRun::refusal(const Decision& decision) const {
  std::string why = fabric_refusal(setup_.scenario(), decision, here_.job(state_.id).is_placed());
  const auto* assign = std::get_if<Assign>(&decision.what);
  if (!why.empty() || assign == nullptr || assign->is_release()) return why;
  return layout_refusal(setup_.scenario(), here_.cluster(), assign->layout);
}

void TrainingRun::carry_out(const Decision& decision, Nanos now) {
  state_.now = now;
  if (const auto* save = std::get_if<Save>(&decision.what)) state_.saving.request_save(save->tier);
  const auto* configure = std::get_if<Configure>(&decision.what);
  if (configure != nullptr && std::holds_alternative<PowerCap>(configure->what)) end_pause(state_);
  const auto* assign = std::get_if<Assign>(&decision.what);
  if (assign == nullptr) return;
  if (assign->is_release()) {
    release_gpus(here_, state_);
  } else {
    assign_gpus(here_, state_, *assign);
  }
}

// ---- telemetry and the end ----------------------------------------------------------------

namespace {

/// Returns the telemetry of the job, prepared for a table; null while no conditions are fixed.
Telemetry* telemetry_for(SampleTable table, const TrainingState& state) {
  if (!state.conditions) return nullptr;
  FittedJob& fit = state.fit();
  if (table == SampleTable::links) {
    fit.telemetry().update_links(fit.stepper(), state.conditions->state);
  }
  return &fit.telemetry();
}

}  // namespace

std::shared_ptr<const SampleRows> TrainingRun::rows(SampleTable table, Nanos now) const {
  Telemetry* const telemetry = telemetry_for(table, state_);
  return telemetry == nullptr ? no_rows() : telemetry->rows(table, now);
}
void TrainingRun::fill_column(SampleField field, Nanos now, SampleColumn& out) const {
  Telemetry* const telemetry = telemetry_for(table_of(field), state_);
  if (telemetry != nullptr) telemetry->fill_column(field, now, out);
}
void TrainingRun::fill_rank(std::size_t row, Nanos now, RankSample& out) const {
  if (!state_.conditions) return;
  state_.fit().telemetry().fill_rank(static_cast<std::uint32_t>(row), now, out);
}
void TrainingRun::collectives(std::vector<CollectiveSample>& out) const {
  append_exchange(state_, out);
}

void TrainingRun::fill(Report& report, Nanos now) {
  if (here_.timeline() != nullptr) here_.timeline()->close();
  const TrainingMetrics& metrics = state_.metrics;
  const std::uint64_t simulated = here_.fits().simulated();  // not the step that fill() simulates
  metrics.fill(setup_, *state_.fits.first, simulated, report);
  report.set_rank_classes(here_.fits().most_classes());
  report.set_steps_completed(metrics.steps() + state_.uncommitted_by(now));
  const Step step = state_.step;
  const Step last = step > 0 ? step - (step == setup_.scenario().run().steps() ? 1 : 0) : 0;
  metrics.fill_faults(state_.faults.plan, last, now, report);
  state_.losses.fill(report);
  if (const auto ideal = ideal_step_time(setup_, state_)) report.set_ideal_step_time_s(*ideal);
}

void TrainingRun::add_outcomes(Report& report) const {
  JobOutcome& outcome = *report.add_jobs();
  outcome.set_name(setup_.scenario().name());
  outcome.set_kind(std::string(name_of(OutcomeKind::training)));
  outcome.set_gpus(state_.fits.first->graph().ranks());
  outcome.set_submitted_s(to_seconds(setup_.arrival.at));
  state_.metrics.fill(*state_.fits.first, state_.step < setup_.scenario().run().steps(),
                      state_.losses.newest_cause(), outcome);
}

}  // namespace orrery::sim
