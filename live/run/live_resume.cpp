// Part of LiveBackend that survives its process. Every event is written to the journal before the
// controller acts on it. A successor applies the same records to its RunState and replays every
// observation to the policies (deterministic policies reach the same state, and the recorder the
// same log). Then it calls the functions that every controller calls at the start of its clock,
// which begin with that state (StepDriver::begin_training()). The current step is repeated in a new
// epoch.
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "live/run/live_backend.hpp"
#include "policies/handover/hand_over.hpp"

namespace orrery::live {

std::unique_ptr<LogFile> LiveBackend::log_file(std::unique_ptr<LogFile> plain) {
  auto log = std::make_unique<UnhurriedLog>(std::move(plain), UnhurriedLog::Patience{});
  log_progress_ = log->progress();
  return log;
}

bool LiveBackend::can_continue_without_log(const std::string& why) {
  run_.desk.add_warning(run_.clock.now(),
                        fmt::format("the run continues without its log: {}", why));
  return true;
}

/// The run is more valuable than the ability to replace its controller. After this order no
/// successor reads the journal, so that no missing record can do harm.
void LiveBackend::journal_is_gone(const std::string& why) {
  const std::string what = fmt::format("the journal could not be written: {}", why);
  supervision_.forbid_restart(what);
  run_.desk.set_without_takeover(what);
  run_.desk.add_warning(
      run_.clock.now(),
      fmt::format(
          "the run continues without takeover: the death of its controller would end it: {}",
          what));
}

void LiveBackend::begin_journal_anew() {
  if (!memory_.save || !run_.journal.is_due()) return;
  if (!is_training() || run_.observations.has_pending() || !driver_->is_quiet()) return;
  JournalSnapshot now;
  if (!save_state(run_.journal.state(), now)) return;
  std::optional<std::string> memory = memory_.save();
  if (!memory) return;
  now.set_memory(std::move(*memory));
  if (!log_progress_) return run_.journal.begin_anew(std::move(now));
  run_.journal.begin_anew(std::move(now), LogProgress::flush_query(log_progress_));
}

/// Policies in shadow mode answer while the run continues, so the instants of their requests belong
/// to no call; their decisions have no effect.
void LiveBackend::compare_answer(const DecisionList& decisions) {
  const std::optional<std::string> difference = run_.replay.compare_answer(decisions);
  if (difference && hand_over_mode(run_.request.mode()) != HandOverMode::shadow) {
    std::vector<std::string> names;
    for (const PolicySpec& policy : run_.scenario().policies()) names.push_back(policy.name());
    run_.desk.add_warning(
        run_.journal.state().now,
        fmt::format("expected the {} '{}' to answer as before the controller's death, found a "
                    "difference in the {}; the run follows the recorded decisions, but its log "
                    "will not replay: make the policy deterministic",
                    names.size() == 1 ? "policy" : "policies", fmt::join(names, "', '"),
                    *difference));
  }
  if (run_.replay.has_differed() && memory_.show_world) memory_.show_world(run_.world());
  DecisionList unrecorded;
  for (const Nanos at : decisions.wake_times()) {
    const bool is_served = at <= run_.journal.state().now;
    if (!is_served && !run_.journal.state().wakes.contains(at)) unrecorded.wake(at);
  }
  run_.observations.record_answer(unrecorded);
}

std::string LiveBackend::given_up() {
  return run_.replay.is_replaying() ? run_.replay.given_up() : std::string();
}

bool LiveBackend::is_halted(bool now) {
  if (run_.replay.is_replaying()) return run_.replay.is_halted();
  if (run_.journal.state().is_halted != now) {
    JournalRecord record;
    record.set_halted(now);
    run_.journal.append_record(record);
  }
  return now;
}

}  // namespace orrery::live
