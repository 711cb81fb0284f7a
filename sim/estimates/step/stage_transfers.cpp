#include "sim/estimates/step/stage_transfers.hpp"

#include <vector>

namespace orrery::estimates {

StageTransfers::StageTransfers(const Plan& plan, StepPrograms& programs, Flights& flights,
                               StepRecord& record, OpListener& listener)
    : plan_(plan), programs_(programs), flights_(flights), record_(record), listener_(listener) {}

void StageTransfers::start_send(std::uint32_t worker, std::uint32_t op) {
  const Op& what = programs_.op(worker, op);
  const auto to = static_cast<std::uint32_t>(what.peer_stage);
  const std::uint32_t way =
      plan_.transfer(programs_.class_of(worker), programs_.stage_of(worker), to);
  const auto [receiver, wanted] = programs_.receive_of(worker, op);
  const MemoryHint hint = listener_.memory_of_end(receiver, wanted);
  if (!record_.keeps_intervals()) {  // needs no memory of its own
    flights_.start(
        way, what.bytes.value, {}, [this, worker, op] { end_send(worker, op); }, hint);
    return;
  }
  flights_.start(
      way, what.bytes.value, {},
      [this, worker, op, from = record_.now()] {
        record_.add_interval(worker, Slice::Track::communication, programs_.op(worker, op), from);
        end_send(worker, op);
      },
      hint);
}

/// Forward passes send to the next stage.
const void* StageTransfers::memory_of(std::uint32_t worker, Phase phase) const {
  const std::vector<std::uint32_t>& ways = phase == Phase::forward ? plan_.onward : plan_.back;
  const bool exists = worker < ways.size() && ways[worker] != Plan::kNoTransfer;
  return exists ? flights_.memory_of(ways[worker]) : nullptr;
}

void StageTransfers::end_send(std::uint32_t worker, std::uint32_t op) {
  const auto [receiver, wanted] = programs_.receive_of(worker, op);
  const bool waits = programs_.satisfy_one(receiver, wanted);
  listener_.on_op_end(worker, op);
  if (!listener_.is_over() && waits) listener_.on_op_end(receiver, wanted);
}

}  // namespace orrery::estimates
