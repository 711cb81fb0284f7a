// Work of send and receive, which bypass the numbered operations of a fault-tolerant process group.
// Compiled into the user's program.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "live/torch/group_worker.hpp"

namespace orrery::live {

/// Work of the inner group. If the work fails because a rank is lost, the program sees no
/// exception: the wait lasts until `orrery run` ends the process. Other failures are thrown.
class BypassingWork final : public c10d::Work {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  /// Starts operation `name` (a literal) on the inner group of `worker` by `begin`. Blocks as
  /// GroupWorker::inner_for(); throws the failures of `begin` that no loss explains.
  static WorkPtr begin_operation(const std::shared_ptr<GroupWorker>& worker, const char* name,
                                 const std::function<WorkPtr(c10d::Backend&)>& begin);

  BypassingWork(std::shared_ptr<GroupWorker> worker, WorkPtr inner)
      : worker_(std::move(worker)), inner_(std::move(inner)) {}

  bool wait(std::chrono::milliseconds timeout) override;
  bool isCompleted() override { return inner_->isCompleted(); }
  bool isSuccess() const override { return inner_->isSuccess(); }
  std::exception_ptr exception() const override { return inner_->exception(); }
  int sourceRank() const override { return inner_->sourceRank(); }
  std::vector<at::Tensor> result() override { return inner_->result(); }
  void synchronize() override { inner_->synchronize(); }
  void abort() override { inner_->abort(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return inner_->getFuture(); }

 private:
  std::shared_ptr<GroupWorker> worker_;
  WorkPtr inner_;
};

}  // namespace orrery::live
