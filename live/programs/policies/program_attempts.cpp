#include "live/programs/policies/program_attempts.hpp"

namespace orrery::live {

bool wants_restart(const ProgramOutcome& outcome) {
  const bool completes = outcome.exit_code == 0 || outcome.exit_code == kRanksMissing;
  return outcome.signal == 0 && !completes;
}

void ProgramAttempts::start(ProgramListener* listener) {
  prepare_(begun_++);
  run_ = std::make_unique<ProgramRun>(settings_, listener);
  run_->start();
}

bool ProgramAttempts::advance_run(int wait_ms) {
  if (run_->advance_run(wait_ms)) return true;
  outcomes_.push_back(run_->finish_run());
  run_.reset();
  settings_.replacements -= outcomes_.back().replacements;
  return false;
}

std::size_t ProgramAttempts::replacements_left() const {
  return settings_.replacements - (run_ ? run_->replacements() : 0);
}

}  // namespace orrery::live
