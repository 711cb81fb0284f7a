// Fault-tolerant process group in the place of Gloo's, as PyTorch's c10d::Backend. All-reduce,
// broadcast, all-gather, gather and barrier of dense tensors on the CPU are carried through a loss;
// reduce and scatter are repeated; everything else ends the run after a loss. Compiled into the
// user's program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "live/torch/group_worker.hpp"

namespace orrery::live {

/// Group of one process. Any thread; operations of one group begin in the order of their calls.
class SurvivingBackend final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  explicit SurvivingBackend(std::shared_ptr<GroupWorker> worker);

  const std::string getBackendName() const override { return "gloo"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override { options_->timeout = timeout; }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  void abort() override {}
  void shutdown() override {}

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override;

  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                        std::vector<int64_t>& input_sizes,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

 private:
  using Perform = std::function<WorkPtr(Operation&, const EpochView&)>;

  std::unique_ptr<Operation> new_operation(OperationKind kind, c10d::OpType type, const char* name);
  WorkPtr begin_operation(std::unique_ptr<Operation> operation);
  /// Begins an operation on the program's own tensors, which no loss may interrupt.
  WorkPtr begin_sharded(c10d::OpType type, const char* name, Tensors result, Perform perform);
  /// Begins an all-gather of equal tensors; `publish` reads buffer `i` as [size, ...] of input i.
  WorkPtr begin_gather(c10d::OpType type, const char* name, Tensors inputs, Tensors result,
                       std::function<void(Operation&)> publish);
  WorkPtr begin_all_reduce(c10d::OpType type, Tensors tensors, c10d::ReduceOp op, bool coalesced);

  std::shared_ptr<GroupWorker> worker_;
  c10::intrusive_ptr<Options> options_;
  std::atomic<uint64_t> sequence_{0};
};

}  // namespace orrery::live
