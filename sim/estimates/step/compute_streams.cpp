#include "sim/estimates/step/compute_streams.hpp"

#include <vector>

namespace orrery::estimates {

ComputeStreams::ComputeStreams(const IterationRequest& request, const StepPrograms& programs,
                               const StepHardware& hardware, StepRecord& record,
                               OpListener& listener)
    : request_(request),
      programs_(programs),
      hardware_(hardware),
      record_(record),
      listener_(listener),
      streams_(programs.workers()),
      log_(programs.workers(), programs.most_blocks()) {}

void ComputeStreams::reset_streams() { streams_.assign(programs_.workers(), {}); }

void ComputeStreams::next(std::uint32_t worker) {
  Stream& at = streams_[worker];
  const std::vector<std::uint32_t>& order = programs_.index(worker).compute_order();
  if (at.busy || at.next == order.size()) return;
  const std::uint32_t op = order[at.next];
  if (programs_.has_missing(worker, op)) return;
  ++at.next;
  start(worker, op);
}

void ComputeStreams::start(std::uint32_t worker, std::uint32_t op) {
  Stream& at = streams_[worker];
  const Op& what = programs_.op(worker, op);
  at.busy = true;
  at.began = record_.now();
  const bool waits_for_data = at.last_dependency == OpKind::read;
  const bool is_held_up = waits_for_data || at.last_dependency == OpKind::collective;
  if (is_held_up && is_pass(what.phase)) {
    record_.add_exposed_time(worker, at.began - at.ended, waits_for_data);
  }
  at.running_members = static_cast<std::uint16_t>(hardware_.host_count(worker));
  const BlockPrice& price = programs_.price(what.block);
  for (std::uint32_t i = 0; i < hardware_.host_count(worker); ++i) {
    request_.engine.start_computation(hardware_.first_host(worker) + i,
                                      kernel_time(price, request_.state.clock),
                                      [this, worker, op](bool) { member_ended(worker, op); });
  }
}

void ComputeStreams::member_ended(std::uint32_t worker, std::uint32_t op) {
  if (hardware_.host_count(worker) > 1 && --streams_[worker].running_members > 0) return;
  streams_[worker].kernels_ended = record_.now();
  const double tensor = programs_.price(programs_.op(worker, op).block).tensor.value;
  if (tensor == 0) return block_ended(worker, op);
  MemoryHint hint = listener_.memory_of_end(worker, op);
  hint.addresses.back() = log_.memory_of(worker, streams_[worker].next - 1);
  request_.engine.start_timer(
      tensor, [this, worker, op] { block_ended(worker, op); }, hint);
}

void ComputeStreams::block_ended(std::uint32_t worker, std::uint32_t op) {
  Stream& at = streams_[worker];
  at.busy = false;
  at.ended = record_.now();
  at.last_dependency = OpKind::compute;
  log_.set_block(worker, at.next - 1, {at.began, at.kernels_ended, at.ended});
  if (record_.keeps_intervals()) {
    record_.add_interval(worker, Slice::Track::compute, programs_.op(worker, op), at.began);
  }
  listener_.on_op_end(worker, op);
  if (!listener_.is_over()) next(worker);
}

void ComputeStreams::record_blocks() {
  std::vector<std::uint32_t> backward_left;  // blocks of the worker by micro-batch
  for (std::uint32_t worker = 0; worker < programs_.workers(); ++worker) {
    const ProgramIndex& index = programs_.index(worker);
    const Stream& at = streams_[worker];
    const std::uint32_t ended = at.busy ? at.next - 1 : at.next;
    backward_left = index.backward_blocks();
    for (std::uint32_t i = 0; i < ended; ++i) {
      const Op& what = index.ops()[index.compute_order()[i]];
      record_.add_block(worker, what, log_.times_of(worker, i), programs_.price(what.block),
                        request_.state.clock);
      if (what.phase == Phase::backward && --backward_left[what.micro_batch] == 0) {
        record_.micro_batch(worker);
      }
    }
  }
}

}  // namespace orrery::estimates
