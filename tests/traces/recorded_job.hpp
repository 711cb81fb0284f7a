// Recorded programs for tests, in place of the files of `orrery rehearse --trace`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "traces/scenario.pb.h"
#include "traces/workload/recorded_step.hpp"
#include "traces/workload/step_schedule.hpp"

namespace orrery {

inline constexpr double kGradients = 8 << 20;  ///< bytes of the exchange of gradients

/// Returns a step of 8 data-parallel ranks: a forward pass, a backward pass in two parts with the
/// exchange of the first part's gradients beside the second, and an update that waits for both
/// exchanges. Kernels 0 and 1 are products, kernel 2 moves the state. `sharded`: gradients are
/// scattered, parameters gathered before the forward pass.
inline RecordedStep recorded_step(bool sharded = false) {
  RecordedStep step;
  step.set_gpu("H100");
  step.set_ranks(8);
  step.set_micro_batches(1);
  step.set_tokens(2048);
  step.set_sharded(sharded);
  step.set_gradient_value_bytes(2);
  step.mutable_parameters()->set_matrices(8e6);
  step.set_parameter_bytes(16e6);
  step.set_gradient_bytes(16e6);
  step.set_optimizer_bytes(32e6);
  step.set_peak_bytes(100e6);
  step.set_reserved_bytes(120e6);
  for (int i = 0; i < 3; ++i) {
    RecordedKernel& kernel = *step.add_kernels();
    kernel.set_kind(i < 2 ? "gemm" : "memory");
    if (i < 2) kernel.set_m(4096 * (i + 1)), kernel.set_n(4096), kernel.set_k(4096);
    kernel.set_flop(i < 2 ? 2 * 4096.0 * 4096 * 4096 * (i + 1) : 0);
    kernel.set_bytes(64e6);
    kernel.set_precision("bf16");
    kernel.set_share(sharded && i == 2);
  }
  const auto compute = [&step](const char* phase, std::uint32_t kernel, int after) {
    RecordedOp& op = *step.add_ops();
    op.set_phase(phase);
    op.add_kernels(kernel);
    op.add_counts(2);
    if (after >= 0) op.add_after(static_cast<std::uint32_t>(after));
  };
  const auto exchange = [&step](const char* phase, const char* kind, int after) {
    RecordedOp& op = *step.add_ops();
    op.set_phase(phase);
    op.set_collective(kind);
    op.set_bytes(kGradients);
    op.set_size(8);
    op.set_stride(1);
    if (after >= 0) op.add_after(static_cast<std::uint32_t>(after));
  };
  const char* const reduce = sharded ? "reduce_scatter" : "all_reduce";
  if (sharded) exchange("forward", "all_gather", -1);
  compute("forward", 0, sharded ? 0 : -1);
  compute("backward", 1, -1);
  exchange("backward", reduce, step.ops_size() - 1);
  compute("backward", 1, -1);
  exchange("backward", reduce, step.ops_size() - 1);
  compute("update", 2, step.ops_size() - 1);
  return step;
}

/// Recorder of the passes of a pipeline whose stages have equal layers.
class PipelineRecorder {
 public:
  /// Constructs a recorder. `in_v`: the second chunks are in the reverse order of the stages.
  PipelineRecorder(std::uint32_t stages, std::uint32_t chunks, bool in_v)
      : stages_(stages), chunks_(chunks), in_v_(in_v) {}

  /// Appends the operations of a pass: a receive, kernel 0 (forward) or 1, which waits for the
  /// newest message sent, and a send. A message has 1 MiB.
  template <class Ops>
  void add_pass(Ops& ops, std::uint32_t stage, const Pass& pass) const {
    const bool forward = pass.kind == Pass::Kind::forward;
    const std::uint32_t at = place_of(stage, pass.chunk);
    const bool first = at == (forward ? 0 : stages_ * chunks_ - 1);
    const bool last = at == (forward ? stages_ * chunks_ - 1 : 0);
    const bool passes_on = pass.kind != Pass::Kind::weights;
    const std::uint32_t before = forward ? at - 1 : at + 1, behind = forward ? at + 1 : at - 1;
    const auto add = [&](std::uint32_t chunk) {
      RecordedOp& op = *ops.Add();
      op.set_phase(forward ? "forward" : "backward");
      op.set_micro_batch(pass.micro_batch);
      op.set_chunk(chunk);
      return &op;
    };
    const auto message = [&](const char* kind, std::uint32_t other, std::uint32_t chunk) {
      if (stage_of(other).first == stage) return;
      RecordedOp& op = *add(chunk);
      op.set_collective(kind);
      op.set_bytes(1 << 20);
      op.set_peer(stage_of(other).first);
    };
    const int begin = ops.size();
    if (passes_on && !first) message("receive", before, pass.chunk);
    RecordedOp& kernels = *add(pass.chunk);
    for (int i = begin; i + 1 < ops.size(); ++i) kernels.add_after(static_cast<std::uint32_t>(i));
    for (int i = begin - 1; i >= 0; --i) {
      if (ops.Get(i).collective() != "send") continue;
      kernels.add_after(static_cast<std::uint32_t>(i));
      break;
    }
    kernels.add_kernels(forward ? 0 : 1);
    kernels.add_counts(1);
    kernels.set_weights(!passes_on);
    if (!passes_on || last) return;
    const int sent = ops.size();
    message("send", behind, stage_of(behind).second);
    if (ops.size() > sent) ops.Mutable(sent)->add_after(static_cast<std::uint32_t>(sent - 1));
  }

 private:
  std::uint32_t place_of(std::uint32_t stage, std::uint32_t chunk) const {
    return in_v_ && chunk == 1 ? 2 * stages_ - 1 - stage : chunk * stages_ + stage;
  }
  /// Returns the stage and the chunk of a part of the model.
  std::pair<std::uint32_t, std::uint32_t> stage_of(std::uint32_t place) const {
    if (in_v_ && place >= stages_) return {2 * stages_ - 1 - place, 1};
    return {place % stages_, place / stages_};
  }

  std::uint32_t stages_, chunks_;
  bool in_v_;
};

/// Returns a step of a pipeline with two replicas of each stage, side by side, from the order of
/// the passes of each stage. The last backward pass of a stage exchanges its gradients.
inline RecordedStep recorded_pipeline(const std::vector<std::vector<Pass>>& orders,
                                      bool in_v = false) {
  RecordedStep step = recorded_step();
  step.clear_ops();
  const auto stages = static_cast<std::uint32_t>(orders.size());
  step.set_ranks(2 * stages);
  step.set_stages_apart(true);
  step.set_schedule("OneOfATest");
  std::uint32_t micro_batches = 0, chunks = 1;
  for (const Pass& pass : orders.front()) {
    micro_batches = std::max(micro_batches, pass.micro_batch + 1);
    chunks = std::max(chunks, pass.chunk + 1);
  }
  step.set_micro_batches(micro_batches);
  const PipelineRecorder recorder(stages, chunks, in_v);
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    auto& ops = stage == 0 ? *step.mutable_ops() : *step.add_stages()->mutable_ops();
    for (const Pass& pass : orders[stage]) recorder.add_pass(ops, stage, pass);
    RecordedOp& exchange = *ops.Add();
    exchange.set_phase("backward");
    const Pass& last = orders[stage].back();
    exchange.set_micro_batch(last.micro_batch);
    exchange.set_chunk(last.chunk);
    exchange.set_weights(last.kind == Pass::Kind::weights);
    exchange.set_collective("all_reduce");
    exchange.set_bytes(kGradients);
    exchange.set_size(2);
    exchange.set_stride(1);
    exchange.add_after(static_cast<std::uint32_t>(ops.size() - 2));
    RecordedOp& update = *ops.Add();
    update.set_phase("update");
    update.add_kernels(2);
    update.add_counts(1);
    update.add_after(static_cast<std::uint32_t>(ops.size() - 2));
    if (stage == 0) continue;
    RecordedStage& further = *step.mutable_stages(static_cast<int>(stage) - 1);
    further.set_parameter_bytes(16e6);
    further.set_gradient_bytes(16e6);
    further.set_optimizer_bytes(32e6);
    further.set_peak_bytes(200e6);
    further.set_reserved_bytes(240e6);
  }
  return step;
}

/// Returns the job of a recorded step with `data` replicas.
inline Job recorded_job(const RecordedStep& step, std::uint32_t data = 8,
                        std::uint32_t global_batch = 0) {
  Job job;
  *job.mutable_program()->mutable_step() = step;
  job.mutable_layout()->set_data(data);
  job.set_global_batch(global_batch);
  complete_program(job);
  return job;
}

}  // namespace orrery
