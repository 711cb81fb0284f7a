#include "live/torch/tensor_sums.hpp"

#include <cstdint>
#include <stdexcept>
#include <vector>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

namespace orrery::live {
namespace {

template <typename T>
void add_as(SharedSums& sums, const at::Tensor& values, const at::Tensor& sum,
            std::chrono::milliseconds timeout) {
  const auto count = static_cast<std::size_t>(values.numel());
  try {
    sums.add_values<T>({values.const_data_ptr<T>(), count}, {sum.mutable_data_ptr<T>(), count},
                       timeout);
  } catch (const std::runtime_error& error) {
    throw c10::DistBackendError({__func__, __FILE__, __LINE__}, error.what());
  }
}

}  // namespace

std::shared_ptr<SharedSums> open_sums(c10d::Store& store, const std::string& key, std::size_t own,
                                      std::size_t members) {
  if (members < 2) return nullptr;
  std::shared_ptr<SharedSums> sums;
  try {
    if (own > 0) {
      const std::vector<std::uint8_t> place = store.get(key);
      return SharedSums::open_memory({place.begin(), place.end()}, own, {members});
    }
    sums = SharedSums::create_memory({members});
  } catch (const std::runtime_error&) {  // sockets do the same
    if (own > 0) return nullptr;
  }
  const std::string place = sums == nullptr ? "" : sums->memory_place();
  store.set(key, std::vector<std::uint8_t>(place.begin(), place.end()));
  return sums;
}

std::vector<at::Tensor> in_memory_order(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> flat;
  for (const at::Tensor& each : tensors) {
    const bool is_dense = each.layout() == at::kStrided && each.is_non_overlapping_and_dense();
    flat.push_back(is_dense ? each.detach().as_strided({each.numel()}, {1}) : each);
  }
  return flat;
}

bool is_summable(const std::vector<at::Tensor>& tensors, c10d::ReduceOp op) {
  if (tensors.size() != 1 || !(op == c10d::ReduceOp::SUM) || tensors[0].numel() == 0) return false;
  const at::ScalarType type = tensors[0].scalar_type();
  return tensors[0].device().is_cpu() && (type == at::kFloat || type == at::kDouble ||
                                          type == at::kInt || type == at::kLong);
}

void add_tensors(SharedSums& sums, const at::Tensor& tensor, const at::Tensor& sum,
                 std::chrono::milliseconds timeout) {
  const at::Tensor values = tensor.contiguous();
  switch (values.scalar_type()) {
    case at::kFloat: return add_as<float>(sums, values, sum, timeout);
    case at::kDouble: return add_as<double>(sums, values, sum, timeout);
    case at::kInt: return add_as<std::int32_t>(sums, values, sum, timeout);
    default: return add_as<std::int64_t>(sums, values, sum, timeout);
  }
}

}  // namespace orrery::live
