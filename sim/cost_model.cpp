#include "sim/cost_model.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace orrery {
namespace {

/// Rises from 0 to 1 with `size`, one half at `half`: tile and wave quantisation, smoothed.
double saturation(double size, double half) { return size > 0 ? size / (size + half) : 0; }

Seconds kernel_time(const Kernel& kernel, const GpuModel& gpu, FlopPerSecond peak,
                    const CostProfile& profile) {
  const Seconds memory = kernel.bytes / (gpu.memory_bandwidth * profile.memory);
  Seconds arithmetic;
  if (kernel.kind == Kernel::Kind::gemm) {
    const double efficiency = profile.gemm_peak * saturation(kernel.m, profile.gemm_half_m) *
                              saturation(kernel.n, profile.gemm_half_n) *
                              saturation(kernel.k, profile.gemm_half_k);
    arithmetic = kernel.flop / (peak * efficiency);
  } else if (kernel.kind == Kernel::Kind::attention) {
    const double efficiency =
        profile.attention_peak * saturation(kernel.m, profile.attention_half);
    arithmetic = kernel.flop / (peak * efficiency);
  }
  return std::max(memory, arithmetic) + profile.kernel_start;
}

Seconds collective_time(const BlockCollective& collective, const GpuModel& gpu,
                        std::uint32_t tensor, Seconds latency, const CostProfile& profile) {
  if (tensor < 2) return {};
  const BytesPerSecond rate = gpu.nvlink.value > 0 ? gpu.nvlink : gpu.pcie;
  const RingCost ring = collective.kind == BlockCollective::Kind::all_reduce
                            ? ring_all_reduce(tensor)
                            : ring_half(tensor);
  return latency * ring.rounds + collective.bytes * ring.share / (rate * profile.nvlink);
}

}  // namespace

const CostProfile& default_cost_profile() {
  // Products: medians over the shapes of Llama, Qwen and InternLM layers in the Vidur profiles
  // (github.com/microsoft/vidur, MIT), large n and k: H100 67% of the dense peak at 512 rows and
  // 73% at 4096, A100 69% and 75%; at 64 rows both lie on the memory roof. Attention:
  // FlashAttention-2 and -3 papers, forward and backward together, bf16, long sequences. Memory:
  // STREAM-like kernels on A100 and H100. NVLink and network: nccl-tests bus bandwidth of large
  // rings over the data-sheet rate of one direction.
  static const CostProfile profile{
      .gemm_peak = 0.76, .gemm_half_m = 50, .gemm_half_n = 64, .gemm_half_k = 64,
      .attention_peak = 0.5, .attention_half = 512,
      .memory = 0.85, .nvlink = 0.8, .network = 0.92,
      .kernel_start = {2e-6}};
  return profile;
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
