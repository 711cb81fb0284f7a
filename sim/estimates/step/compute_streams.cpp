#include "sim/estimates/step/compute_streams.hpp"

#include <algorithm>

namespace orrery::estimates {
namespace {

std::size_t most_micro_batches(const StepPrograms& programs) {
  std::size_t most = 0;
  for (std::uint32_t worker = 0; worker < programs.workers(); ++worker) {
    most = std::max(most, programs.index(worker).backward_blocks().size());
  }
  return most;
}

}  // namespace

ComputeStreams::ComputeStreams(const IterationRequest& request, const StepPrograms& programs,
                               const StepHardware& hardware, StepRecord& record,
                               OpListener& listener)
    : request_(request),
      programs_(programs),
      hardware_(hardware),
      record_(record),
      listener_(listener),
      streams_(programs.workers()),
      micro_batches_(most_micro_batches(programs)) {
  reset_streams();
}

void ComputeStreams::reset_streams() {
  streams_.assign(programs_.workers(), {});
  backward_left_.assign(programs_.workers() * micro_batches_, 0);
  for (std::uint32_t worker = 0; worker < programs_.workers(); ++worker) {
    const std::vector<std::uint32_t>& blocks = programs_.index(worker).backward_blocks();
    std::copy(blocks.begin(), blocks.end(), &backward_left_[worker * micro_batches_]);
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
  const double now = record_.now();
  ended_.push_back({worker, op, {at.began, at.ended, now}});
  if (ended_.size() == kBlocksAtOnce || record_.keeps_intervals()) record_blocks();
  at.busy = false;
  at.ended = now;
  at.last_dependency = OpKind::compute;
  listener_.on_op_end(worker, op);
  if (!listener_.is_over()) next(worker);
}

void ComputeStreams::record_blocks() {
  for (const EndedBlock& block : ended_) record_block(block);
  ended_.clear();
}

void ComputeStreams::record_block(const EndedBlock& block) {
  const Op& what = programs_.op(block.worker, block.op);
  record_.add_block(block.worker, what, block.times, programs_.price(what.block),
                    request_.state.clock);
  if (what.phase == Phase::backward &&
      --backward_left_[block.worker * micro_batches_ + what.micro_batch] == 0) {
    record_.micro_batch(block.worker);
  }
}

}  // namespace orrery::estimates
