// Events between the ranks and the policies: the part of StepDriver that records the messages of
// ranks and emits events to the policies and the operator.
#include <utility>

#include "live/run/step_driver.hpp"

namespace orrery::live {

void StepDriver::emit_event(Event event) {
  run_.desk.add_event(event, run_.clock.now());
  run_.observations.add_event(std::move(event));
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
