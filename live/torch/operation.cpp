#include "live/torch/operation.hpp"

#include <cstring>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include "live/group/virtual_ranks.hpp"

namespace orrery::live {
namespace {

constexpr std::size_t kMaxFreeBuffers = 64;

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
    if (free_[at].scalar_type() != like.scalar_type() || free_[at].sizes() != like.sizes())
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

OperationWork::OperationWork(int rank, c10d::OpType type, const char* title)
    : Work(rank, type, title),
      future_(
          c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {
}

void OperationWork::complete_work(const std::vector<at::Tensor>& result,
                                  std::exception_ptr problem) {
  result_ = result;
  if (problem != nullptr) {
    future_->setError(problem);
  } else {
    future_->markCompleted(c10::IValue(result));
  }
  finish(problem);
}

void copy_tensor(const at::Tensor& to, const at::Tensor& from) {
  if (to.is_contiguous() && from.is_contiguous() && to.scalar_type() == from.scalar_type()) {
    std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes());
    return;
  }
  const c10::InferenceMode mode;  // tensors of an inference mode may only be written in such a mode
  to.copy_(from.view_as(to));
}

void scale_sum(const at::Tensor& sum, const EpochView& view) {
  switch (sum.scalar_type()) {
    case at::kByte: return scale_integers<uint8_t>(sum, view);
    case at::kChar: return scale_integers<int8_t>(sum, view);
    case at::kShort: return scale_integers<int16_t>(sum, view);
    case at::kInt: return scale_integers<int32_t>(sum, view);
    case at::kLong: return scale_integers<int64_t>(sum, view);
    case at::kBool: return;
    default: sum.mul_(static_cast<double>(view.size) / static_cast<double>(view.alive.size()));
  }
}

bool is_carried(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& each : tensors) {
    if (!each.device().is_cpu() || each.layout() != at::kStrided) return false;
  }
  return true;
}

}  // namespace orrery::live
