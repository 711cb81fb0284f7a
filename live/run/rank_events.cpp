// Events of a live run: the part of StepDriver that is its loop. It passes each event of the ranks
// to the part of the run that has the rule, and the events of these parts to the policies.
#include <utility>
#include <variant>

#include "live/run/step_driver.hpp"

namespace orrery::live {
namespace {

template <class... Each>
struct Hearing : Each... {
  using Each::operator()...;
};

}  // namespace

void StepDriver::emit_event(Event event) {
  run_.desk.add_event(event, run_.clock.now());
  run_.observations.add_event(std::move(event));
}

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

void StepDriver::handle_message(const Incoming& incoming) {
  const std::uint32_t rank = incoming.rank;
  if (incoming.message->has_hello()) {
    run_.metrics.hello(rank, incoming.life);
  } else if (incoming.message->has_heartbeat()) {
    const Heartbeat& beat = incoming.message->heartbeat();
    run_.metrics.record_progress(rank, incoming.life, beat.progress());
    parts_.detector.record_heartbeat(rank, incoming.life, beat, run_.clock.now());
    run_.observations.telemetry().record_progress(rank, beat.progress(),
                                                  run_.clock.at(incoming.at));
  } else if (incoming.message->has_step_report()) {
    const StepReport& report = incoming.message->step_report();
    run_.metrics.record_sent_bytes(rank, incoming.life, report.bytes_sent());
    const std::uint64_t epoch = parts_.crew.epoch();
    const ReportedWork work = parts_.step.add_report(rank, incoming.life, report, epoch);
    if (work != ReportedWork::none) {
      run_.metrics.record_executions(report, work == ReportedWork::discarded);
    }
    if (report.epoch() == epoch) {
      parts_.replicas.record_report(rank, report, parts_.crew.members());
    }
  } else if (incoming.message->has_shard()) {
    run_.checkpoints.record_shard(incoming.message->shard());
    if (!over_) parts_.recovery.activate_when_ready(parts_.step.is_current(), parts_.step.number());
  }
}

}  // namespace orrery::live
