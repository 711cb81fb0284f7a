// The part of LiveBackend that decisions pass and that knows who sits where: what all ranks must
// follow is put to them first, processes are started and ended for an assignment, those that are
// lost are told once the others have agreed on that.
#include <algorithm>
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "live/run/live_backend.hpp"
#include "policies/seam/fabric_rules.hpp"

namespace orrery::live {

// ---- decisions ------------------------------------------------------------------------------

std::string LiveBackend::refusal(const Decision& decision) const {
  const auto* where = std::get_if<Assign>(&decision.what);
  if (where != nullptr && !where->leaves() && job().next) {  // newcomers are on their way
    return fmt::format("job {} is being assigned already", where->job.value);
  }
  return fabric_refusal(scenario_, decision);
}

void LiveBackend::happen(Event event) {
  desk_.happened(event, now());
  observations_.happen(std::move(event));
}

void LiveBackend::carry_out(const Decision& decision) {
  if (const auto* what = std::get_if<Assign>(&decision.what)) return assign(*what);
  if (std::holds_alternative<Save>(decision.what)) return checkpoints_.ask();
  const auto* plan = std::get_if<CheckpointPlan>(&std::get<Configure>(decision.what).what);
  if (plan != nullptr) checkpoints_.set_every(plan->every_steps);
}

void LiveBackend::apply(const DecisionList& decisions) {
  ticks_.rest(decisions.at_rest());
  world_.begin_batch();
  if (replay_.under_way()) {
    replay_.answered(decisions);
    for (const Nanos at : decisions.wakes()) gate_.wake(at);
    return;
  }
  observations_.answered();
  gate_.take(decisions, now());
  if (stage_ != Stage::training) return;
  propose();
  go_on();
  crew_->send_directives();
}

/// What all ranks must follow is put to them first.
void LiveBackend::propose() {
  if (!gate_.has_unagreed() || !crew_->running()) return;
  proposed_[++proposals_] = gate_.take_unagreed();
  crew_->propose(proposals_);
}

void LiveBackend::take_in(const membership::Decided& decided) {
  while (!proposed_.empty() && proposed_.begin()->first <= decided.number) {
    const auto agreed = proposed_.extract(proposed_.begin());
    for (const Decision& decision : agreed.mapped()) gate_.agreed(decision, now());
  }
}

void LiveBackend::take_in(const membership::Aborted& aborted) {
  while (!proposed_.empty() && proposed_.begin()->first <= aborted.number) {
    const auto dropped = proposed_.extract(proposed_.begin());
    for (const Decision& decision : dropped.mapped()) gate_.not_agreed(decision);
  }
}

// ---- seats ----------------------------------------------------------------------------------

/// Processes are started where they are missing; until they are there the others go on as before.
void LiveBackend::assign(const Assign& assign) {
  for (const GpuId gpu : assign.gpus) {
    placement_.try_again(gpu.value);
    if (!placement_.works(gpu.value)) crew_->replace(gpu.value);
  }
  if (crew_->running()) come_true(crew_->members());
}

/// Those that are not wanted any more end now, not before: nobody else may have had the state. A
/// step under way is done again by the others.
void LiveBackend::come_true(const std::vector<std::uint32_t>& members) {
  if (!untold_.empty() || !placement_.assembled(members)) return;
  const Standing where = placement_.coming();
  for (const std::uint32_t seat : members) {
    if (placement_.to_leave(seat)) crew_->signal(seat, SIGKILL);
  }
  if (members.size() != where.gpus.size()) return;
  happen(JobStarted{
      .job = kLiveJob, .epoch = {job().epoch.value + 1}, .from = step_.number(), .where = where});
  gate_.membership_changed(kLiveJob);
  held_since_ = kNever;
}

void LiveBackend::take_in(const RankDied& died) {
  const std::uint32_t seat = died.death.rank;
  if (stage_ != Stage::training || placement_.to_leave(seat)) return;
  const bool told = std::find(untold_.begin(), untold_.end(), seat) != untold_.end();
  if (!died.was_member || told || !placement_.works(seat)) {
    // A replacement that never joined, or one whose loss an earlier controller had told.
    if (placement_.wanted(seat)) crew_->replace(seat);
    return;
  }
  const Nanos noticed = now();
  failures_.lost(seat, faults_->struck(seat).value_or(noticed), noticed, died.death.cause);
  checkpoints_.lost(seat);
  untold_.push_back(seat);
  if (untold_.size() == placement_.counted()) tell_losses();  // nobody is left
}

/// Once those that are left have given up what was before: whoever was lost with others is known
/// by then.
void LiveBackend::tell_losses() {
  if (untold_.empty()) return;
  RanksLost lost{.job = kLiveJob, .ranks = {}, .epoch = {job().epoch.value + 1}};
  for (const std::uint32_t seat : std::exchange(untold_, {})) {
    lost.ranks.push_back(*placement_.rank_in(seat));
  }
  std::sort(lost.ranks.begin(), lost.ranks.end());
  happen(lost);
  gate_.membership_changed(kLiveJob);
  if (job().next) {
    for (const RankId rank : job().lost) crew_->replace(job().gpus[rank.value].value);
  }
  const bool holds = job().now.get<OnLoss>().response == LossResponse::hold;
  if (!holds && can_go_on(job())) return;
  happen(JobHeld{kLiveJob});
  held_since_ = now();
}

/// It stands still and nobody will assign it.
bool LiveBackend::waits_in_vain() const {
  if (held_since_ == kNever || job().next) return false;
  if (!needs_.actions.has<Assign>()) return !observations_.waiting();
  return now() - held_since_ > scenario_.survival().hold_limit();
}

void LiveBackend::tell_parts() {
  for (const PartChanged& part : faults_->changes(world_.state(), step_.number(), now())) {
    happen(part);
  }
}

}  // namespace orrery::live
