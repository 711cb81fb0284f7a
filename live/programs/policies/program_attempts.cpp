#include "live/programs/policies/program_attempts.hpp"

#include <algorithm>

namespace orrery::live {

bool wants_restart(const ProgramOutcome& outcome) {
  const bool completes = outcome.exit_code == 0 || outcome.exit_code == kRanksMissing;
  return outcome.signal == 0 && !completes;
}

ProgramAttempts::ProgramAttempts(ProgramSettings settings, std::size_t restarts,
                                 std::function<void(std::size_t)> prepare)
    : settings_(std::move(settings)),
      restarts_(restarts),
      replacements_(settings_.replacements),
      prepare_(std::move(prepare)) {
  if (!settings_.remains) return;
  is_taken_over_ = true;
  begun_ = settings_.remains->attempt;
  settings_.replacements -= std::min(settings_.replacements, settings_.remains->replacements);
}

void ProgramAttempts::start(ProgramListener* listener) {
  if (settings_.remains) {
    ++begun_;
    run_ = std::make_unique<ProgramRun>(settings_, listener);
    run_->take_over();
    settings_.remains.reset();
    return;
  }
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

RunRemains ProgramAttempts::remains() const {
  RunRemains remains = run_->remains();
  remains.attempt = begun_ - 1;
  remains.replacements = replacements_ - replacements_left();
  return remains;
}

std::size_t ProgramAttempts::replacements_left() const {
  return settings_.replacements - (run_ ? run_->replacements() : 0);
}

}  // namespace orrery::live
