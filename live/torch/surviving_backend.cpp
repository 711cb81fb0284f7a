#include "live/torch/surviving_backend.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "live/group/virtual_ranks.hpp"
#include "live/torch/bypassing_work.hpp"
#include "live/torch/tensor_sums.hpp"

namespace orrery::live {

using c10d::OpType;
using Tensors = SurvivingBackend::Tensors;
using WorkPtr = SurvivingBackend::WorkPtr;

namespace {

/// Fills the buffers with copies of the program's tensors.
std::function<void(Operation&, BufferPool&)> copies_of(const Tensors& tensors) {
  return [tensors](Operation& operation, BufferPool& pool) {
    for (const at::Tensor& each : tensors) {
      operation.buffers.push_back(pool.claim_buffer(each));
      copy_tensor(operation.buffers.back(), each);
    }
  };
}

/// Claims buffers like the program's tensors, with any content.
std::function<void(Operation&, BufferPool&)> buffers_like(const Tensors& tensors) {
  return [tensors](Operation& operation, BufferPool& pool) {
    for (const at::Tensor& each : tensors) operation.buffers.push_back(pool.claim_buffer(each));
  };
}

/// Copies the buffers to the program's tensors.
std::function<void(Operation&)> copies_to(const Tensors& tensors) {
  return [tensors](Operation& operation) {
    for (std::size_t at = 0; at < tensors.size(); ++at) {
      copy_tensor(tensors[at], operation.buffers[at]);
    }
  };
}

/// Returns the bytes of a dense tensor's values; 0 for a sparse one.
std::size_t bytes_of(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided ? tensor.nbytes() : 0;
}

std::span<float> values_of(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

std::span<const std::byte> bytes_of_tensor(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

/// Returns a tensor with a copy of the bytes.
at::Tensor bytes_tensor(const std::vector<std::byte>& bytes) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
  std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

/// Returns the bytes of all of `ranks` equal parts but one.
double other_parts(std::size_t bytes, std::size_t ranks) {
  const auto count = static_cast<double>(ranks);
  return (count - 1) / count * static_cast<double>(bytes);
}

/// Returns the bytes that one of `ranks` ranks sends to others in an all-reduce by a ring.
double ring_bytes(std::size_t bytes, std::size_t ranks) {
  return 2 * other_parts(bytes, ranks);
}

/// Name of an all-gather that no loss may interrupt, for the message about it.
constexpr const char* kOtherGather = "all_gather of sparse or device tensors";

Tensors flattened(const std::vector<Tensors>& lists) {
  Tensors all;
  for (const Tensors& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

/// Fills buffer `at` of shape [size, ...] from the gathered rows of the living members.
void spread_rows(Operation& operation, std::size_t at, const at::Tensor& rows,
                 const EpochView& view) {
  for (std::size_t member = 0; member < view.size; ++member) {
    const auto row = static_cast<int64_t>(stand_in_position(member, view.alive));
    copy_tensor(operation.buffers[at].select(0, static_cast<int64_t>(member)), rows.select(0, row));
  }
}

}  // namespace

SurvivingBackend::SurvivingBackend(std::shared_ptr<GroupWorker> worker)
    : Backend(static_cast<int>(worker->group_place().own),
              static_cast<int>(worker->group_place().ranks.size())),
      worker_(std::move(worker)),
      options_(c10::make_intrusive<Options>(worker_->group_place().backend,
                                            worker_->group_place().timeout)) {}

bool SurvivingBackend::is_carried(const Tensors& tensors) const {
  return live::is_carried(tensors, worker_->group_place().device_type);
}

std::unique_ptr<Operation> SurvivingBackend::new_operation(OperationKind kind, OpType type,
                                                           const char* name,
                                                           const Tensors& tensors) {
  const GroupPlace& place = worker_->group_place();
  auto operation = std::make_unique<Operation>();
  operation->kind = kind;
  operation->name = name;
  if (place.device_type != c10::kCPU) {
    operation->device = tensors.empty() ? c10::impl::VirtualGuardImpl(place.device_type).getDevice()
                                        : tensors.front().device();
    operation->begun = mark_queue(operation->device);
  }
  double bytes = 0;
  for (const at::Tensor& each : tensors) bytes += static_cast<double>(bytes_of(each));
  operation->times = worker_->group_records().log.add_operation(operation->name, place.key, bytes);
  const std::string title = place.backend + ":" + operation->name;
  operation->work = c10::make_intrusive<OperationWork>(getRank(), type, title.c_str(),
                                                       operation->device, operation->times);
  return operation;
}

WorkPtr SurvivingBackend::begin_operation(std::unique_ptr<Operation> operation) {
  ++sequence_;
  WorkPtr work = operation->work;
  worker_->add_operation(std::move(operation));
  return work;
}

WorkPtr SurvivingBackend::begin_sharded(OpType type, const char* name, Tensors result,
                                        Perform perform) {
  auto operation = new_operation(OperationKind::sharded, type, name, result);
  operation->starts_early = true;
  operation->result = std::move(result);
  operation->perform = std::move(perform);
  return begin_operation(std::move(operation));
}

// ---- carried through a loss ---------------------------------------------------------------------

std::shared_ptr<CodedBucket> SurvivingBackend::claim_bucket(const Tensors& tensors,
                                                            c10d::ReduceOp op) {
  const bool is_gradient = tensors.size() == 1 && tensors[0].scalar_type() == at::kFloat &&
                           tensors[0].device().is_cpu() && op == c10d::ReduceOp::SUM;
  if (!is_gradient) return nullptr;
  return worker_->group_records().codes.claim_bucket(worker_->group_place().key,
                                                     static_cast<std::size_t>(tensors[0].numel()));
}

std::shared_ptr<BucketMeasurement> SurvivingBackend::measure_bucket(const Tensors& tensors,
                                                                    c10d::ReduceOp op) {
  return std::make_shared<BucketMeasurement>(worker_->group_records(),
                                             worker_->group_place().ranks.size(), tensors, op);
}

WorkPtr SurvivingBackend::begin_coded(const Tensors& tensors,
                                      const std::shared_ptr<CodedBucket>& bucket) {
  auto operation =
      new_operation(OperationKind::symmetric, OpType::ALLREDUCE, "all_reduce", tensors);
  operation->prepare = copies_of(tensors);
  const auto codes = std::make_shared<Tensors>();
  const auto own = static_cast<std::size_t>(getRank());
  const auto measured = measure_bucket(tensors, c10d::ReduceOp::SUM);
  operation->perform = [bucket, codes, own, measured](Operation& self,
                                                      const EpochView& view) -> WorkPtr {
    measured->note_own_values(self.buffers);
    if (view.alive.size() == 1) return view.inner->allreduce(self.buffers, {});
    const auto position = std::lower_bound(view.alive.begin(), view.alive.end(), own);
    const at::Tensor sent =
        bytes_tensor(bucket->encode_parts(values_of(self.buffers[0]), view.alive,
                                          static_cast<std::size_t>(position - view.alive.begin())));
    *codes = {at::empty_like(sent), sent};
    measured->set_sent_bytes(other_parts(sent.nbytes(), view.alive.size()));
    std::vector<int64_t> equal;
    self.begun_s = clock_s();
    return view.inner->alltoall_base(codes->at(0), codes->at(1), equal, equal, {});
  };
  operation->perform_rest = [bucket, codes](Operation& self, const EpochView& view) -> WorkPtr {
    if (view.alive.size() == 1) return view.inner->allreduce(self.buffers, {});
    codes->push_back(bytes_tensor(bucket->encode_sum(bytes_of_tensor(codes->at(0)))));
    return view.inner->_allgather_base(codes->at(0), codes->at(2), {});
  };
  operation->adjust = [bucket, codes](Operation& self, const EpochView& view) {
    if (view.alive.size() > 1) {
      bucket->decode_sums(bytes_of_tensor(codes->at(0)), values_of(self.buffers[0]));
    }
    if (view.is_short()) scale_sum(self.buffers[0], view);
  };
  operation->publish = [tensors, bucket, measured, worker = worker_](Operation& self) {
    copy_tensor(tensors[0], self.buffers[0]);
    bucket->commit_exchange();
    worker->group_records().codes.add_sent_bytes(bucket->sent_bytes());
    measured->end_bucket(self);
  };
  operation->result = tensors;
  return begin_operation(std::move(operation));
}

WorkPtr SurvivingBackend::begin_all_reduce(OpType type, Tensors tensors, c10d::ReduceOp op,
                                           bool coalesced) {
  auto operation = new_operation(OperationKind::symmetric, type, "all_reduce", tensors);
  operation->starts_early = true;
  operation->result = tensors;
  tensors = in_memory_order(tensors);
  operation->prepare = buffers_like(tensors);
  const auto measured = measure_bucket(tensors, op);
  const std::chrono::milliseconds timeout = worker_->group_place().timeout;
  operation->perform = [tensors, op, coalesced, measured, timeout](
                           Operation& self, const EpochView& view) -> WorkPtr {
    measured->note_own_values(tensors);
    if (view.sums != nullptr && is_summable(tensors, op)) {
      add_tensors(*view.sums, tensors[0], self.buffers[0], timeout);
      return nullptr;
    }
    for (std::size_t at = 0; at < tensors.size(); ++at) copy_tensor(self.buffers[at], tensors[at]);
    if (coalesced) {
      c10d::AllreduceCoalescedOptions options;
      options.reduceOp = op;
      return view.inner->allreduce_coalesced(self.buffers, options);
    }
    c10d::AllreduceOptions options;
    options.reduceOp = op;
    return view.inner->allreduce(self.buffers, options);
  };
  GradientCodes& codes = worker_->group_records().codes;
  const bool is_gradient = codes.is_in_backward();
  operation->adjust = [op, is_gradient, measured, &codes](Operation& self,
                                                          const EpochView& view) {
    double sent = 0;
    for (const at::Tensor& each : self.buffers) {
      sent += ring_bytes(each.nbytes(), view.alive.size());
    }
    if (is_gradient) codes.add_sent_bytes(sent);
    measured->set_sent_bytes(sent);
    if (!view.is_short() || !(op == c10d::ReduceOp::SUM)) return;
    for (const at::Tensor& sum : self.buffers) scale_sum(sum, view);
  };
  operation->publish = [publish = copies_to(tensors), measured](Operation& self) {
    publish(self);
    measured->end_bucket(self);
  };
  return begin_operation(std::move(operation));
}

WorkPtr SurvivingBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  if (is_carried(tensors)) {
    if (const auto bucket = claim_bucket(tensors, options.reduceOp)) {
      return begin_coded(tensors, bucket);
    }
    return begin_all_reduce(OpType::ALLREDUCE, tensors, options.reduceOp, false);
  }
  return begin_sharded(OpType::ALLREDUCE, "all_reduce of sparse or device tensors", tensors,
                       [tensors, options](Operation&, const EpochView& view) mutable {
                         return view.inner->allreduce(tensors, options);
                       });
}

WorkPtr SurvivingBackend::allreduce_coalesced(Tensors& tensors,
                                              const c10d::AllreduceCoalescedOptions& options) {
  return begin_all_reduce(OpType::ALLREDUCE_COALESCED, tensors, options.reduceOp, true);
}

WorkPtr SurvivingBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  if (!is_carried(tensors)) {
    return begin_sharded(OpType::BROADCAST, "broadcast of sparse or device tensors", tensors,
                         [tensors, options](Operation&, const EpochView& view) mutable {
                           return view.inner->broadcast(tensors, options);
                         });
  }
  auto operation = new_operation(OperationKind::rooted, OpType::BROADCAST, "broadcast", tensors);
  operation->prepare = copies_of(tensors);
  operation->perform = [options](Operation& self, const EpochView& view) {
    c10d::BroadcastOptions inner = options;
    inner.rootRank = static_cast<int64_t>(
        stand_in_position(static_cast<std::size_t>(options.rootRank), view.alive));
    return view.inner->broadcast(self.buffers, inner);
  };
  operation->publish = copies_to(tensors);
  operation->result = tensors;
  return begin_operation(std::move(operation));
}

WorkPtr SurvivingBackend::begin_gather(OpType type, const char* name, Tensors inputs,
                                       Tensors result, std::function<void(Operation&)> publish) {
  auto operation = new_operation(OperationKind::symmetric, type, name, inputs);
  operation->starts_early = true;
  const auto size = static_cast<int64_t>(getSize());
  operation->prepare = [inputs, size](Operation& self, BufferPool& pool) {
    for (const at::Tensor& input : inputs) {
      std::vector<int64_t> shape = input.sizes().vec();
      shape.insert(shape.begin(), size);
      self.buffers.push_back(pool.claim_buffer(input.expand(shape)));
    }
  };
  const auto gathered = std::make_shared<Tensors>();
  operation->perform = [inputs, gathered](Operation& self, const EpochView& view) -> WorkPtr {
    gathered->clear();
    for (std::size_t at = 0; at < inputs.size(); ++at) {
      const at::Tensor input = at::empty(inputs[at].sizes(), inputs[at].options());
      copy_tensor(input, inputs[at]);
      at::Tensor rows = self.buffers[at];
      if (view.is_short()) {
        std::vector<int64_t> shape = input.sizes().vec();
        shape.insert(shape.begin(), static_cast<int64_t>(view.alive.size()));
        rows = at::empty(shape, input.options());
      }
      gathered->push_back(rows);
      std::vector<Tensors> outputs(1, rows.unbind(0));
      Tensors single{input};
      self.works.push_back(view.inner->allgather(outputs, single));
    }
    return nullptr;
  };
  operation->adjust = [gathered](Operation& self, const EpochView& view) {
    for (std::size_t at = 0; view.is_short() && at < gathered->size(); ++at) {
      spread_rows(self, at, (*gathered)[at], view);
    }
  };
  operation->publish = std::move(publish);
  operation->result = std::move(result);
  return begin_operation(std::move(operation));
}

WorkPtr SurvivingBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                    const c10d::AllgatherOptions& options) {
  if (!is_carried(inputs)) {
    return begin_sharded(OpType::ALLGATHER, kOtherGather, flattened(outputs),
                         [outputs, inputs, options](Operation&, const EpochView& view) mutable {
                           return view.inner->allgather(outputs, inputs, options);
                         });
  }
  return begin_gather(
      OpType::ALLGATHER, "all_gather", inputs, flattened(outputs), [outputs](Operation& self) {
        for (std::size_t list = 0; list < outputs.size(); ++list) {
          for (std::size_t at = 0; at < outputs[list].size(); ++at) {
            copy_tensor(outputs[list][at], self.buffers[list].select(0, static_cast<int64_t>(at)));
          }
        }
      });
}

WorkPtr SurvivingBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::AllgatherOptions& options) {
  if (!is_carried({output, input})) {
    return begin_sharded(OpType::_ALLGATHER_BASE, kOtherGather, {output},
                         [output, input, options](Operation&, const EpochView& view) mutable {
                           return view.inner->_allgather_base(output, input, options);
                         });
  }
  TORCH_CHECK(output.numel() == input.numel() * getSize(),
              "output tensor size must be equal to world_size times input tensor size");
  return begin_gather(OpType::_ALLGATHER_BASE, "all_gather", {input}, {output},
                      [output](Operation& self) { copy_tensor(output, self.buffers[0]); });
}

WorkPtr SurvivingBackend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) {
  if (!is_carried(inputs)) {
    return begin_sharded(OpType::ALLGATHER_COALESCED, kOtherGather, flattened(outputs),
                         [outputs, inputs, options](Operation&, const EpochView& view) mutable {
                           return view.inner->allgather_coalesced(outputs, inputs, options);
                         });
  }
  // outputs[member][tensor], in contrast to allgather().
  return begin_gather(OpType::ALLGATHER_COALESCED, "all_gather", inputs, flattened(outputs),
                      [outputs](Operation& self) {
                        for (std::size_t member = 0; member < outputs.size(); ++member) {
                          for (std::size_t at = 0; at < outputs[member].size(); ++at) {
                            copy_tensor(outputs[member][at],
                                        self.buffers[at].select(0, static_cast<int64_t>(member)));
                          }
                        }
                      });
}

WorkPtr SurvivingBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::AllgatherOptions& options) {
  if (!is_carried(inputs) || !is_carried(outputs)) {
    return begin_sharded(OpType::COALESCED, kOtherGather, outputs,
                         [outputs, inputs, options](Operation&, const EpochView& view) mutable {
                           return view.inner->allgather_into_tensor_coalesced(outputs, inputs,
                                                                              options);
                         });
  }
  TORCH_CHECK(outputs.size() == inputs.size(), "expected one output for each input");
  for (std::size_t at = 0; at < inputs.size(); ++at) {
    TORCH_CHECK(outputs[at].numel() == inputs[at].numel() * getSize(),
                "output tensor size must be equal to world_size times input tensor size");
  }
  return begin_gather(OpType::COALESCED, "all_gather", inputs, outputs, copies_to(outputs));
}

WorkPtr SurvivingBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                 const c10d::GatherOptions& options) {
  if (!is_carried(inputs)) {
    return begin_sharded(OpType::GATHER, "gather of sparse or device tensors", flattened(outputs),
                         [outputs, inputs, options](Operation&, const EpochView& view) mutable {
                           return view.inner->gather(outputs, inputs, options);
                         });
  }
  return begin_gather(
      OpType::GATHER, "gather", inputs, flattened(outputs), [outputs](Operation& self) {
        for (std::size_t at = 0; !outputs.empty() && at < outputs[0].size(); ++at) {
          copy_tensor(outputs[0][at], self.buffers[0].select(0, static_cast<int64_t>(at)));
        }
      });
}

WorkPtr SurvivingBackend::barrier(const c10d::BarrierOptions&) {
  auto operation = new_operation(OperationKind::symmetric, OpType::BARRIER, "barrier", {});
  operation->perform = [](Operation& self, const EpochView& view) {
    if (self.begun != nullptr) self.begun->synchronize();
    return view.control->barrier();
  };
  return begin_operation(std::move(operation));
}

void SurvivingBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool) {
  barrier(options)->wait();
}

// ---- repeated, but not delivered ----------------------------------------------------------------

WorkPtr SurvivingBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  auto operation = new_operation(OperationKind::partial, OpType::REDUCE, "reduce", tensors);
  const bool is_root = options.rootRank == getRank();
  operation->prepare = copies_of(tensors);
  operation->perform = [options](Operation& self, const EpochView& view) {
    c10d::ReduceOptions inner = options;
    inner.rootRank = static_cast<int64_t>(
        stand_in_position(static_cast<std::size_t>(options.rootRank), view.alive));
    return view.inner->reduce(self.buffers, inner);
  };
  operation->adjust = [options](Operation& self, const EpochView& view) {
    if (!view.is_short() || !(options.reduceOp == c10d::ReduceOp::SUM)) return;
    for (const at::Tensor& sum : self.buffers) scale_sum(sum, view);
  };
  if (is_root) operation->publish = copies_to(tensors);
  operation->result = tensors;
  return begin_operation(std::move(operation));
}

WorkPtr SurvivingBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                  const c10d::ScatterOptions& options) {
  auto operation = new_operation(OperationKind::partial, OpType::SCATTER, "scatter", outputs);
  operation->prepare = copies_of(outputs);
  operation->perform = [inputs, options](Operation& self, const EpochView& view) {
    const auto root = static_cast<std::size_t>(options.rootRank);
    const std::size_t position = stand_in_position(root, view.alive);
    if (view.alive[position] != root) throw UncarriedOperation();
    c10d::ScatterOptions inner = options;
    inner.rootRank = static_cast<int64_t>(position);
    std::vector<Tensors> lists;
    for (const Tensors& all : inputs) {
      lists.emplace_back();
      for (const std::size_t member : view.alive) lists.back().push_back(all.at(member));
    }
    return view.inner->scatter(self.buffers, lists, inner);
  };
  operation->publish = copies_to(outputs);
  operation->result = outputs;
  return begin_operation(std::move(operation));
}

// ---- not carried through a loss -----------------------------------------------------------------

WorkPtr SurvivingBackend::allreduce_sparse(Tensors& tensors,
                                           const c10d::AllreduceOptions& options) {
  return begin_sharded(OpType::_ALLREDUCE_SPARSE, "all_reduce of sparse tensors", tensors,
                       [tensors, options](Operation&, const EpochView& view) mutable {
                         return view.inner->allreduce_sparse(tensors, options);
                       });
}

WorkPtr SurvivingBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                         const c10d::ReduceScatterOptions& options) {
  return begin_sharded(OpType::REDUCE_SCATTER, "reduce_scatter", outputs,
                       [outputs, inputs, options](Operation&, const EpochView& view) mutable {
                         return view.inner->reduce_scatter(outputs, inputs, options);
                       });
}

WorkPtr SurvivingBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                               const c10d::ReduceScatterOptions& options) {
  return begin_sharded(OpType::_REDUCE_SCATTER_BASE, "reduce_scatter", {output},
                       [output, input, options](Operation&, const EpochView& view) mutable {
                         return view.inner->_reduce_scatter_base(output, input, options);
                       });
}

WorkPtr SurvivingBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  return begin_sharded(OpType::COALESCED, "reduce_scatter", outputs,
                       [outputs, inputs, options](Operation&, const EpochView& view) mutable {
                         return view.inner->reduce_scatter_tensor_coalesced(outputs, inputs,
                                                                            options);
                       });
}

WorkPtr SurvivingBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                        std::vector<int64_t>& output_sizes,
                                        std::vector<int64_t>& input_sizes,
                                        const c10d::AllToAllOptions& options) {
  return begin_sharded(OpType::ALLTOALL_BASE, "all_to_all", {output},
                       [=](Operation&, const EpochView& view) mutable {
                         return view.inner->alltoall_base(output, input, output_sizes, input_sizes,
                                                          options);
                       });
}

WorkPtr SurvivingBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                   const c10d::AllToAllOptions& options) {
  return begin_sharded(OpType::ALLTOALL, "all_to_all", outputs,
                       [outputs, inputs, options](Operation&, const EpochView& view) mutable {
                         return view.inner->alltoall(outputs, inputs, options);
                       });
}

WorkPtr SurvivingBackend::send(Tensors& tensors, int to, int tag) {
  return BypassingWork::begin_operation(
      worker_, "send", [&](Backend& inner) { return inner.send(tensors, to, tag); });
}

WorkPtr SurvivingBackend::recv(Tensors& tensors, int from, int tag) {
  return BypassingWork::begin_operation(
      worker_, "recv", [&](Backend& inner) { return inner.recv(tensors, from, tag); });
}

WorkPtr SurvivingBackend::recvAnysource(Tensors& tensors, int tag) {
  return BypassingWork::begin_operation(
      worker_, "recv", [&](Backend& inner) { return inner.recvAnysource(tensors, tag); });
}

}  // namespace orrery::live
