// Sums of tensors in memory that the members of a group share (live/group/shared_sums.hpp).
// Compiled into the user's program.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "live/group/shared_sums.hpp"

namespace orrery::live {

/// Opens the memory in which the living members of an epoch add tensors; returns null if this
/// process cannot reach the memory, or for one member. `key`: key of the store, equal at all
/// members. `own`: position among the members. Blocks until the first member has set the place.
std::shared_ptr<SharedSums> open_sums(c10d::Store& store, const std::string& key, std::size_t own,
                                      std::size_t members);
/// Returns views of the tensors' elements in the order of memory, in which Gloo adds them; a tensor
/// with gaps as it is.
std::vector<at::Tensor> in_memory_order(const std::vector<at::Tensor>& tensors);
/// Returns true for an all-reduce that SharedSums can do; the same at all ranks of a group.
bool is_summable(const std::vector<at::Tensor>& tensors, c10d::ReduceOp op);
/// Sets `sum`, a contiguous buffer, to the sum of all members' tensors, which are summable. Throws
/// c10::DistBackendError if the members' tensors differ or a member does not come in time, and
/// SumInterrupted.
void add_tensors(SharedSums& sums, const at::Tensor& tensor, const at::Tensor& sum,
                 std::chrono::milliseconds timeout);

}  // namespace orrery::live
