// One numbered operation of a fault-tolerant process group, with its result's buffers. Compiled
// into the user's program.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "live/group/member.hpp"

namespace orrery::live {

/// View of an epoch by a group: the inner group and the positions of the living members.
struct EpochView {
  c10::intrusive_ptr<c10d::Backend> inner;
  std::vector<std::size_t> alive;  ///< ascending members (ranks of the group)
  std::size_t size = 0;            ///< members of the group at its creation
  /// Returns true if members were lost.
  bool is_short() const { return alive.size() < size; }
};

/// Buffers of equal type and size for the results of later operations. New memory for every bucket
/// costs more time than the copy into it. One thread.
class BufferPool {
 public:
  /// Returns a contiguous tensor with the sizes and the type of `like`, with any content.
  at::Tensor claim_buffer(const at::Tensor& like);
  /// Takes back a contiguous buffer that no other operation uses. Drops the oldest one above 64.
  void return_buffer(const at::Tensor& buffer);

 private:
  std::vector<at::Tensor> free_;
};

/// Work that the program waits for. Completed by the thread of the group.
class OperationWork final : public c10d::Work {
 public:
  OperationWork(int rank, c10d::OpType type, const char* title);

  /// Returns the future of the result, a list of tensors.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  /// Returns the program's tensors of the operation; empty before complete_work(), the same after a
  /// failure.
  std::vector<at::Tensor> result() override { return result_; }
  /// Completes the work and its future with the result, or with the exception if `problem` is not
  /// null. Call once.
  void complete_work(const std::vector<at::Tensor>& result, std::exception_ptr problem);

 private:
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::vector<at::Tensor> result_;
};

/// Operation. The functions run on the thread of the group, in the order of their declaration:
/// `prepare` and `perform` again after every failure and in every epoch until the operation is
/// done. If another member delivers the result, `buffers` are received after `prepare`, and
/// `adjust` does not run. `publish` runs only after success. The program's tensors stay as they are
/// until `publish`, except in operations of kind `sharded`, which use them directly.
struct Operation {
  OperationKind kind = OperationKind::symmetric;
  std::string name;
  c10::intrusive_ptr<OperationWork> work;
  std::vector<at::Tensor> result;   ///< tensors of the program, for the work's future
  std::vector<at::Tensor> buffers;  ///< result that is kept and delivered
  bool is_reusable = true;          ///< false: `buffers` must not serve later operations
  /// Fills `buffers`. May be null.
  std::function<void(Operation&, BufferPool&)> prepare;
  /// Work of the inner group beside that which `perform` returns.
  std::vector<c10::intrusive_ptr<c10d::Work>> other_works;
  /// Starts the operation of the inner group. An exception is handed to the program.
  std::function<c10::intrusive_ptr<c10d::Work>(Operation&, const EpochView&)> perform;
  /// Turns the inner group's result into that of a group of full size. May be null.
  std::function<void(Operation&, const EpochView&)> adjust;
  /// Copies `buffers` to the program's tensors. May be null.
  std::function<void(Operation&)> publish;
};

/// Copies a tensor with the same number of elements, which is not checked: a smaller `to` may be
/// written past its end. Both are dense and on the CPU. Another type is converted.
void copy_tensor(const at::Tensor& to, const at::Tensor& from);
/// Multiplies a sum of the living members by size / alive, in place. Integers are rounded; booleans
/// stay. `sum` is contiguous and on the CPU, and a member is alive.
void scale_sum(const at::Tensor& sum, const EpochView& view);
/// Returns true if all tensors are dense and on the CPU, also for none: all-reduce, broadcast and
/// all-gather carry these through a loss.
bool is_carried(const std::vector<at::Tensor>& tensors);

}  // namespace orrery::live
