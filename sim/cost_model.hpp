// What a block of work costs on a GPU: a roofline per kernel with an efficiency that depends on
// the shape, and closed-form ring collectives inside the node. Called by the simulator for every
// block once per run; needs no engine. Errors: docs/accuracy.md. Thread-safe: no state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/units.hpp"
#include "topologies/cluster.hpp"
#include "traces/step_graph.hpp"

namespace orrery {

/// What kernels and links of a GPU family reach: shares of the data sheet's rates. Fields and
/// ranges: KernelProfile in topologies/topology.proto; values: topologies/catalog/kernels.yaml.
struct CostProfile {
  double gemm_peak = 0, gemm_half_m = 0, gemm_half_n = 0, gemm_half_k = 0;
  double gemm_memory = 0;
  Seconds gemm_start;             ///< gap before each product and each attention
  double attention_peak = 0, attention_half = 0;
  double attention_backward = 0;  ///< rate over the forward pass's
  double norm = 0, activation = 0, rotary = 0, residual = 0, embedding = 0;
  Seconds memory_start;           ///< gap before each memory-bound operator
  double nvlink = 0;              ///< share of NVLink's (or PCIe's) rate that a ring reaches
  double nvlink_all_reduce = 0;   ///< the same for all-reduces, which the switch may add up
  double nvlink_pair_loss = 0;    ///< among n: (1 - loss / n) / (1 - loss / 8) of that
  Seconds nvlink_start, nvlink_fill;
  double network = 0;             ///< share of a NIC's or switch port's rate that a flow reaches
};

/// The shipped profile of a GPU model by name (kernel_profile() says which).
CostProfile cost_profile(const std::string& gpu);

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
