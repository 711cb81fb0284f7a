// Fault-tolerant process group in the place of Gloo's or NCCL's, as PyTorch's c10d::Backend.
// All-reduce, broadcast, all-gather, gather and barrier of dense tensors (Gloo: on the CPU, NCCL:
// on a GPU) are carried through a loss; reduce and scatter are repeated, unless a member has its
// result already, which ends the run. After an operation of any other kind a loss ends the run, and
// so does such an operation after a loss. Compiled into the user's program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "live/torch/bucket_measurement.hpp"
#include "live/torch/group_worker.hpp"

namespace orrery::live {

/// Group of one process. Any thread; operations of one group begin in the order of their calls, and
/// the returned work is completed on the thread of the group. The work fails with the exception of
/// the inner group if that refuses the operation, times out, or fails the fourth time; an operation
/// that is not carried through a loss ends the run at its first failure of another kind. If the run
/// ends, the work is never completed: `orrery run` ends the process.
class SurvivingBackend final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  /// Constructs the group; `worker` must be started.
  explicit SurvivingBackend(std::shared_ptr<GroupWorker> worker);

  const std::string getBackendName() const override { return worker_->group_place().backend; }
  /// Returns the backend's name and the timeout of the group, or that of setTimeout().
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  /// Sets the timeout of getBackendOptions(); operations keep that of the group's creation.
  void setTimeout(std::chrono::milliseconds timeout) override { options_->timeout = timeout; }
  /// Does nothing.
  void setSequenceNumberForGroup() override {}
  /// Returns the number of operations that this process has begun, without send and receive.
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  /// Does nothing; operations in flight continue.
  void abort() override {}
  /// Does nothing.
  void shutdown() override {}

  // ---- carried through a loss. After a loss, sums are multiplied by size() / living members, and
  // a living member's entry stands for each lost one; a living member stands in for a lost root.
  // The gathers need at least one input, and outputs with the elements of one input each; an
  // all-gather has a list of outputs for each input. Counts and sizes are not checked unless a
  // comment says so: with wrong ones outputs are written past their end, or the work never ends.
  // ----

  /// Sums or otherwise reduces the tensors in place; gradient buckets in codes if a rule is set
  /// (GradientCodes). Sparse tensors and those of a device are not
  /// carried through a loss.
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  /// Reduces dense tensors on the CPU only; memory of a device is read as the CPU's, not checked.
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  /// Copies the root's tensors to all members. Sparse tensors and those of a device are not carried
  /// through a loss.
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  /// Fills outputs[input][member]. Sparse inputs and those of a device are not carried through a
  /// loss.
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  /// Gathers `input` of all members into `output`. Throws c10::Error unless `output` has size()
  /// times the elements of `input`. Sparse tensors and those of a device are not carried through a
  /// loss.
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  /// Fills outputs[member][input]. Dense tensors on the CPU only, not checked.
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  /// Gathers each input of all members into the output of the same number. Dense tensors on the CPU
  /// only, one output for each input with size() times its elements; neither is checked.
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  /// Fills outputs[0][member] with the first input of each member where `outputs` is not empty;
  /// whether this rank is the root is not checked. Dense tensors on the CPU only, not checked.
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  /// Returns work that is complete once all living members have begun the barrier.
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  /// Blocks until all living members have begun the barrier; ignores its options. Throws the
  /// exception of the work.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  // ---- repeated after a loss. Dense tensors on the CPU only, not checked. A loss ends the run if
  // some members have finished the operation and others have not. ----

  /// Reduces the tensors to the root, which alone gets the result; after a loss, as all-reduce. A
  /// lost root does not fail the work.
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  /// Fills the outputs from the root's inputs, which have size() entries each. The work fails if
  /// the root is lost.
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override;

  // ---- not carried through a loss: after the first of these calls a loss ends the run, and so
  // does each of these calls after a loss. Arguments and results as in Gloo's group, which uses the
  // program's tensors until the work is complete. ----

  /// Reduces sparse tensors in place. The work fails if Gloo refuses them.
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  /// Reduces the inputs and gives each rank its part. The work fails if Gloo refuses them.
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  /// Reduces `input` and fills `output` with this rank's part. The work fails if Gloo refuses them.
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  /// Reduces each input and fills its output with this rank's part. The work fails if Gloo refuses
  /// them.
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  /// Sends slices of `input` to all ranks and fills `output` with theirs. The work fails if Gloo
  /// refuses the sizes.
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                        std::vector<int64_t>& input_sizes,
                        const c10d::AllToAllOptions& options) override;
  /// Sends input r to rank r and fills output r from rank r. The work fails if Gloo refuses them.
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;
  /// Sends, receives from rank `from`, or receives from any rank. The three block until the group
  /// is connected (GroupWorker::inner_for()), for good if the run ends before. They throw the
  /// errors of Gloo and return its work, which fails if a member is lost.
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

 private:
  using Perform = std::function<WorkPtr(Operation&, const EpochView&)>;

  /// Returns an operation on the device of the tensors, or on the current one if there are none.
  std::unique_ptr<Operation> new_operation(OperationKind kind, c10d::OpType type, const char* name,
                                           const Tensors& tensors);
  bool is_carried(const Tensors& tensors) const;
  WorkPtr begin_operation(std::unique_ptr<Operation> operation);
  /// Begins an operation on the program's own tensors, which no loss may interrupt.
  WorkPtr begin_sharded(c10d::OpType type, const char* name, Tensors result, Perform perform);
  /// Begins an all-gather of equal tensors; `publish` reads buffer `i` as [size, ...] of input i.
  WorkPtr begin_gather(c10d::OpType type, const char* name, Tensors inputs, Tensors result,
                       std::function<void(Operation&)> publish);
  /// Returns the bucket of an all-reduce that travels in codes; null for others.
  std::shared_ptr<CodedBucket> claim_bucket(const Tensors& tensors, c10d::ReduceOp op);
  /// Returns the measurement of an all-reduce that begins now; not null.
  std::shared_ptr<BucketMeasurement> measure_bucket(const Tensors& tensors, c10d::ReduceOp op);
  /// Begins the sum of a gradient bucket in codes.
  WorkPtr begin_coded(const Tensors& tensors, const std::shared_ptr<CodedBucket>& bucket);
  WorkPtr begin_all_reduce(c10d::OpType type, Tensors tensors, c10d::ReduceOp op, bool coalesced);

  std::shared_ptr<GroupWorker> worker_;
  c10::intrusive_ptr<Options> options_;
  std::atomic<uint64_t> sequence_{0};
};

}  // namespace orrery::live
