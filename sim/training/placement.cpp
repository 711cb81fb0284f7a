#include "sim/training/placement.hpp"

#include <algorithm>
#include <utility>

#include "policies/seam/fabric_rules.hpp"
#include "policies/seam/job_lifecycle.hpp"
#include "sim/training/job_fit.hpp"
#include "traces/workload/job_choices.hpp"
#include "traces/workload/model.hpp"

namespace orrery::sim {
namespace {

/// Returns the scenario's layout on the GPUs from the first one on.
Standing expected_placement(const TrainingSetup& setup) {
  const Job& job = setup.scenario().job();
  return {
      .gpus = place_in_order(StepGraph(job), *setup.cluster, setup.arrival.first_gpu.value_or(0)),
      .layout = layout_of(job.layout())};
}

}  // namespace

TrainingState initial_state(const JobInWorld& here) {
  return state_at(here, expected_placement(here.setup()));
}

TrainingState state_at(const JobInWorld& here, const Standing& first) {
  FitState fits = here.fits().begin_at(first);
  TrainingMetrics metrics(here.setup(), *fits.first);
  FaultPlan plan(here.scenario(), here.cluster(), fits.numbered);
  return {.metrics = std::move(metrics), .fits = std::move(fits),
          .faults = {.plan = std::move(plan)}};
}

void place_initially(const JobInWorld& here, TrainingState& state, const JobStarted& start) {
  if (start.where != state.fits.first->where()) {
    state.fits = here.fits().begin_at(start.where);
    state.faults.plan.move_ranks(state.fits.numbered);
  }
  state.metrics.begin(here.setup(), *state.fits.first, state.now);
  here.emit_event(start);
  renew_spares(here, state, state.now);
}

void renew_spares(const JobInWorld& here, TrainingState& state, Nanos ready) {
  if (here.survival().warm() == 0) return;
  const ClusterState& cluster = here.world().state();
  std::map<GpuId, Nanos> spares;
  for (std::uint32_t i = 0; i < cluster.owner.size() && spares.size() < here.survival().warm();
       ++i) {
    const GpuId gpu{i};
    const NodeId node = here.cluster().node_of(gpu);
    const bool free = cluster.owner[i] == ClusterState::kNobody && cluster.is_healthy(gpu, node);
    if (!free || cluster.is_to_be_removed(gpu, node)) continue;
    const auto known = state.warm.find(gpu);
    spares[gpu] = known != state.warm.end() ? known->second : ready;
  }
  state.warm = std::move(spares);
}

void refit_job(const JobInWorld& here, TrainingState& state) {
  auto [where, ranks] = working_part(here.job(state.id));
  if (where.gpus.empty()) return;
  here.fits().move_to(state.fits, where, std::move(ranks));
  leave_step(here, state);
}

void leave_step(const JobInWorld& here, TrainingState& state) {
  state.conditions.reset();
  here.contention().remove_job(state.id);
}

void number_gpus(TrainingState& state, const GpuRuns& gpus) {
  if (number_gpus(state.fits, gpus)) state.faults.plan.move_ranks(state.fits.numbered);
}

void stall_until(TrainingState& state, Nanos at, GpuUse use) {
  state.metrics.time().advance_to(state.now);
  state.metrics.time().stall_until(at, use);
  state.resume_at = std::max(state.resume_at, at);
}

void forget_void_assignment(const JobInWorld& here, TrainingState& state) {
  if (!state.pending || !state.pending->back.empty() || here.job(state.id).next) return;
  state.pending.reset();
}

void end_pause(TrainingState& state) {
  const std::optional<Nanos> until = std::exchange(state.paused_until, {});
  if (!until || state.resume_at != *until) return;
  state.metrics.time().interrupt_at(state.now);
  state.resume_at = std::min(state.resume_at, state.now);
}

bool can_begin_step(const JobInWorld& here, const TrainingState& state) {
  return state.submitted && !state.metrics.is_over() && state.is_idle() &&
         here.job(state.id).phase == JobPhase::running && state.now >= state.resume_at &&
         !state.paused_until;
}

bool is_stalled_job(const JobInWorld& here, const TrainingState& state) {
  if (!state.metrics.has_started() || state.metrics.is_over() || !state.is_idle()) return false;
  if (!here.job(state.id).is_placed()) return false;
  return state.now < state.resume_at || state.pending || state.losses.has_unnoticed();
}

Nanos end_of_patience(const TrainingState& state) {
  return end_of_patience(state.metrics.last_progress());
}

namespace {

/// Returns the next change of the cluster while no step is in progress.
std::optional<Nanos> next_change_of_cluster(const JobInWorld& here, const TrainingState& state) {
  const JobPhase phase = here.job(state.id).phase;
  const bool waits = state.metrics.has_started() && !state.metrics.is_over() && state.is_idle() &&
                     (phase == JobPhase::held || phase == JobPhase::waiting);
  if (!is_stalled_job(here, state) && !waits) return {};
  return state.faults.plan.next_instant(state.now, end_of_patience(state));
}

}  // namespace

Nanos next_placement_change(const JobInWorld& here, const TrainingState& state) {
  Nanos stop = kNever;
  const bool idle = state.is_idle();
  const bool to_come = state.pending || here.job(state.id).phase == JobPhase::running;
  if (idle && state.now < state.resume_at && to_come) stop = state.resume_at;
  if (state.pending && (state.pending->ready > state.now || idle)) {
    stop = std::min(stop, std::max(state.pending->ready, state.resume_at));
  }
  stop = std::min({stop, state.losses.next_noticed(), state.losses.next_suspected(state.now),
                   state.next_heard_rank()});
  if (const auto fault = next_change_of_cluster(here, state)) stop = std::min(stop, *fault);
  return stop;
}

}  // namespace orrery::sim
