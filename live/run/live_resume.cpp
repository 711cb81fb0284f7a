// The part of LiveBackend that outlives its process. What has happened is written to the journal
// before anybody acts on it; a controller that takes over restores its counts from there, shows the
// policies every observation once more (they are deterministic, so they come to the same state, and
// the recorder to the same log), and makes up for what was not yet seen when its predecessor died:
// committed steps, decisions without an outcome, ranks that are gone. The step under way is done
// again in a new epoch.
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/run/files/kept_world.hpp"
#include "live/run/files/unhurried_log.hpp"
#include "live/run/live_backend.hpp"

namespace orrery::live {

std::unique_ptr<LogFile> LiveBackend::log_file(std::unique_ptr<LogFile> plain) {
  return std::make_unique<UnhurriedLog>(std::move(plain), UnhurriedLog::Patience{});
}

bool LiveBackend::goes_on_without_log(const std::string& why) {
  desk_.warn(clock_.now(), fmt::format("the log is given up, the run goes on: {}", why));
  return true;
}

/// The run is worth more than its controller's successor. From this order on nothing that the
/// journal lacks can be missed: nobody will read it.
void LiveBackend::journal_is_gone(const std::string& why) {
  const std::string what = fmt::format("its journal could not be written: {}", why);
  supervision_.cannot_go_on_elsewhere(what);
  desk_.warn(clock_.now(),
             fmt::format("the run goes on, but a death of its controller would end it: {}", what));
}

void LiveBackend::begin_journal_anew() {
  if (!journal_.due() || !memory_.save) return;
  if (!trains() || observations_.waiting() || !driver_->at_peace()) return;
  JournalSnapshot now;
  if (!keep(replay_.world(), *now.mutable_world())) return;
  std::optional<std::string> memory = memory_.save();
  if (!memory) return;
  now.set_memory(std::move(*memory));
  driver_->keep(now);
  now.set_started(clock_.started());
  for (const JournalLoss& loss : failures_.all()) *now.add_losses() = loss;
  now.set_halted(halted_);
  account_.keep(now);
  checkpoints_.keep(now);
  now.set_sequence(observations_.sequence());
  journal_.begin_anew(now);
}

void LiveBackend::restore() {
  const Past& past = journal_.past();
  account_.restore(past);
  failures_.restore(past.losses);
  if (past.started) clock_.restore(*past.started);
  if (!past.snapshot) return;
  const JournalSnapshot& then = *past.snapshot;
  observations_.go_on_at(then.sequence());
  orrery::live::restore(then.world(), replay_.world());
  halted_ = then.halted();
  ensure(memory_.load != nullptr, "a journal begins anew only where policies are remembered");
  memory_.load(then.memory());
}

Observation LiveBackend::replay() {
  const Observation seen = replay_.next();
  observations_.go_on_at(seen.sequence + 1);
  for (const Event& event : seen.events) {
    driver_->told(event, seen.now);
    if (!std::holds_alternative<JobDone>(event)) continue;
    stage_ = Stage::ended;
    clock_.go_on();
  }
  return seen;
}

void LiveBackend::resume() {
  if (stage_ == Stage::ended) {
    driver_->finish();
    return;
  }
  if (!journal_.past().started) {
    stage_ = Stage::waiting_for_start;
    return;
  }
  stage_ = Stage::training;
  clock_.go_on();
  ticks_.begin(needs_.tick, clock_.now());
  driver_->resume(replay_.unseen_steps(), replay_.take_open());
}

bool LiveBackend::halted(bool now) {
  if (replay_.under_way()) return halted_ = replay_.halted();
  if (halted_ != now) {
    JournalRecord record;
    record.set_halted(now);
    journal_.append(record);
  }
  return halted_ = now;
}

}  // namespace orrery::live
