// The part of LiveBackend that outlives its process. What has happened is written to the journal
// before anybody acts on it; a controller that takes over restores its counts from there, shows the
// policies every observation once more (they are deterministic, so they come to the same state, and
// the recorder to the same log), and makes up for what was not yet seen when its predecessor died:
// committed steps, decisions without an outcome, ranks that are gone. The step under way is done
// again in a new epoch.
#include <algorithm>
#include <csignal>
#include <utility>

#include "live/live_backend.hpp"

namespace orrery::live {
namespace {

constexpr JobId kJob{0};

}  // namespace

void LiveBackend::write_down(const JournalRecord& record) {
  if (journal_.append(record) || std::exchange(journal_failed_, true)) return;
  supervision_.cannot_go_on_elsewhere("its journal could not be written");
}

void LiveBackend::write_down_commit(std::span<const StepReport> reports, std::uint64_t epoch,
                                    Nanos at) {
  JournalRecord record;
  JournalCommit& commit = *record.mutable_commit();
  commit.set_step(step_);
  commit.set_epoch(epoch);
  commit.set_at(at);
  for (const StepReport& report : reports) *commit.add_reports() = report;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    const Nanos now = cpu_at_start_[rank] < 0 ? 0 : cpu_now_[rank] - cpu_at_start_[rank];
    commit.add_cpu(cpu_before_[rank] + now);
  }
  commit.set_lost(ledger_.lost());
  commit.set_twice(ledger_.repeated());
  commit.set_recomputed(ledger_.recomputed());
  commit.set_checkpoint(checkpoints_.planned());
  write_down(record);
}

void LiveBackend::restore() {
  for (const JournalCommit& commit : past().commits) {
    const std::vector<StepReport> reports(commit.reports().begin(), commit.reports().end());
    statistics_.commit(reports, commit.at());
  }
  if (!past().commits.empty()) {
    const JournalCommit& last = past().commits.back();
    ledger_.restore(last.lost(), last.twice(), last.recomputed());
    cpu_before_.assign(last.cpu().begin(), last.cpu().end());
    step_ = last.step() + 1;
  }
  failures_.restore(past().losses);
  for (const JournalStrike& strike : past().strikes) {
    const bool noticed = std::ranges::any_of(past().losses, [&](const JournalLoss& loss) {
      return loss.rank() == strike.rank() && loss.report().time_s() == to_seconds(strike.at());
    });
    faults_.restore(strike.fault(), strike.rank(), strike.at(), noticed);
  }
  proposals_ = past().core.decided;
  if (!past().started) return;
  start_ = Clock::time_point(std::chrono::nanoseconds(*past().started));
}

Observation LiveBackend::replay(const ObservationRecord& record) {
  in_replay_ = true;
  sequence_ = record.sequence() + 1;
  const Observation seen = reader_.read(record);
  for (const Event& event : seen.events) {
    if (std::holds_alternative<StepDone>(event)) ++done_seen_;
    if (std::holds_alternative<JobDone>(event)) stage_ = Stage::ended;
    if (const auto* lost = std::get_if<RankLost>(&event)) {
      undecided_.insert(lost->rank.value);
    }
    if (const auto* back = std::get_if<RankBack>(&event)) {
      to_replace_.erase(back->rank.value);
      left_out_.erase(back->rank.value);
    }
    if (const auto* outcome = std::get_if<DecisionOutcome>(&event)) settle(*outcome);
  }
  return seen;
}

/// What a policy has decided about lost ranks; where it has decided nothing, they are replaced.
void LiveBackend::replay_decisions(std::span<const Decision> decisions) {
  for (const Decision& decision : decisions) {
    world_.announce(decision);
    open_[decision.number] = decision;
    if (const auto* recover = std::get_if<Recover>(&decision.what)) {
      for (const RankId rank : recover->exclude) undecided_.erase(rank.value);
    }
    if (const auto* wake = std::get_if<WakeMe>(&decision.what)) wakes_.insert(wake->at);
  }
  for (const std::uint32_t rank : std::exchange(undecided_, {})) to_replace_.insert(rank);
}

void LiveBackend::settle(const DecisionOutcome& outcome) {
  const auto decision = open_.extract(outcome.decision);
  if (decision.empty()) return;
  const auto* recover = std::get_if<Recover>(&decision.mapped().what);
  if (!recover) return;
  const bool shrunk = recover->how == Recovery::shrink && outcome.status == Outcome::applied;
  const JobInfo& job = world_.jobs()[kJob.value];
  for (const RankId rank : recover->exclude) {
    if (job.ranks[rank.value] == Health::ok) continue;
    (shrunk ? left_out_ : to_replace_).insert(rank.value);
  }
}

void LiveBackend::resume() {
  if (stage_ == Stage::ended) return gather_parameters();
  if (!past().started) {
    stage_ = Stage::waiting_for_start;
    return;
  }
  stage_ = Stage::training;
  next_tick_ = tick_period_ > 0 ? (now() / tick_period_ + 1) * tick_period_ : kNever;
  const std::vector<JournalCommit>& commits = past().commits;
  for (std::size_t i = done_seen_; i < commits.size(); ++i) {
    const Nanos before = i > 0 ? commits[i - 1].at() : 0;
    happen(StepDone{.job = kJob, .step = commits[i].step(), .duration = commits[i].at() - before});
  }
  for (const auto& [number, decision] : std::exchange(open_, {})) {
    if (const auto* recover = std::get_if<Recover>(&decision.what)) {
      for (const RankId rank : recover->exclude) undecided_.insert(rank.value);
    }
    take_up(decision);
  }
  to_replace_.merge(std::exchange(undecided_, {}));
  for (const std::uint32_t rank : std::exchange(to_replace_, {})) {
    if (!crew_->running(rank)) crew_->replace(rank);
  }
  for (const JournalStrike& strike : past().strikes) {
    if (faults_.unnoticed(strike.rank())) crew_->signal(strike.rank(), SIGKILL);
  }
  if (!can_go_on(world_.jobs()[kJob.value])) return give_up();
  happen(Tick{});  // a wake may have been missed
}

bool LiveBackend::halted(bool now) {
  if (in_replay_) {
    const auto after = past().halted.upper_bound(replayed_);
    halted_ = after != past().halted.begin() && std::prev(after)->second;
    return *halted_;
  }
  if (halted_.value_or(false) != now) {
    JournalRecord record;
    record.set_halted(now);
    write_down(record);
  }
  halted_ = now;
  return now;
}

}  // namespace orrery::live
