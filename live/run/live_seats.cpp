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
  if (const auto* what = std::get_if<Assign>(&decision.what)) {
    return recovery_->assign(*what, step_.number());
  }
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
  if (crew_->running()) proposals_.put();
}

void LiveBackend::take_in(const membership::Decided& decided) { proposals_.agreed(decided.number); }

void LiveBackend::take_in(const membership::Aborted& aborted) {
  proposals_.dropped(aborted.number);
}

// ---- losses ---------------------------------------------------------------------------------

void LiveBackend::take_in(const RankDied& died) {
  const std::uint32_t seat = died.death.rank;
  if (stage_ != Stage::training || !recovery_->died(seat, died.was_member)) return;
  const Nanos noticed = now();
  failures_.lost(seat, faults_->struck(seat).value_or(noticed), noticed, died.death.cause);
  checkpoints_.lost(seat);
  if (recovery_->nobody_left()) recovery_->tell_losses();
}

/// It stands still and nobody will assign it.
bool LiveBackend::waits_in_vain() const {
  if (!recovery_->held() || job().next) return false;
  if (!needs_.actions.has<Assign>()) return !observations_.waiting();
  return recovery_->held_for(scenario_.survival().hold_limit());
}

void LiveBackend::tell_parts() {
  for (const PartChanged& part : faults_->changes(world_.state(), step_.number(), now())) {
    happen(part);
  }
}

}  // namespace orrery::live
