// The part of LiveBackend that decisions pass: what they are checked against, how those that
// all ranks must follow are put to them, and what becomes of them.
#include <utility>

#include <fmt/format.h>

#include "live/all_reduce.hpp"
#include "live/live_backend.hpp"
#include "live/plan_codecs.hpp"

namespace orrery::live {

void LiveBackend::answer(std::uint64_t decision, Outcome status, std::string reason) {
  happen(DecisionOutcome{decision, status, std::move(reason)});
}

/// What stands against a decision now; an outcome that is not `applied` has been answered.
bool LiveBackend::acceptable(const Decision& decision) {
  if (decision.expires < now()) {
    answer(decision.number, Outcome::expired, "too late");
  } else if (decision.if_epoch && decision.if_epoch->value != crew_->epoch()) {
    answer(decision.number, Outcome::rejected, "membership has changed");
  } else if (std::string why = world_.objection(decision); !why.empty()) {
    answer(decision.number, Outcome::rejected, std::move(why));
  } else {
    return true;
  }
  return false;
}

void LiveBackend::decide(const Decision& decision) {
  world_.announce(decision);
  take_up(decision);
}

void LiveBackend::take_up(const Decision& decision) {
  if (!acceptable(decision)) return;
  if (const auto* wake = std::get_if<WakeMe>(&decision.what)) {
    wakes_.insert(wake->at);
    return answer(decision.number, Outcome::applied, "");
  }
  if (const auto* recover = std::get_if<Recover>(&decision.what)) {
    return decide_recovery(decision.number, *recover);
  }
  const auto* codes = std::get_if<SetCodec>(&decision.what);
  const auto* table = std::get_if<SetCollectiveTable>(&decision.what);
  if (codes && scenario_.live().reproducible() && lossy(codes->rules)) {
    return answer(decision.number, Outcome::rejected,
                  "live.reproducible: a sum with the same bits on any ranks bears no codes");
  }
  if (table && !on_gpus()) {
    std::string why = objection_to(table->rules);
    if (!why.empty()) return answer(decision.number, Outcome::rejected, std::move(why));
  }
  // NCCL has no links for codes between any two ranks.
  const bool coded = codes && !on_gpus();
  if (coded || table || std::holds_alternative<ShiftMicrobatches>(decision.what)) {
    return unproposed_.push_back(decision);
  }
  answer(decision.number, Outcome::rejected, "not something that live mode carries out");
}

void LiveBackend::decide_recovery(std::uint64_t number, const Recover& recover) {
  const bool possible = recover.how == Recovery::replace || recover.how == Recovery::shrink;
  if (!possible || recover.spare || recover.state_from != StateSource::peer) {
    return answer(number, Outcome::rejected, "live mode replaces or shrinks, with a peer's state");
  }
  for (const RankId rank : recover.exclude) {
    if (undecided_.erase(rank.value) == 0) continue;
    if (recover.how == Recovery::replace) {
      crew_->replace(rank.value);
    } else {
      left_out_.insert(rank.value);
    }
  }
  answer(number, Outcome::applied, "");
}

/// A decision that all ranks must follow is put to them first.
void LiveBackend::propose() {
  if (unproposed_.empty() || !crew_->running()) return;
  proposed_[++proposals_] = std::exchange(unproposed_, {});
  crew_->propose(proposals_);
}

void LiveBackend::take_in(const membership::Decided& decided) {
  while (!proposed_.empty() && proposed_.begin()->first <= decided.number) {
    const auto agreed = proposed_.extract(proposed_.begin());
    for (const Decision& decision : agreed.mapped()) carry_out(decision);
  }
}

void LiveBackend::take_in(const membership::Aborted& aborted) {
  while (!proposed_.empty() && proposed_.begin()->first <= aborted.number) {
    const auto dropped = proposed_.extract(proposed_.begin());
    for (const Decision& decision : dropped.mapped()) {
      answer(decision.number, Outcome::rejected, "membership has changed");
    }
  }
}

/// All ranks hold the decision: it takes effect with a plan to come.
void LiveBackend::carry_out(const Decision& decision) {
  const bool now_or_never = under_way_ && decision.effective_at_step <= step_;
  if (now_or_never && decision.effective_at_step == 0) return deferred_.push_back(decision);
  if (!acceptable(decision)) return;
  if (now_or_never) {
    return answer(decision.number, Outcome::rejected, fmt::format("step {} has begun", step_));
  }
  answer(decision.number, Outcome::applied, "");
}

void LiveBackend::apply(std::span<const Decision> decisions, bool) {
  if (in_replay_) return replay_decisions(decisions);
  for (const Decision& decision : decisions) decide(decision);
  // Whatever no policy has decided otherwise: who is lost is replaced.
  for (const std::uint32_t rank : std::exchange(undecided_, {})) crew_->replace(rank);
  if (stage_ != Stage::training) return;
  propose();
  go_on();
  crew_->send_directives();
}

}  // namespace orrery::live
