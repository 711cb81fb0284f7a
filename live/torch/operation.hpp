// One numbered operation of a fault-tolerant process group, with its result's buffers. Compiled
// into the user's program.
//
// On a device, operations are ordered by streams: the thread of the group has a stream of its own,
// which waits for the program's stream at the begin of an operation, and for which the program's
// stream waits at its end. Functions that copy or compute on a device only queue the work on the
// current stream of their thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/ivalue.h>
#include <c10/core/Event.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "live/group/member.hpp"
#include "live/group/operation_log.hpp"
#include "live/group/shared_sums.hpp"

namespace orrery::live {

/// Groups of the living members of one epoch.
struct InnerGroups {
  c10::intrusive_ptr<c10d::Backend> inner;    ///< performs the operations of the program
  c10::intrusive_ptr<c10d::Backend> control;  ///< exchanges small CPU tensors; may be `inner`
};

/// View of an epoch by a group: its inner groups and the positions of the living members.
struct EpochView {
  c10::intrusive_ptr<c10d::Backend> inner;
  c10::intrusive_ptr<c10d::Backend> control;
  std::shared_ptr<SharedSums> sums;  ///< memory of the living members; null: use `inner`
  std::vector<std::size_t> alive;    ///< ascending members (ranks of the group)
  std::vector<int64_t> processes;    ///< their process ids; empty before their first exchange
  std::size_t size = 0;              ///< members of the group at its creation
  bool starts_early = false;         ///< an operation may start before the one before it has ended
  /// Returns true if members were lost.
  bool is_short() const { return alive.size() < size; }
};

/// Buffers of equal type and size for the results of later operations. New memory for every bucket
/// costs more time than the copy into it. One thread.
class BufferPool {
 public:
  /// Returns a contiguous tensor with the sizes, the type and the device of `like`, with any
  /// content.
  at::Tensor claim_buffer(const at::Tensor& like);
  /// Takes back a contiguous buffer that no other operation uses. Drops the oldest one above 64.
  void return_buffer(const at::Tensor& buffer);

 private:
  std::vector<at::Tensor> free_;
};

/// Work that the program waits for. Completed by the thread of the group.
class OperationWork final : public c10d::Work {
 public:
  /// `device`: that of the tensors. `times`: those of the operation, or null.
  OperationWork(int rank, c10d::OpType type, const char* title, c10::Device device,
                std::shared_ptr<OperationTimes> times);

  /// Blocks until the work is complete; notes the instant of the first call.
  bool wait(std::chrono::milliseconds timeout) override;

  /// Returns the future of the result, a list of tensors.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  /// Returns the program's tensors of the operation; empty before complete_work(), the same after a
  /// failure.
  std::vector<at::Tensor> result() override { return result_; }
  /// Makes the current stream of this thread wait for the result; does nothing on the CPU. Called
  /// by wait() once the work is complete.
  void synchronize() override;
  /// Completes the work and its future with the result, or with the exception if `problem` is not
  /// null. On a device the result is there once the work that this thread has queued is done. Call
  /// once.
  void complete_work(const std::vector<at::Tensor>& result, std::exception_ptr problem);

 private:
  const c10::Device device_;
  const std::shared_ptr<OperationTimes> times_;
  std::unique_ptr<c10::Event> done_;  ///< null on the CPU, and before complete_work()
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::vector<at::Tensor> result_;
};

/// Exception of `perform` if the loss of a rank makes the operation impossible: the run ends, and
/// the program sees no exception.
class UncarriedOperation final : public std::exception {
 public:
  const char* what() const noexcept override { return "cannot be carried through a loss"; }
};

struct Operation;
/// Part of an operation, as a function that starts it in the inner group and returns its work; null
/// if the part is done when the function returns.
using PerformPart = std::function<c10::intrusive_ptr<c10d::Work>(Operation&, const EpochView&)>;

/// Operation. The functions run on the thread of the group, in the order of their declaration:
/// `prepare` and `perform` again after every failure and in every epoch until the operation is
/// done. If another member delivers the result, `buffers` are received after `prepare`, and
/// `adjust` does not run. `publish` runs only after success. The program's tensors stay as they are
/// until `publish`, except in operations of kind `sharded`, which use them directly.
struct Operation {
  OperationKind kind = OperationKind::symmetric;
  std::string name;
  c10::intrusive_ptr<OperationWork> work;
  std::shared_ptr<OperationTimes> times;  ///< null if no log is kept
  std::vector<at::Tensor> result;         ///< tensors of the program, for the work's future
  std::vector<at::Tensor> buffers;        ///< result that is kept and delivered
  bool is_reusable = true;                ///< false: `buffers` must not serve later operations
  c10::Device device{c10::kCPU};          ///< device of the tensors
  /// Begin and end of the inner group's work of `perform`, of the newest attempt. `perform` may set
  /// the begin, if it computes before.
  double begun_s = 0, done_s = 0;
  /// Event that is done once the program's stream has done what it had queued when the operation
  /// began; null on the CPU.
  std::unique_ptr<c10::Event> begun;
  /// Fills `buffers`. May be null.
  std::function<void(Operation&, BufferPool&)> prepare;
  /// Work of the inner group that the operation waits for: `perform` may add works to that which it
  /// returns.
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  /// True if `prepare` and `perform` only queue their work, so that the operation may start before
  /// the one before it has ended. No such operation has a `perform_rest`.
  bool starts_early = false;
  std::optional<std::uint64_t> started_in;  ///< epoch of the newest start of `perform`
  /// Starts the operation. An exception other than UncarriedOperation is handed to the program,
  /// unless a newer epoch was announced.
  PerformPart perform;
  /// Starts the second part of the operation, once the first one is done. May be null.
  PerformPart perform_rest;
  /// Turns the inner group's result into that of a group of full size. May be null.
  std::function<void(Operation&, const EpochView&)> adjust;
  /// Copies `buffers` to the program's tensors. May be null.
  std::function<void(Operation&)> publish;
};

/// Returns an event after the work that this thread has queued on its current stream of the device;
/// null for the CPU.
std::unique_ptr<c10::Event> mark_queue(c10::Device device);
/// Makes `stream` the current one of this thread and its device, and lets it wait for `begun`
/// unless that is null.
void enter_stream(const c10::Stream& stream, const c10::Event* begun);

/// Copies a tensor with the same number of elements, which is not checked: a smaller `to` may be
/// written past its end. Both are dense and on one device. Another type is converted.
void copy_tensor(const at::Tensor& to, const at::Tensor& from);
/// Multiplies a sum of the living members by size / alive, in place. Integers are rounded; booleans
/// stay. `sum` is contiguous, and a member is alive.
void scale_sum(const at::Tensor& sum, const EpochView& view);
/// Returns true if all tensors are dense and on a device of this type, also for none: all-reduce,
/// broadcast and all-gather carry these through a loss.
bool is_carried(const std::vector<at::Tensor>& tensors, c10::DeviceType type);

}  // namespace orrery::live
