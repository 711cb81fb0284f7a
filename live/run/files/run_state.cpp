#include "live/run/files/run_state.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "live/run/files/kept_checkpoints.hpp"
#include "live/run/files/kept_world.hpp"
#include "live/run/files/run_statistics.hpp"
#include "policies/record/encoding.hpp"
#include "policies/seam/job_lifecycle.hpp"

namespace orrery::live {
namespace {

using Refusal = std::optional<std::string>;

/// Returns the counters of a commit or of a snapshot.
template <class Record>
WorkCounters counters_of(const Record& record) {
  return {.cpu = {record.cpu().begin(), record.cpu().end()},
          .lost = record.lost(),
          .twice = record.twice(),
          .recomputed = record.recomputed()};
}

Refusal apply_loss(RunState& state, const JournalLoss& loss) {
  const std::size_t index = loss.index();
  if (index > state.losses.size()) return "lacks the record of a loss";
  if (index == state.losses.size()) state.losses.emplace_back();
  state.losses[index] = loss;
  return {};
}

/// Returns the job of the run; null before its submission, after its end and without a world.
const JobInfo* find_job(const RunState& state) {
  if (!state.world || state.world->jobs().empty()) return nullptr;
  return &*state.world->jobs().begin();
}

/// Sets the number of wanted ranks after the outcome of a decision.
void count_wanted(RunState& state, const DecidedRecord& outcome) {
  const auto assignment = state.open_assignments.extract(outcome.decision());
  if (assignment.empty() || outcome.status() != OUTCOME_APPLIED) return;
  state.wanted_ranks = assignment.mapped();
}

/// Applies an event to the world. The loss of a part that makes a pending assignment void leaves
/// the job with the number of its present GPUs.
Refusal apply_to_world(RunState& state, const Event& event, Nanos now) {
  if (std::string why = state.world->objection(event); !why.empty()) return why;
  const JobInfo* const job = find_job(state);
  const bool is_end = std::holds_alternative<JobDone>(event) && job != nullptr;
  if (is_end) state.at_end = {count_working_ranks(*job), job->next.has_value()};
  const bool was_assigned = job != nullptr && job->next;
  state.world->apply(event, now);
  const bool is_void = std::holds_alternative<PartChanged>(event) && was_assigned && !job->next;
  if (is_void && job->is_placed()) state.wanted_ranks = job->gpus.size();
  return {};
}

Refusal apply_events(RunState& state, const ObservationRecord& seen) {
  if (state.world) state.world->begin_batch();
  for (const EventRecord& record : seen.events()) {
    if (record.has_decided()) count_wanted(state, record.decided());
    if (!state.world) continue;
    if (Refusal why = apply_to_world(state, decode(record), seen.now())) {
      return "holds an impossible event: " + *why;
    }
  }
  return {};
}

Refusal apply_answer(RunState& state, const JournalRead& read) {
  state.wakes.insert(read.wakes().begin(), read.wakes().end());
  if (state.world) state.world->begin_batch();
  for (const DecisionRecord& record : read.decisions()) {
    const Decision decision = decode(record);
    if (const auto* assign = std::get_if<Assign>(&decision.what)) {
      state.open_assignments[decision.id] = assign->gpus.size();
    }
    if (state.world) state.world->announce_decision(decision);
  }
  return {};
}

Refusal apply_seen(RunState& state, const JournalSeen& seen, const RunRules& rules) {
  state.sequence = seen.observation().sequence() + 1;
  state.now = seen.observation().now();
  state.wakes.erase(state.wakes.begin(), state.wakes.upper_bound(state.now));
  for (const JournalLoss& loss : seen.losses()) {
    if (Refusal why = apply_loss(state, loss)) return why;
  }
  if (Refusal why = apply_events(state, seen.observation())) return why;
  for (const EventRecord& event : seen.observation().events()) {
    if (event.has_save_done()) apply_outcome(state.checkpoints, event.save_done(), rules.keep);
    const bool waits = event.has_job_held() || event.has_job_stopped();
    if (waits) state.held_since = seen.observation().now();
    if (event.has_job_started()) state.held_since = kNever;
  }
  return {};
}

Refusal apply_commit(RunState& state, const JournalCommit& commit, const RunRules& rules) {
  if (commit.step() != state.core.committed) return "lacks the commit of a step";
  state.core.committed = commit.step() + 1;
  state.furthest = std::max<Step>(state.furthest, commit.step() + 1);
  state.core.committed_in = commit.epoch();
  state.work = counters_of(commit);
  add_commit(state.statistics, commit, rules.ranks);
  if (commit.checkpoint() != 0) {
    begin_attempt(state.checkpoints, commit.step() + 1, commit.checkpoint(), commit.tier());
  }
  state.rolled_back.reset();
  return {};
}

void apply_rollback(RunState& state, const Resumption& from) {
  const Step next = state.core.committed;
  if (from.step() < next) roll_back_steps(state.statistics, next - from.step());
  forget_after(state.checkpoints, from.step());
  state.rolled_back = from;
  state.core.committed = from.step();
  state.core.committed_in = 0;
}

void apply_snapshot(RunState& state, const JournalSnapshot& then, const RunRules& rules) {
  state = {.empty = false,
           .core = {.epoch = then.membership().epoch(),
                    .committed = then.step(),
                    .committed_in = then.committed_in(),
                    .decided = then.membership().decided()},
           .started = then.started(),
           .furthest = std::max<Step>(then.furthest(), then.step()),
           .held_since = then.held_since(),
           .losses = {then.losses().begin(), then.losses().end()},
           .strikes = {then.strikes().begin(), then.strikes().end()},
           .removals = {then.removals().begin(), then.removals().end()},
           .work = counters_of(then),
           .statistics = then.statistics(),
           .checkpoints = then.checkpoints(),
           .wanted_ranks = then.ranks_wanted(),
           .wakes = {then.wakes().begin(), then.wakes().end()},
           .now = then.now(),
           .sequence = then.sequence(),
           .is_halted = then.halted()};
  for (const Seat& seat : then.joined()) state.joined.insert({seat.rank(), seat.life()});
  if (then.has_resumed()) state.resumed = then.resumed();
  if (then.has_rolled_back()) state.rolled_back = then.rolled_back();
  if (rules.cluster != nullptr) state.world = read_world(then.world(), *rules.cluster);
}

/// Applies a record; throws for a record that cannot be decoded. `first`: no record came before.
Refusal apply_record(RunState& state, const JournalRecord& record, const RunRules& rules,
                     bool first) {
  switch (record.kind_case()) {
    case JournalRecord::kSnapshot:
      if (!first) return "holds a snapshot after its first record";
      apply_snapshot(state, record.snapshot(), rules);
      return {};
    case JournalRecord::kMembership:
      state.core.epoch = record.membership().epoch();
      state.core.decided = record.membership().decided();
      return {};
    case JournalRecord::kStarted: state.started = record.started(); return {};
    case JournalRecord::kSeen: return apply_seen(state, record.seen(), rules);
    case JournalRecord::kCommit: return apply_commit(state, record.commit(), rules);
    case JournalRecord::kStrike: state.strikes.push_back(record.strike()); return {};
    case JournalRecord::kRemoval: state.removals.push_back(record.removal()); return {};
    case JournalRecord::kJoined:
      state.joined.insert({record.joined().rank(), record.joined().life()});
      return {};
    case JournalRecord::kHalted: state.is_halted = record.halted(); return {};
    case JournalRecord::kParametersSha256:
      state.parameters_sha256 = record.parameters_sha256();
      return {};
    case JournalRecord::kResumed:
      state.resumed = record.resumed();
      state.core.committed = record.resumed().step();
      return {};
    case JournalRecord::kRolledBack: apply_rollback(state, record.rolled_back()); return {};
    case JournalRecord::kRead: return apply_answer(state, record.read());
    case JournalRecord::kGivenUp: return {};
    case JournalRecord::kOpening:
    case JournalRecord::KIND_NOT_SET: break;
  }
  return "holds a record of an unknown kind";
}

}  // namespace

RunRules run_rules(const Scenario& scenario, const Cluster* cluster) {
  return {.ranks = scenario.job().layout().data(),
          .keep = std::max<std::size_t>(scenario.checkpoints().keep(), 1),
          .cluster = cluster};
}

std::optional<std::string> apply(RunState& state, const JournalRecord& record,
                                 const RunRules& rules) {
  const bool first = std::exchange(state.empty, false);
  if (first) state.wanted_ranks = rules.ranks;
  if (first && rules.cluster != nullptr) state.world.emplace(*rules.cluster);
  Refusal why;
  try {
    why = apply_record(state, record, rules, first);
  } catch (const Error& error) {
    why = "holds a record that cannot be applied: " + error.message();
  }
  if (why) state.refusal = *why;
  return why;
}

bool save_state(const RunState& state, JournalSnapshot& snapshot) {
  snapshot.mutable_membership()->set_epoch(state.core.epoch);
  snapshot.mutable_membership()->set_decided(state.core.decided);
  snapshot.set_step(state.core.committed);
  snapshot.set_furthest(state.furthest);
  snapshot.set_committed_in(state.core.committed_in);
  for (const membership::Seat& seat : state.joined) {
    Seat& joined = *snapshot.add_joined();
    joined.set_rank(seat.rank);
    joined.set_life(seat.life);
  }
  if (state.started) snapshot.set_started(*state.started);
  if (state.resumed) *snapshot.mutable_resumed() = *state.resumed;
  if (state.rolled_back) *snapshot.mutable_rolled_back() = *state.rolled_back;
  snapshot.set_held_since(state.held_since);
  snapshot.mutable_losses()->Add(state.losses.begin(), state.losses.end());
  snapshot.mutable_strikes()->Add(state.strikes.begin(), state.strikes.end());
  snapshot.mutable_removals()->Add(state.removals.begin(), state.removals.end());
  snapshot.mutable_cpu()->Add(state.work.cpu.begin(), state.work.cpu.end());
  snapshot.set_lost(state.work.lost);
  snapshot.set_twice(state.work.twice);
  snapshot.set_recomputed(state.work.recomputed);
  *snapshot.mutable_statistics() = state.statistics;
  *snapshot.mutable_checkpoints() = state.checkpoints;
  snapshot.set_sequence(state.sequence);
  snapshot.set_halted(state.is_halted);
  snapshot.set_ranks_wanted(state.wanted_ranks);
  snapshot.mutable_wakes()->Add(state.wakes.begin(), state.wakes.end());
  snapshot.set_now(state.now);
  const bool is_kept = !state.world || keep(*state.world, *snapshot.mutable_world());
  return is_kept && state.refusal.empty();
}

Nanos next_wake(const RunState& state) {
  return state.wakes.empty() ? kNever : *state.wakes.begin();
}

std::optional<std::string> apply(Past& past, const JournalRecord& record, const RunRules& rules) {
  if (past.seen.empty() && record.has_read()) return "holds an answer before the first observation";
  if (past.seen.empty() && record.kind_case() == JournalRecord::kGivenUp) {
    return "holds a call before the first observation";
  }
  RunState& state = past;
  if (Refusal why = apply(state, record, rules)) return why;
  if (record.has_snapshot()) {
    past.snapshot = record.snapshot();
    past.first_world = past.world;
    past.halted[0] = record.snapshot().halted();
  }
  if (record.has_seen()) past.seen.push_back(record.seen().observation());
  if (record.has_read()) past.read[past.seen.size() - 1].MergeFrom(record.read());
  if (record.has_commit()) past.commits.push_back(record.commit());
  if (record.kind_case() == JournalRecord::kGivenUp) {
    past.given_up[past.seen.size() - 1] = record.given_up();
  }
  if (record.kind_case() == JournalRecord::kHalted) past.halted[past.seen.size()] = record.halted();
  return {};
}

}  // namespace orrery::live
