// Cost model of a block of work on a GPU. Called by the simulator for every block once per run;
// needs no engine. Errors: docs/accuracy.md. Thread-safe: no state.
//
// The model is a roofline per kernel (Williams, Waterman, Patterson 2009) with an efficiency that
// depends on the shape, plus closed forms for the collectives between kernels. For example, a
// memory-bound kernel takes bytes / (memory bandwidth x share) + start gap.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/units.hpp"
#include "topologies/cluster.hpp"
#include "topologies/topology.pb.h"
#include "traces/workload/job_choices.hpp"
#include "traces/workload/precision.hpp"
#include "traces/workload/step_graph.hpp"

namespace orrery::estimates {

class MeasuredKernels;

/// Rate of attention on a GPU in 16 bits, for example 428 TFLOP/s, half of it at 942 tokens, and
/// 0.68 of it in the backward pass.
struct AttentionRate {
  FlopPerSecond most = {};  ///< rate of a forward pass over a long sequence
  double half = 0;          ///< tokens of the sequence that reaches half of it
  double backward = 1;      ///< rate relative to the forward pass
};

/// Rates that kernels and links of a GPU family reach, as shares of the data sheet's rates. Fields
/// and ranges: KernelProfile in topologies/topology.proto; values: topologies/catalog/kernels.yaml.
struct CostProfile {
  double gemm_peak = 0, gemm_processors = 0, gemm_tile_loss = 0, gemm_half_k = 0, gemm_wave = 0;
  double gemm_overlap = 0, gemm_memory = 0;
  double gemm_low_peak = 0;  ///< gemm_peak of products below 16 bits, as a share of their own peak
  double gemm_fp4_peak = 0;  ///< the same in 4 bits; 0: as in 8 bits
  double grouped = 1;        ///< factor on the rate of the experts' products
  Seconds gemm_start;        ///< gap before each product and each attention
  double attention_peak = 0, attention_half = 0;
  double attention_backward = 0;  ///< rate relative to the forward pass
  double attention_lanes = 0;     ///< a head's size is padded to a multiple of this; 0: not
  double norm = 0, activation = 0, rotary = 0, residual = 0, embedding = 0;
  Seconds memory_start;          ///< gap before each memory-bound operator
  double nvlink = 0;             ///< share of NVLink's (or PCIe's) rate that a ring reaches
  double nvlink_all_reduce = 0;  ///< the same for all-reduces, which a switch may reduce
  double nvlink_pair_loss = 0;   ///< factor among n GPUs: (1 - loss / n) / (1 - loss / 8)
  Seconds nvlink_start, nvlink_fill;
  double network = 0;  ///< share of a NIC's or switch port's rate that a flow reaches
  /// Coefficients of collectives by protocol (sim/estimates/collectives/protocols.hpp); zeros: one
  /// protocol without costs.
  Seconds collective_start = {};
  double collective_ll = 0, collective_ll128 = 0;  ///< shares of the plain protocol's rate
  /// Factors on NCCL's constants, inside and between domains.
  double collective_hop = 0, network_hop = 0;
  Seconds collective_fill = {};
  double network_fill = 0, collective_pair_loss = 0;
  double nvls = 0, send = 0;  ///< shares of NVLink's rate; 0: as a ring
  Seconds send_start = {};
  /// Coefficients of single collectives; zeros: as the value named behind the colon.
  double collective_round = 0;        ///< factor on a round's latency in a domain: 1
  Seconds collective_nvls_fill = {};  ///< collective_fill
  double collective_ring = 0, collective_direct = 0;  ///< shares of NVLink's rate: nvlink
  double collective_half_loss = 0;                    ///< collective_pair_loss
  double network_pair_loss = 0;
  /// Share of the bytes of norm, activation, rotary and residual that fusion leaves.
  double fused_bytes = 1;
  Seconds layer_gap = {};     ///< host time added to each pass of a layer
  Seconds expert_gap = {};    ///< host time added to each pass of a layer with experts
  Seconds layer_host = {};    ///< host time to launch a layer pass, which no pass is shorter than
  Seconds transfer_gap = {};  ///< time of a transfer between stages beside its bytes
  double latency = 1;         ///< factor on latencies between nodes inside blocks
  double update_bytes = 1, loss_bytes = 1;  ///< factors on the bytes that optimizer and loss move
  double attention_flash_1 = 1, attention_flash_2 = 1;  ///< rates relative to the newest kernels
  double attention_rate = 1;  ///< rate of the job's kernels relative to the newest
  /// Rate that attention reaches at least: that of the same kernels on an older GPU.
  AttentionRate attention_least = {};
  double beside = 0;  ///< part of exchanges beside computation by which that becomes longer
  double link_limit = 0;      ///< upper limit of every link's rate, bytes per second; 0: no limit
  /// Kernels of the node, as measured, in place of the prices above; null: none.
  std::shared_ptr<const MeasuredKernels> measured = {};
};

/// Returns the shipped profile of a GPU model by name; kernel_profile() documents the lookup.
CostProfile cost_profile(const std::string& gpu);
/// Returns the profile with the coefficients of a catalogue entry.
CostProfile cost_profile(const KernelProfile& from);
/// Returns the profile of a GPU: by its family if it has one, else by its name.
CostProfile cost_profile(const GpuModel& gpu);

/// Returns the profile for the links of a cluster: unchanged, or, if the cluster asks for line
/// rate, with all links at the rates of their data sheets and without protocols, start and fill
/// times.
CostProfile over_links(CostProfile profile, const Cluster& cluster);

/// Returns the profile with the prices of a node's own measurements: its kernels, the collectives
/// inside the node, and the rates of its links between GPUs. Throws bad_input if the GPU is of
/// another model.
CostProfile with_measured(CostProfile profile, std::shared_ptr<const MeasuredKernels> measured,
                          const GpuModel& gpu);

/// Returns the profile with the job's generation of attention kernels (flash_1, flash_2; for any
/// other kernels: unchanged).
CostProfile with_attention(CostProfile profile, Attention kernels);

/// Returns the profile under a software stack: with the stack's factors and gaps (SoftwareStack in
/// traces/scenario.proto). `gpu` and `family` select the stack's compute factor for that GPU, by
/// name, then by family; 1 if it has none. `has_experts`: the model is a mixture of experts, whose
/// products have a factor of their own. The caller adds the gap of a whole step.
CostProfile apply(CostProfile profile, const SoftwareStack& stack, const std::string& gpu = {},
                  const std::string& family = {}, bool has_experts = false);

/// Returns the profile of a GPU with a job's attention kernels and a software stack, as
/// with_attention() and apply() give it, times the stack's own factor for older kernels. On a GPU
/// with a higher peak than H100 and a measured attention (Blackwell) no attention is slower than
/// that of the same kernels and the same stack on H100, however small a share of its peak older
/// kernels reach. This limit does not hold for a stack with a factor for the GPU and none for H100.
CostProfile software_profile(const GpuModel& gpu, Attention kernels, const SoftwareStack& stack,
                             bool has_experts);

/// Returns the rate of grouped products on a GPU under a stack, over that of padded ones.
double grouped_rate(const GpuModel& gpu, const SoftwareStack& stack);

/// Shape of a communicator: its ranks, and the ranks that share an NVLink domain (a node, or
/// several).
struct GroupShape {
  std::uint32_t size = 1, per_node = 1;
};

/// Communicators and links of the collectives inside a block.
struct BlockGroups {
  GroupShape tensor, context, expert;
  /// Latency between neighbours in a node, and of two nodes.
  Seconds nvlink_latency, network_latency;
  BytesPerSecond network;  ///< share of the node's NIC bandwidth per GPU
  /// Returns the shape of a tensor, context or expert communicator. Throws an internal Error for
  /// any other kind.
  const GroupShape& of(Communicator which) const;
};

/// Returns block groups of these shapes over a cluster's links.
BlockGroups group_links(const Cluster& cluster, GroupShape tensor, GroupShape context,
                        GroupShape expert);
/// Ranks per NVLink domain of each replica's communicators, by kind: the value of the communicator
/// that is spread over most domains. An empty vector means communicators of one rank. Communicators
/// of experts may contain ranks of several replicas.
struct ReplicaGroups {
  std::vector<std::uint32_t> tensor, context, expert;
  /// Returns the entries of `replicas` (indices of replicas), in this order; empty vectors stay
  /// empty. The result is valid for a job of these replicas alone if is_within_replicas() holds.
  ReplicaGroups of(const std::vector<std::uint32_t>& replicas) const;
};
/// Returns the groups of every replica for ranks placed by `placement`.
ReplicaGroups replica_groups(const StepGraph& graph, const Cluster& cluster,
                             const std::vector<GpuId>& placement);
/// Returns true if no communicator inside blocks contains ranks of several replicas.
bool is_within_replicas(const StepGraph& graph);
/// Returns the block groups for the least favourable replica of each kind.
BlockGroups block_groups(const StepGraph& graph, const Cluster& cluster,
                         const ReplicaGroups& groups);
/// Returns the block groups of placed ranks: of each kind the communicator on most NVLink domains.
BlockGroups block_groups(const StepGraph& graph, const Cluster& cluster,
                         const std::vector<GpuId>& placement);

/// Cost of one execution of a block.
struct BlockPrice {
  Seconds compute;  ///< kernel time, which grows with the GPU's slowdown
  Seconds tensor;   ///< collectives inside the block that no kernel hides, and waits for launches
  Bytes moved;      ///< bytes through GPU memory
  Seconds products = {};  ///< part of `compute` in matrix products and attention
  Seconds memory = {};    ///< part of `compute` in kernels that the GPU's memory limits
};

/// Returns the seconds of a block's kernels at a share `clock` of the GPU's compute clock: products
/// take 1/clock as long, everything else as long as before.
inline double kernel_time(const BlockPrice& price, double clock) {
  return price.compute.value + price.products.value * (1 / clock - 1);
}

/// Returns the precision in which a GPU computes a product of this precision: the next wider one
/// that the GPU has, for example tf32 as fp32 and fp8 as bf16.
Precision supported_precision(const GpuModel& gpu, Precision precision);

/// Returns the cost of one execution on a GPU of nominal speed. Products of low precision run at
/// the job's `precision`, all others in 16 bits (fp32 or tf32 if the job uses these); kernels with
/// a precision of their own in supported_precision(). A collective that runs beside a kernel costs
/// the time by which it exceeds all executions of the kernel. A declared block costs exactly the
/// declared time. Throws bad_input if the GPU does not support the precision of a product or an
/// attention.
BlockPrice price(const Block& block, const GpuModel& gpu, Precision precision,
                 const BlockGroups& groups, const CostProfile& profile);

/// Rounds of a ring collective among n ranks, and the share of the full size that crosses each
/// edge.
struct RingCost {
  double rounds = 0;
  double share = 0;
};
/// Returns the cost of an all-reduce: 2 (n - 1) rounds, share 2 (n - 1) / n.
RingCost ring_all_reduce(std::uint32_t n);
/// Returns the cost of a reduce-scatter or an all-gather: n - 1 rounds, share (n - 1) / n.
RingCost ring_half(std::uint32_t n);

/// Returns the format in which a GPU computes the products of a job: fp8 also for mxfp8, fp4 for
/// nvfp4, and bf16, which has the same rate, for fp16.
Precision product_precision(JobPrecision precision);

}  // namespace orrery::estimates
