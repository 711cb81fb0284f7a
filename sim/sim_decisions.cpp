// The part of SimBackend that takes policies' decisions: which are possible, from when they hold,
// and what has come of them.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "sim/sim_backend.hpp"

namespace orrery {
namespace {

constexpr std::size_t kShiftIndex = 2, kTableIndex = 7, kCodecIndex = 8, kRecoverIndex = 10,
                      kWakeIndex = 12;
static_assert(std::is_same_v<std::variant_alternative_t<kShiftIndex, Action>, ShiftMicrobatches>);
static_assert(std::is_same_v<std::variant_alternative_t<kTableIndex, Action>, SetCollectiveTable>);
static_assert(std::is_same_v<std::variant_alternative_t<kCodecIndex, Action>, SetCodec>);
static_assert(std::is_same_v<std::variant_alternative_t<kRecoverIndex, Action>, Recover>);
static_assert(std::is_same_v<std::variant_alternative_t<kWakeIndex, Action>, WakeMe>);

/// Takes effect with a step, never within one.
bool changes_steps(const Decision& decision) {
  return std::holds_alternative<ShiftMicrobatches>(decision.what) ||
         std::holds_alternative<SetCollectiveTable>(decision.what) ||
         std::holds_alternative<SetCodec>(decision.what);
}

std::string codes_objection(const Scenario& scenario, const std::vector<CodecRule>& rules) {
  if (scenario.job().layout().shard() != "nothing") {
    return "gradients that are sharded travel as they are";
  }
  const bool coded = std::any_of(rules.begin(), rules.end(),
                                 [](const CodecRule& each) { return each.codec != Codec::none; });
  if (!coded || !summed_in_whole_numbers(scenario)) return "";
  return "live.reproducible: a sum with the same bits on any ranks bears no codes";
}

}  // namespace

Capabilities SimBackend::capabilities() const {
  return {.signals = kJobs | kSteps | kDevices | kLinks | kRanks | kCollectives |
                     kMembership,
          .actions = action_bit(kShiftIndex) | action_bit(kTableIndex) |
                     action_bit(kCodecIndex) | action_bit(kRecoverIndex) |
                     action_bit(kWakeIndex)};
}

DecisionOutcome SimBackend::outcome_of(const Decision& decision) const {
  DecisionOutcome outcome{.decision = decision.number, .status = Outcome::rejected, .reason = {}};
  if (decision.expires < now_ || (decision.if_epoch && decision.if_epoch->value != epoch_)) {
    outcome.status = Outcome::expired;
    return outcome;
  }
  const bool begun = decision.effective_at_step == step_ && decision.effective_at_step != 0 &&
                     open_.has_value() && changes_steps(decision);
  outcome.reason = world_.objection(decision);
  if (!outcome.reason.empty()) return outcome;
  if ((capabilities().actions & action_bit(decision.what.index())) == 0) {
    outcome.reason = "not possible in this run";
  } else if (const auto* recover = std::get_if<Recover>(&decision.what);
             recover && (recover->how > Recovery::replace || recover->spare ||
                         recover->state_from != StateSource::peer)) {
    outcome.reason = "a lost rank is replaced or given up, with a peer's state";
  } else if (const auto* codes = std::get_if<SetCodec>(&decision.what)) {
    outcome.reason = codes_objection(request_.scenario(), codes->rules);
  }
  if (outcome.reason.empty() && begun) outcome.reason = fmt::format("step {} has begun", step_);
  if (outcome.reason.empty()) outcome.status = Outcome::applied;
  return outcome;
}

void SimBackend::decide(const Decision& decision) {
  world_.announce(decision);
  const bool changes = changes_steps(decision);
  if (changes && decision.effective_at_step == 0 && open_.has_value()) {
    held_.push_back(decision);  // at once is: from the next step on
    return;
  }
  const DecisionOutcome outcome = outcome_of(decision);
  within_.emplace_back(now_, outcome);
  if (outcome.status != Outcome::applied) return;
  if (changes && decision.effective_at_step > step_) effects_.insert(decision.effective_at_step);
  if (const auto* recover = std::get_if<Recover>(&decision.what)) {
    for (const RankId rank : recover->exclude) {
      const auto lost = undecided_.extract(rank.value);
      if (lost.empty() || recover->how != Recovery::replace) continue;
      back_at_[rank.value] = lost.mapped() + request_.scenario().survival().replacement();
    }
  }
  if (const auto* wake = std::get_if<WakeMe>(&decision.what)) {
    wakes_.insert(std::max(wake->at, now_));
  }
}

void SimBackend::apply(std::span<const Decision> decisions, bool at_rest) {
  at_rest_ = at_rest;
  for (const Decision& decision : decisions) decide(decision);
  // Whatever no policy has decided otherwise: who is lost is replaced.
  for (const auto& [rank, since] : std::exchange(undecided_, {})) {
    back_at_[rank] = since + request_.scenario().survival().replacement();
  }
}

}  // namespace orrery
