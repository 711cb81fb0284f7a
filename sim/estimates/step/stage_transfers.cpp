#include "sim/estimates/step/stage_transfers.hpp"

#include "core/error.hpp"

namespace orrery::estimates {

StageTransfers::StageTransfers(const Plan& plan, const StepPrograms& programs, Flights& flights,
                               StepRecord& record, OpListener& listener)
    : plan_(plan),
      programs_(programs),
      flights_(flights),
      record_(record),
      listener_(listener),
      here_(programs.workers()) {
  reset_transfers();
}

void StageTransfers::reset_transfers() {
  for (std::uint32_t worker = 0; worker < programs_.workers(); ++worker) {
    here_[worker].assign(programs_.index(worker).ops().size(), false);
  }
}

void StageTransfers::start_send(std::uint32_t worker, std::uint32_t op) {
  const Op& what = programs_.op(worker, op);
  const auto to = static_cast<std::uint32_t>(what.peer_stage);
  const CommPlan& way = plan_.transfer(programs_.class_of(worker), programs_.stage_of(worker), to);
  flights_.start(way, what.bytes.value, {}, [this, worker, op, from = record_.now()] {
    record_.add_interval(worker, Slice::Track::communication, programs_.op(worker, op), from);
    end_send(worker, op);
  });
}

void StageTransfers::end_send(std::uint32_t worker, std::uint32_t op) {
  const Op& what = programs_.op(worker, op);
  const std::uint32_t receiver =
      programs_.at_stage(worker, static_cast<std::uint32_t>(what.peer_stage));
  const std::uint32_t wanted =
      programs_.index(receiver).receive_op(what.phase, what.micro_batch, what.chunk);
  ensure(wanted != ProgramIndex::kNone, "every send has a matching receive");
  const bool waits = here_[receiver][wanted];
  here_[receiver][wanted] = true;
  listener_.on_op_end(worker, op);
  if (!listener_.is_over() && waits) listener_.on_op_end(receiver, wanted);
}

void StageTransfers::record_receive(std::uint32_t worker, std::uint32_t op) {
  if (here_[worker][op]) return listener_.on_op_end(worker, op);
  here_[worker][op] = true;
}

}  // namespace orrery::estimates
