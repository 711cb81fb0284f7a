#include "sim/estimates/step/compute_streams.hpp"

namespace orrery::estimates {

ComputeStreams::ComputeStreams(const IterationRequest& request, const StepPrograms& programs,
                               const StepHardware& hardware, StepRecord& record,
                               OpListener& listener)
    : request_(request),
      programs_(programs),
      hardware_(hardware),
      record_(record),
      listener_(listener),
      streams_(programs.workers()) {
  reset_streams();
}

void ComputeStreams::reset_streams() {
  for (std::uint32_t worker = 0; worker < programs_.workers(); ++worker) {
    streams_[worker] = {.backward_left = programs_.index(worker).backward_blocks()};
  }
}

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
  at.running_members = hardware_.host_count(worker);
  const BlockPrice& price = programs_.price(what.block);
  for (std::uint32_t i = 0; i < hardware_.host_count(worker); ++i) {
    request_.engine.start_computation(hardware_.first_host(worker) + i,
                                      kernel_time(price, request_.state.clock),
                                      [this, worker, op](bool) { member_ended(worker, op); });
  }
}

void ComputeStreams::member_ended(std::uint32_t worker, std::uint32_t op) {
  Stream& at = streams_[worker];
  if (--at.running_members > 0) return;
  at.ended = record_.now();  // end of the kernels; block_ended sets the end of the block
  const double tensor = programs_.price(programs_.op(worker, op).block).tensor.value;
  if (tensor == 0) return block_ended(worker, op);
  request_.engine.after(tensor, [this, worker, op] { block_ended(worker, op); });
}

void ComputeStreams::block_ended(std::uint32_t worker, std::uint32_t op) {
  Stream& at = streams_[worker];
  const Op& what = programs_.op(worker, op);
  record_.add_block(worker, what, at.began, at.ended, programs_.price(what.block),
                    request_.state.clock);
  if (what.phase == Phase::backward && --at.backward_left[what.micro_batch] == 0) {
    record_.micro_batch(worker);
  }
  at.busy = false;
  at.ended = record_.now();
  at.last_dependency = OpKind::compute;
  listener_.on_op_end(worker, op);
  if (!listener_.is_over()) next(worker);
}

}  // namespace orrery::estimates
