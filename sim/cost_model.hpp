// What a block of work costs on a GPU: a roofline per kernel with an efficiency that depends on
// the shape, and closed-form ring collectives inside the node. Called by the simulator for every
// block once per run; needs no engine. Thread-safe: no state.
#pragma once

#include <cstdint>
#include <vector>

#include "core/units.hpp"
#include "topologies/cluster.hpp"
#include "traces/step_graph.hpp"

namespace orrery {

/// Efficiency of kernels and links: an input beside the hardware's data sheet, because it belongs
/// to the software stack. The defaults' sources stand in cost_model.cpp.
struct CostProfile {
  double gemm_peak = 0;       ///< share of the dense peak that a very large product reaches
  double gemm_half_m = 0;     ///< rows at which half of that is reached; likewise n and k
  double gemm_half_n = 0;
  double gemm_half_k = 0;
  double attention_peak = 0;  ///< the same for fused attention, by sequence length
  double attention_half = 0;
  double memory = 0;          ///< share of the peak memory bandwidth
  double nvlink = 0;          ///< share of NVLink's (or PCIe's) rate that a ring reaches
  double network = 0;         ///< share of a NIC's or switch port's rate that a flow reaches
  Seconds kernel_start;       ///< gap before each kernel
};

/// Fitted to published measurements (see the source file); one for all GPU models.
const CostProfile& default_cost_profile();

struct BlockPrice {
  Seconds compute;  ///< grows when the GPU is slow
  Seconds tensor;   ///< collectives of the tensor-parallel group, never hidden
  Bytes moved;      ///< through GPU memory
};

/// Price of one execution on a GPU of nominal speed, in a tensor-parallel group of `tensor` GPUs
/// of one node. A declared block costs exactly what it declares. Throws bad_input if the GPU does
/// not support the precision.
BlockPrice price(const Block& block, const GpuModel& gpu, Precision precision,
                 std::uint32_t tensor, Seconds nvlink_latency, const CostProfile& profile);

/// Rounds of a ring collective among n, and the share of its full size that crosses each edge.
struct RingCost {
  double rounds = 0;
  double share = 0;
};
RingCost ring_all_reduce(std::uint32_t n);
RingCost ring_half(std::uint32_t n);  ///< reduce-scatter, all-gather

/// Precision by its name in a scenario ("bf16"). Throws an internal Error on another one.
Precision precision_named(const std::string& name);

}  // namespace orrery
