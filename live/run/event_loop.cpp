// Loop of a live run: the part of StepDriver that waits for events of the ranks, passes each of
// them to the part of the run that has the rule, and sends the ranks their messages.
#include <variant>

#include "live/run/next_step.hpp"
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

void StepDriver::advance_run() {
  if (!over_) end_if_complete();
  give_orders();
  const bool may_return = !parts_.end.is_stopping() || parts_.crew.states().waits_for_fenced;
  if (!over_ && may_return) parts_.recovery.review_heard_ranks();
  begin_next_step();
  set_hardware(run_, parts_);
  parts_.crew.send_directives();
  if (!over_) review_run();
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
