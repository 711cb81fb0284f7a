// The part of LiveBackend that outlives its process. What has happened is written to the journal
// before anybody acts on it; a controller that takes over restores its counts from there, shows the
// policies every observation once more (they are deterministic, so they come to the same state, and
// the recorder to the same log), and makes up for what was not yet seen when its predecessor died:
// committed steps, decisions without an outcome, ranks that are gone. The step under way is done
// again in a new epoch.
#include <algorithm>
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/run/live_backend.hpp"
#include "live/run/unhurried_log.hpp"

namespace orrery::live {
std::unique_ptr<LogFile> LiveBackend::log_file(std::unique_ptr<LogFile> plain) {
  return std::make_unique<UnhurriedLog>(std::move(plain), UnhurriedLog::Patience{});
}

bool LiveBackend::goes_on_without_log(const std::string& why) {
  warn(fmt::format("the log is given up, the run goes on: {}", why));
  return true;
}

/// The run is worth more than its controller's successor. From this order on nothing that the
/// journal lacks can be missed: nobody will read it.
void LiveBackend::journal_is_gone(const std::string& why) {
  const std::string what = fmt::format("its journal could not be written: {}", why);
  supervision_.cannot_go_on_elsewhere(what);
  warn(fmt::format("the run goes on, but a death of its controller would end it: {}", what));
}

/// Nothing is open that a snapshot would not tell. A step may be under way: it is done again, as
/// after any death.
bool LiveBackend::at_peace() const {
  return stage_ == Stage::training && !replay_.more() && !observations_.waiting() &&
         !recovery_->untold() && !proposals_.open() && !gate_.has_unagreed();
}

void LiveBackend::begin_journal_anew() {
  if (!journal_.due() || !memory_.save || !at_peace()) return;
  JournalSnapshot now;
  if (!keep(world_, *now.mutable_world())) return;
  std::optional<std::string> memory = memory_.save();
  if (!memory) return;
  now.set_memory(std::move(*memory));
  crew_->keep(now);
  now.set_step(step_.number());
  now.set_started(clock_.started());
  if (resumed_) *now.mutable_resumed() = *resumed_;
  for (const JournalLoss& loss : failures_.all()) *now.add_losses() = loss;
  faults_->keep(now);
  now.set_halted(halted_.value_or(false));
  account_.keep(now);
  checkpoints_.keep(*now.mutable_checkpoints());
  now.set_sequence(observations_.sequence());
  now.mutable_wakes()->Add(gate_.wakes().begin(), gate_.wakes().end());
  recovery_->keep(now);
  detector_->keep(now);
  journal_.begin_anew(now);
}

void LiveBackend::restore(const JournalSnapshot& then) {
  step_.restore(then.step());
  observations_.go_on_at(then.sequence());
  orrery::live::restore(then.world(), world_);
  for (const Nanos at : then.wakes()) gate_.wake(at);
  recovery_->restore(then);
  halted_ = then.halted();
  detector_->restore(then);
  ensure(memory_.load != nullptr, "a journal begins anew only where policies are remembered");
  memory_.load(then.memory());
}

void LiveBackend::write_down_commit(Step step, std::span<const StepReport> reports,
                                    std::uint64_t epoch, Nanos at) {
  JournalRecord record;
  JournalCommit& commit = *record.mutable_commit();
  commit.set_step(step);
  commit.set_epoch(epoch);
  commit.set_at(at);
  for (const StepReport& report : reports) *commit.add_reports() = report;
  account_.keep(commit);
  commit.set_checkpoint(checkpoints_.planned());
  write_down(record);
}

void LiveBackend::restore() {
  account_.restore(past());
  if (past().snapshot) restore(*past().snapshot);
  if (!past().commits.empty()) step_.restore(past().commits.back().step() + 1);
  failures_.restore(past().losses);
  if (past().resumed) resumed_ = past().resumed;
  proposals_.go_on_after(past().core.decided);
  if (past().started) clock_.restore(*past().started);
}

Observation LiveBackend::replay() {
  const Observation seen = replay_.next();
  observations_.go_on_at(seen.sequence + 1);
  for (const Event& event : seen.events) {
    if (std::holds_alternative<JobDone>(event)) {
      stage_ = Stage::ended;
      clock_.go_on();
    }
    recovery_->told(event, seen.now);
    if (const auto* suspected = std::get_if<RanksSuspected>(&event)) detector_->told(*suspected);
  }
  return seen;
}

void LiveBackend::resume() {
  if (stage_ == Stage::ended) {
    return end_.gather(*crew_, step_.number(), failures_, journal_, clock_);
  }
  if (!past().started) {
    stage_ = Stage::waiting_for_start;
    return;
  }
  stage_ = Stage::training;
  clock_.go_on();
  ticks_.begin(needs_.tick, now());
  const CheckpointPlan& plan = job().now.get<CheckpointPlan>();
  if (checkpoints_.kept()) checkpoints_.set_every(plan.every_steps);
  for (const StepsDone& done : replay_.unseen_steps()) {
    happen(done);
    gate_.step_ended(kLiveJob, now());
  }
  recovery_->resume();
  gate_.resume(replay_.take_open(), now());
  faults_->strike_again();
  happen(Tick{});  // a wake may have been missed
}

bool LiveBackend::halted(bool now) {
  if (replay_.under_way()) {
    halted_ = replay_.halted();
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
