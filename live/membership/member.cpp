#include "live/membership/member.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace orrery::live::membership {

bool Member::on_directive(const Directive& said) {
  const bool newer = std::pair(said.epoch, said.number) > std::pair(newest_.epoch, newest_.number);
  if (said.to != self_ || !newer) return false;
  const bool revokes = said.epoch > newest_.epoch;
  std::vector<Seat> members = std::move(newest_.members);
  newest_ = said;
  if (!revokes && said.members.empty()) newest_.members = std::move(members);
  if (said.epoch == state_.epoch) {
    state_.acknowledged = std::max(state_.acknowledged, said.proposed);
  }
  return revokes;
}

/// A held sum is valid only if its step was committed in the epoch that made the sum: while this
/// rank was disconnected, the other ranks may have repeated the step without it.
bool Member::may_apply() const {
  return state_.reduced && newest_.committed == state_.applied + 1 &&
         newest_.committed_in == state_.epoch;
}

Task Member::task() const {
  if (may_apply()) {
    return {.kind = Task::Kind::apply, .epoch = state_.epoch, .step = state_.applied};
  }
  if (newest_.epoch > state_.epoch) return {.kind = Task::Kind::enter, .epoch = newest_.epoch};
  if (state_.broken || newest_.members.empty()) return {};
  if (!state_.linked) {
    return {.kind = Task::Kind::link,
            .epoch = state_.epoch,
            .step = newest_.committed,
            .members = newest_.members,
            .source = newest_.source,
            .share = newest_.share};
  }
  if (!newest_.work || state_.reduced || newest_.committed != state_.applied) return {};
  return {.kind = Task::Kind::work,
          .epoch = state_.epoch,
          .step = newest_.committed,
          .members = newest_.members,
          .decided = newest_.decided};
}

void Member::mark_applied() {
  ensure(may_apply(), "only a committed step is applied");
  state_.reduced = false;
  ++state_.applied;
}

void Member::mark_listening(std::uint64_t epoch) {
  if (epoch != newest_.epoch || epoch == state_.epoch) return;
  state_.epoch = epoch;
  state_.reduced = false;
  state_.linked = false;
  state_.broken = false;
  state_.whole = state_.whole && state_.applied == newest_.committed;
  state_.acknowledged = newest_.proposed;
}

void Member::mark_linked(std::uint64_t epoch) {
  if (epoch != newest_.epoch || epoch != state_.epoch || state_.broken) return;
  state_.linked = true;
  if (!state_.whole) state_.applied = newest_.committed;  // no commit before all are linked
  state_.whole = true;
}

void Member::mark_reduced(std::uint64_t epoch, Step step) {
  if (epoch != state_.epoch || step != state_.applied) return;
  state_.reduced = true;
}

void Member::mark_broken(std::uint64_t epoch) {
  if (epoch == state_.epoch) state_.broken = true;
}

Status Member::status() {
  Status out = state_;
  out.from = self_;
  out.beat = ++beats_;
  return out;
}

}  // namespace orrery::live::membership
