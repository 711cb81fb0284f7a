// Loop of a live run: the part of StepDriver that waits for events of the ranks and passes each of
// them to the part of the run that has the rule.
#include <variant>

#include "live/run/step_driver.hpp"

namespace orrery::live {
namespace {

template <class... Each>
struct Hearing : Each... {
  using Each::operator()...;
};

}  // namespace

void StepDriver::await_events(Clock::time_point deadline) {
  for (const RankEvent& event : parts_.crew.wait(deadline)) handle_event(event);
  for (const SaveDone& done : parts_.saves.drain_events(run_.clock.now())) {
    // A checkpoint of a step that was rolled back is of no use to the policies.
    if (done.step <= run_.placement.job().step) emit_event(done);
  }
}

void StepDriver::handle_event(const RankEvent& event) {
  std::visit(
      Hearing{[this](const Incoming& incoming) { handle_message(incoming); },
              [this](const RankDied& died) { handle_loss(died); },
              [this](const membership::Revoked&) {
                parts_.step.mark_interrupted();
                parts_.gate.expire_settings(kLiveJob);
              },
              [this](const membership::Agreed&) {
                run_.failures.mark_known(run_.clock.now());
                if (!over_) parts_.recovery.emit_losses();
              },
              [this](const membership::Formed& formed) { handle_new_epoch(formed); },
              [this](const membership::Committed& committed) { commit_step(committed); },
              [this](const membership::Decided& lot) { parts_.proposals.apply_agreed(lot.number); },
              [this](const membership::Aborted& lot) { parts_.proposals.drop_batches(lot.number); },
              [this](const membership::Stuck&) {
                // If nobody is left, advance_run() lets the policies decide first.
                if (!parts_.recovery.is_nobody_left()) abandon_run(kWholeState);
              },
              [this](const GivenUp& given_up) { omit_rank(given_up); },
              [this](const StateGone& gone) { abandon_run(gone.what); }},
      event);
}

}  // namespace orrery::live
