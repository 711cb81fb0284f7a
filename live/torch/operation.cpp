#include "live/torch/operation.hpp"

#include <cstring>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "live/group/virtual_ranks.hpp"

namespace orrery::live {
namespace {

constexpr std::size_t kMaxFreeBuffers = 64;

/// Devices of a future's tensors, as c10 wants them: none for the CPU.
std::vector<c10::Device> devices_of(c10::Device device) {
  if (device.is_cpu()) return {};
  return {device};
}

/// Multiplies whole numbers on a device and rounds them; exact up to 2^53.
void scale_device_integers(const at::Tensor& sum, double factor) {
  sum.copy_(sum.to(at::kDouble).mul_(factor).round_());
}

template <typename T>
void scale_integers(const at::Tensor& sum, const EpochView& view) {
  T* const values = sum.mutable_data_ptr<T>();
  for (int64_t at = 0; at < sum.numel(); ++at) {
    values[at] = scaled_sum<T>(values[at], view.size, view.alive.size());
  }
}

}  // namespace

at::Tensor BufferPool::claim_buffer(const at::Tensor& like) {
  for (std::size_t at = 0; at < free_.size(); ++at) {
    if (free_[at].scalar_type() != like.scalar_type() || free_[at].sizes() != like.sizes() ||
        free_[at].device() != like.device())
      continue;
    at::Tensor found = free_[at];
    free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(at));
    return found;
  }
  return at::empty(like.sizes(), like.options().memory_format(at::MemoryFormat::Contiguous));
}

void BufferPool::return_buffer(const at::Tensor& buffer) {
  free_.push_back(buffer);
  if (free_.size() > kMaxFreeBuffers) free_.erase(free_.begin());
}

OperationWork::OperationWork(int rank, c10d::OpType type, const char* title, c10::Device device,
                             std::shared_ptr<OperationTimes> times)
    : Work(rank, type, title),
      device_(device),
      times_(std::move(times)),
      future_(c10::make_intrusive<c10::ivalue::Future>(
          c10::ListType::create(c10::TensorType::get()), devices_of(device))) {}

bool OperationWork::wait(std::chrono::milliseconds timeout) {
  if (times_ != nullptr && times_->awaited_s == 0) times_->awaited_s = clock_s();
  return Work::wait(timeout);
}

void OperationWork::synchronize() {
  if (done_ == nullptr) return;
  done_->block(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
}

void OperationWork::complete_work(const std::vector<at::Tensor>& result,
                                  std::exception_ptr problem) {
  result_ = result;
  done_ = mark_queue(device_);
  if (problem != nullptr) {
    future_->setError(problem);
  } else {
    future_->markCompleted(c10::IValue(result));
  }
  finish(problem);
}

std::unique_ptr<c10::Event> mark_queue(c10::Device device) {
  if (device.is_cpu()) return nullptr;
  auto event = std::make_unique<c10::Event>(device.type());
  event->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return event;
}

void enter_stream(const c10::Stream& stream, const c10::Event* begun) {
  const c10::impl::VirtualGuardImpl guard(stream.device_type());
  guard.setDevice(stream.device());
  guard.exchangeStream(stream);
  if (begun != nullptr) begun->block(stream);
}

void copy_tensor(const at::Tensor& to, const at::Tensor& from) {
  if (!to.device().is_cpu()) {
    const c10::InferenceMode mode;
    to.copy_(from.view_as(to), true);
    const auto stream = c10::impl::VirtualGuardImpl(to.device().type()).getStream(to.device());
    for (const at::Tensor* each : {&to, &from}) each->record_stream(stream);
    return;
  }
  if (to.is_contiguous() && from.is_contiguous() && to.scalar_type() == from.scalar_type()) {
    std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes());
    return;
  }
  const c10::InferenceMode mode;  // tensors of an inference mode may only be written in such a mode
  to.copy_(from.view_as(to));
}

void scale_sum(const at::Tensor& sum, const EpochView& view) {
  const double factor = static_cast<double>(view.size) / static_cast<double>(view.alive.size());
  const bool is_integer = at::isIntegralType(sum.scalar_type(), false);
  if (is_integer && !sum.device().is_cpu()) return scale_device_integers(sum, factor);
  switch (sum.scalar_type()) {
    case at::kByte: return scale_integers<uint8_t>(sum, view);
    case at::kChar: return scale_integers<int8_t>(sum, view);
    case at::kShort: return scale_integers<int16_t>(sum, view);
    case at::kInt: return scale_integers<int32_t>(sum, view);
    case at::kLong: return scale_integers<int64_t>(sum, view);
    case at::kBool: return;
    default: sum.mul_(factor);
  }
}

bool is_carried(const std::vector<at::Tensor>& tensors, c10::DeviceType type) {
  for (const at::Tensor& each : tensors) {
    if (each.device().type() != type || each.layout() != at::kStrided) return false;
  }
  return true;
}

}  // namespace orrery::live
