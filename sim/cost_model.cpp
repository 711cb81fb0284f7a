#include "sim/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "core/error.hpp"
#include "topologies/catalog.hpp"

namespace orrery {
namespace {

/// Rises from 0 to 1 with `size`, one half at `half`: tile and wave quantisation, smoothed.
double saturation(double size, double half) { return size > 0 ? size / (size + half) : 0; }

/// Share of the memory bandwidth; the residual addition, a plain stream, stands for what no
/// measurement names.
double memory_share(std::string_view name, const CostProfile& profile) {
  if (name == "norm") return profile.norm;
  if (name == "activation") return profile.activation;
  if (name == "rotary") return profile.rotary;
  if (name.starts_with("embedding")) return profile.embedding;
  return profile.residual;
}

double arithmetic_share(const Kernel& kernel, const CostProfile& profile) {
  if (kernel.kind == Kernel::Kind::gemm) {
    return profile.gemm_peak * saturation(kernel.m, profile.gemm_half_m) *
           saturation(kernel.n, profile.gemm_half_n) * saturation(kernel.k, profile.gemm_half_k);
  }
  const bool backward = std::string_view(kernel.name) == "attention_backward";
  return profile.attention_peak * saturation(kernel.m, profile.attention_half) *
         (backward ? profile.attention_backward : 1);
}

Seconds kernel_time(const Kernel& kernel, const GpuModel& gpu, FlopPerSecond peak,
                    const CostProfile& profile) {
  if (kernel.kind == Kernel::Kind::memory_bound) {
    const double share = memory_share(kernel.name, profile);
    return kernel.bytes / (gpu.memory_bandwidth * share) + profile.memory_start;
  }
  const Seconds memory = kernel.bytes / (gpu.memory_bandwidth * profile.gemm_memory);
  const Seconds arithmetic = kernel.flop / (peak * arithmetic_share(kernel, profile));
  return std::max(memory, arithmetic) + profile.gemm_start;
}

/// A start, the links' latency each round, and a transfer cut into the number of pieces that is
/// best when filling the pipeline of pieces takes time: (sqrt(transfer) + sqrt(fill))^2 - fill.
Seconds collective_time(const BlockCollective& collective, const GpuModel& gpu,
                        std::uint32_t tensor, Seconds latency, const CostProfile& profile) {
  if (tensor < 2) return {};
  const bool reduces = collective.kind == BlockCollective::Kind::all_reduce;
  const RingCost ring = reduces ? ring_all_reduce(tensor) : ring_half(tensor);
  const double loss = profile.nvlink_pair_loss;
  const double share = (reduces ? profile.nvlink_all_reduce : profile.nvlink) *
                       (1 - loss / tensor) / (1 - loss / 8);
  const BytesPerSecond rate = gpu.nvlink.value > 0 ? gpu.nvlink : gpu.pcie;
  const Seconds transfer = collective.bytes * ring.share / (rate * share);
  const Seconds filling{2 * std::sqrt(transfer.value * profile.nvlink_fill.value)};
  return profile.nvlink_start + latency * ring.rounds + transfer + filling;
}

}  // namespace

CostProfile cost_profile(const std::string& gpu) {
  const KernelProfile& from = kernel_profile(gpu);
  return {.gemm_peak = from.gemm_peak(),
          .gemm_half_m = from.gemm_half_m(),
          .gemm_half_n = from.gemm_half_n(),
          .gemm_half_k = from.gemm_half_k(),
          .gemm_memory = from.gemm_memory(),
          .gemm_start = {from.gemm_start()},
          .attention_peak = from.attention_peak(),
          .attention_half = from.attention_half(),
          .attention_backward = from.attention_backward(),
          .norm = from.norm(),
          .activation = from.activation(),
          .rotary = from.rotary(),
          .residual = from.residual(),
          .embedding = from.embedding(),
          .memory_start = {from.memory_start()},
          .nvlink = from.nvlink(),
          .nvlink_all_reduce = from.nvlink_all_reduce(),
          .nvlink_pair_loss = from.nvlink_pair_loss(),
          .nvlink_start = {from.nvlink_start()},
          .nvlink_fill = {from.nvlink_fill()},
          .network = from.network()};
}

BlockPrice price(const Block& block, const GpuModel& gpu, Precision precision,
                 std::uint32_t tensor, Seconds nvlink_latency, const CostProfile& profile) {
  BlockPrice sum;
  for (const Kernel& kernel : block.kernels) sum.moved += kernel.bytes * kernel.repeat;
  if (block.declared > 0) {
    sum.compute = {to_seconds(block.declared)};
    return sum;
  }
  const FlopPerSecond peak = gpu.peak(precision);
  for (const Kernel& kernel : block.kernels) {
    sum.compute += kernel_time(kernel, gpu, peak, profile) * kernel.repeat;
  }
  for (const BlockCollective& collective : block.collectives) {
    sum.tensor +=
        collective_time(collective, gpu, tensor, nvlink_latency, profile) * collective.repeat;
  }
  return sum;
}

RingCost ring_all_reduce(std::uint32_t n) { return {2.0 * (n - 1), 2.0 * (n - 1) / n}; }
RingCost ring_half(std::uint32_t n) { return {1.0 * (n - 1), 1.0 * (n - 1) / n}; }

Precision precision_named(const std::string& name) {
  if (name == "fp32") return Precision::fp32;
  ensure(name == "bf16", "a scenario's precision is one that the cost model knows");
  return Precision::bf16;
}

}  // namespace orrery
