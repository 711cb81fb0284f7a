#include "sim/training/next_step.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "sim/training/job_faults.hpp"
#include "sim/training/storage_traffic.hpp"
#include "topologies/power.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::sim {
namespace {

/// Some room is left before the policy clock overflows.
constexpr Nanos kLongestRun = 9'000'000'000 * kNanosPerSecond;

/// Returns the shares of the replicas without lost ranks. If the work of lost replicas is dropped,
/// no replica computes more than its own part of the submitted batch.
std::vector<std::uint32_t> shares_of_working(const JobInfo& job, bool drops_lost_work) {
  if (job.lost.empty() && !drops_lost_work) return job.shares();
  std::vector<std::uint32_t> shares;
  const std::vector<bool> lost = lost_replicas(job);
  for (std::size_t replica = 0; replica < lost.size(); ++replica) {
    if (!lost[replica]) shares.push_back(job.shares()[replica]);
  }
  if (!drops_lost_work) return shares;
  const std::uint32_t own = even_split(job.spec.micro_batches, job.spec.layout.data).front();
  for (std::uint32_t& share : shares) share = std::min(share, own);
  return shares;
}

/// Returns the changes during the current step, begun now, of `duration`. No change follows a
/// killed rank.
std::vector<estimates::Stepper::Change> changes_within(const JobInWorld& here,
                                                       TrainingState& state, Nanos duration) {
  std::vector<estimates::Stepper::Change> changes;
  const FaultPlan& plan = state.faults.plan;
  FittedJob& fit = state.fit();
  const Nanos now = state.now;
  const auto lost = next_losses(here.job(state.id), state, state.step, now, now + duration);
  for (const Nanos instant :
       plan.instants(now - 1, lost.empty() ? now + duration : lost.front().at)) {
    FaultPlan::Touched touched = plan.touched_at(instant);
    estimates::HardwareState then = hardware_at(state, instant);
    const estimates::HardwareState& before =
        changes.empty() ? state.conditions->state : changes.back().state;
    const bool every = here.setup().request.full_detail();
    if (touched.ranks.empty() && then == before && !every) continue;
    changes.push_back({.at = to_seconds(instant - now),
                       .state = std::move(then),
                       .ranks = fit.local(state.fits.numbered, touched.ranks),
                       .links = std::move(touched.links)});
  }
  if (!lost.empty()) {
    const Nanos at = lost.front().at;
    changes.push_back({.at = to_seconds(at - now),
                       .state = hardware_at(state, at),
                       .fatal = true});
  }
  return changes;
}

/// A step in which something changes is simulated alone: the others then hold it up for as long as
/// they would have.
std::shared_ptr<const estimates::SimulatedStep> held_up(const TrainingState& state,
                                                        const estimates::SimulatedStep& what,
                                                        const estimates::SimulatedStep& beside) {
  auto longer = std::make_shared<estimates::SimulatedStep>(what);
  if (what.run.cut_short) return longer;
  const auto alone =
      state.fit().stepper().step(state.conditions->state, state.conditions->shares);
  longer->run.duration += std::max(0.0, beside.run.duration - alone->run.duration);
  return longer;
}

}  // namespace

Nanos length_of(const estimates::SimulatedStep& what, Step step, Nanos now,
                const std::vector<double>& stretch) {
  const double seconds =
      what.run.cut_short ? what.run.duration : estimates::stretched_duration(what, stretch);
  if (seconds < to_seconds(kLongestRun - now)) return to_nanos(seconds);
  throw Error(
      ErrorKind::bad_input,
      fmt::format("run.steps: step {} would end after more than 285 simulated years", step));
}

estimates::HardwareState hardware_at(const TrainingState& state, Nanos instant) {
  estimates::HardwareState hardware = state.fit().local(
      state.fits.numbered, state.faults.plan.state(state.step, instant));
  hardware.clock = state.conditions->state.clock;
  return hardware;
}

double clock_of(const JobInWorld& here, const TrainingState& state) {
  const double site = here.setup().power.clock_at(state.now);
  const double watts = here.job(state.id).now.get<PowerCap>().watts;
  if (watts <= 0) return site;
  return std::min(site, clock_under(here.cluster().gpu_model(), Watts{watts}));
}

bool enter_step(const JobInWorld& here, TrainingState& state) {
  const JobInfo& job = here.job(state.id);
  FaultPlan& plan = state.faults.plan;
  StepConditions current{
      .state = state.fit().local(state.fits.numbered, plan.state(state.step, state.now)),
      .shares = shares_of_working(job, state.drops_lost_work),
      .collectives = job.now.get<CollectiveTable>(),
      .codecs = job.now.get<CodecRules>(),
      .input = job.now.get<Prefetch>(),
      .company = state.conditions ? state.conditions->company : 0};
  set_reads(here, state, current);
  // No step begins during a pause; one that is repeated from its begin has full power.
  const double clock = clock_of(here, state);
  current.state.clock = clock > 0 ? clock : 1;
  plan.mark_felt(state.step, state.now);
  if (state.conditions == current) return false;
  state.conditions = std::move(current);
  apply_conditions(here, state);
  return true;
}

void apply_conditions(const JobInWorld& here, const TrainingState& state) {
  estimates::Stepper& stepper = state.fit().stepper();
  stepper.set_collectives(state.conditions->collectives);
  stepper.set_codecs(state.conditions->codecs);
  if (const Prefetch& input = state.conditions->input; input.workers > 0) {
    stepper.set_input(input.workers, input.depth);
  }
  if (state.conditions->read > 0) stepper.set_read_time(state.conditions->read);
  here.contention().enter_job(state.id, {.stepper = {state.fits.now, &stepper},
                                         .state = state.conditions->state,
                                         .micro_batches = state.conditions->shares});
}

bool update_contention(const JobInWorld& here, TrainingState& state) {
  const std::uint64_t company = here.contention().company(state.id);
  return std::exchange(state.conditions->company, company) != company;
}

std::optional<double> ideal_step_time(const TrainingSetup& setup, const TrainingState& state) {
  const Job& job = setup.scenario().job();
  if (!job.has_pace() || state.fits.first->graph().pipeline() > 1 || !state.conditions) return {};
  const StepGraph& graph = state.fit().graph();
  std::vector<double> speeds(graph.data(), 1.0);
  for (const auto& [rank, slow] : state.conditions->state.slow) {
    double& speed = speeds[graph.position({rank}).replica];
    speed = std::min(speed, 1 / slow);
  }
  const std::vector<std::uint32_t>& shares = state.conditions->shares;
  const std::uint32_t batch = std::accumulate(shares.begin(), shares.end(), 0u);
  return ideal_makespan(speeds, batch, to_seconds(job.pace().micro_batch()));
}

/// Beside those of other jobs that it meets.
std::shared_ptr<const estimates::SimulatedStep> undisturbed_step(const JobInWorld& here,
                                                                 const TrainingState& state) {
  if (auto beside = here.contention().step(state.id, state.now)) return beside;
  return state.fit().stepper().step(state.conditions->state, state.conditions->shares);
}

/// A change may lengthen the step, so that further changes fall into it.
std::shared_ptr<const estimates::SimulatedStep> step_with_changes(
    const JobInWorld& here, TrainingState& state, const std::vector<double>& stretch) {
  const Step step = state.step;
  const Nanos now = state.now;
  auto what = undisturbed_step(here, state);
  const auto beside = what;
  std::size_t known = 0;
  for (;;) {
    const auto changes = changes_within(here, state, length_of(*what, step, now, stretch));
    if (changes.size() <= known) break;
    known = changes.size();
    what = state.fit().stepper().step_with(state.conditions->state, state.conditions->shares,
                                           changes);
    if (state.conditions->company != 0) what = held_up(state, *what, *beside);
  }
  // Noise lengthens the simulated step: a rank may be killed in the additional time.
  const auto lost = next_losses(here.job(state.id), state, step, now,
                                now + length_of(*what, step, now, stretch));
  if (lost.empty() || what->run.cut_short) return what;
  auto shortened = std::make_shared<estimates::SimulatedStep>(*what);
  shortened->run.cut_short = true;
  shortened->run.duration = to_seconds(lost.front().at - now);
  return shortened;
}

}  // namespace orrery::sim
