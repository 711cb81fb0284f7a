#include "live/torch/operation_line.hpp"

#include <algorithm>
#include <utility>

#include <c10/core/impl/VirtualGuardImpl.h>

namespace orrery::live {

void OperationLine::add_operation(std::unique_ptr<Operation> operation) {
  waiting_.push_back(std::move(operation));
}

const Operation* OperationLine::next_operation() const {
  return waiting_.empty() ? nullptr : waiting_.front().get();
}

bool OperationLine::can_start_early() const {
  const Operation* const next = next_operation();
  return next != nullptr && next->starts_early &&
         std::all_of(in_flight_.begin(), in_flight_.end(), [&](const auto& each) {
           return each->starts_early && each->device == next->device;
         });
}

Operation& OperationLine::begin_next() {
  in_flight_.push_back(std::move(waiting_.front()));
  waiting_.pop_front();
  return *in_flight_.back();
}

void OperationLine::keep_result(std::size_t place, std::size_t count, BufferPool& pool) {
  kept_.push_back(in_flight_.at(place));
  for (; kept_.size() > count; kept_.pop_front()) {
    if (!kept_.front()->is_reusable) continue;
    for (const at::Tensor& buffer : kept_.front()->buffers) pool.return_buffer(buffer);
  }
}

void OperationStarts::start_operation(Operation& operation, const EpochView& view,
                                      std::uint64_t epoch) {
  enter_stream_of(operation);
  operation.buffers.clear();
  operation.works.clear();
  if (operation.prepare) operation.prepare(operation, pool_);
  operation.begun_s = clock_s();
  if (const auto work = operation.perform(operation, view)) operation.works.push_back(work);
  operation.started_in = epoch;
}

void OperationStarts::enter_stream_of(const Operation& operation) {
  if (operation.device.is_cpu()) return;
  if (!stream_ || stream_->device() != operation.device) {
    const c10::impl::VirtualGuardImpl guard(operation.device.type());
    stream_ = guard.getStreamFromGlobalPool(operation.device, true);
  }
  enter_stream(*stream_, operation.begun.get());
}

}  // namespace orrery::live
