#include "sim/training/next_step.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::sim {
namespace {

/// Some room is left before the policy clock overflows.
constexpr Nanos kLongestRun = 9'000'000'000 * kNanosPerSecond;

/// Returns the shares of the replicas without lost ranks.
std::vector<std::uint32_t> shares_of_working(const JobInfo& job) {
  if (job.lost.empty()) return job.shares();
  std::vector<std::uint32_t> shares;
  const std::vector<bool> lost = lost_replicas(job);
  for (std::size_t replica = 0; replica < lost.size(); ++replica) {
    if (!lost[replica]) shares.push_back(job.shares()[replica]);
  }
  return shares;
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

NextStep::NextStep(const JobInWorld& here, const FitCache& fits, JobFaults& faults,
                   std::shared_ptr<Contention> contention, bool full_detail)
    : here_(here),
      fits_(fits),
      faults_(faults),
      contention_(std::move(contention)),
      full_detail_(full_detail) {}

bool NextStep::enter_step(Step step, Nanos now) {
  const JobInfo& job = here_.job();
  Circumstances current{.state = fit().local(faults_.plan().state(step, now)),
                        .shares = {},
                        .collectives = job.now.get<CollectiveTable>(),
                        .codecs = job.now.get<CodecRules>(),
                        .company = now_ ? now_->company : 0};
  current.shares = shares_of_working(job);
  faults_.plan().mark_felt(step, now);
  if (now_ == current) return false;
  fit().stepper().set_collectives(current.collectives);
  fit().stepper().set_codecs(current.codecs);
  now_ = std::move(current);
  contention_->enter_job(here_.id(), {.stepper = {fits_.now(), &fit().stepper()},
                                  .state = now_->state,
                                  .micro_batches = now_->shares});
  return true;
}

bool NextStep::update_contention() {
  const std::uint64_t company = contention_->company(here_.id());
  return std::exchange(now_->company, company) != company;
}

void NextStep::leave_step() {
  now_.reset();
  leave_contention();
}

std::optional<double> NextStep::ideal_time() const {
  const Job& job = here_.scenario().job();
  const StepGraph& begun = fits_.initial_fit()->graph();
  if (!job.has_pace() || begun.pipeline() > 1 || !now_) return {};
  const StepGraph& graph = fit().graph();
  std::vector<double> speeds(graph.data(), 1.0);
  for (const auto& [rank, slow] : now_->state.slow) {
    double& speed = speeds[graph.position({rank}).replica];
    speed = std::min(speed, 1 / slow);
  }
  const std::uint32_t batch = std::accumulate(now_->shares.begin(), now_->shares.end(), 0u);
  return ideal_makespan(speeds, batch, to_seconds(job.pace().micro_batch()));
}

/// Beside those of other jobs that it meets.
std::shared_ptr<const estimates::SimulatedStep> NextStep::undisturbed_step(Nanos now) {
  if (auto beside = contention_->step(here_.id(), now)) return beside;
  return fit().stepper().step(now_->state, now_->shares);
}

/// Returns the changes during a step of `duration`. No change follows a killed rank.
std::vector<estimates::Stepper::Change> NextStep::changes_within(Step step, Nanos now,
                                                                 Nanos duration) const {
  std::vector<estimates::Stepper::Change> changes;
  const FaultPlan& plan = std::as_const(faults_).plan();
  const auto lost = faults_.next_losses(step, now, now + duration);
  for (const Nanos instant :
       plan.instants(now - 1, lost.empty() ? now + duration : lost.front().at)) {
    FaultPlan::Touched touched = plan.touched_at(instant);
    estimates::HardwareState state = fit().local(plan.state(step, instant));
    const estimates::HardwareState& before = changes.empty() ? now_->state : changes.back().state;
    if (touched.ranks.empty() && state == before && !full_detail_) continue;
    changes.push_back({.at = to_seconds(instant - now),
                       .state = std::move(state),
                       .ranks = fit().local(touched.ranks),
                       .links = std::move(touched.links)});
  }
  if (!lost.empty()) {
    changes.push_back({.at = to_seconds(lost.front().at - now),
                       .state = fit().local(plan.state(step, lost.front().at)),
                       .fatal = true});
  }
  return changes;
}

/// A step in which something changes is simulated alone: the others then hold it up for as long as
/// they would have.
std::shared_ptr<const estimates::SimulatedStep> NextStep::held_up(
    const estimates::SimulatedStep& what, const estimates::SimulatedStep& beside) {
  auto longer = std::make_shared<estimates::SimulatedStep>(what);
  if (what.run.cut_short) return longer;
  const auto alone = fit().stepper().step(now_->state, now_->shares);
  longer->run.duration += std::max(0.0, beside.run.duration - alone->run.duration);
  return longer;
}

/// A change may lengthen the step, so that further changes fall into it.
std::shared_ptr<const estimates::SimulatedStep> NextStep::with_changes(
    Step step, Nanos now, const std::vector<double>& stretch) {
  auto what = undisturbed_step(now);
  const auto beside = what;
  std::size_t known = 0;
  for (;;) {
    const auto changes = changes_within(step, now, length_of(*what, step, now, stretch));
    if (changes.size() <= known) break;
    known = changes.size();
    what = fit().stepper().step_with(now_->state, now_->shares, changes);
    if (now_->company != 0) what = held_up(*what, *beside);
  }
  // Noise lengthens the simulated step: a rank may be killed in the additional time.
  const auto lost = faults_.next_losses(step, now, now + length_of(*what, step, now, stretch));
  if (lost.empty() || what->run.cut_short) return what;
  auto shortened = std::make_shared<estimates::SimulatedStep>(*what);
  shortened->run.cut_short = true;
  shortened->run.duration = to_seconds(lost.front().at - now);
  return shortened;
}

}  // namespace orrery::sim
