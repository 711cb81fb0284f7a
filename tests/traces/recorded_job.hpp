// Recorded programs for tests, in place of the files of `orrery rehearse --trace`.
#pragma once

#include <string>

#include "traces/scenario.pb.h"
#include "traces/workload/recorded_step.hpp"

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
