// What a block of work costs on a GPU: a roofline per kernel with an efficiency that depends on
// the shape, and closed forms for the collectives between its kernels. Called by the simulator for
// every block once per run; needs no engine. Errors: docs/accuracy.md. Thread-safe: no state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/units.hpp"
#include "topologies/cluster.hpp"
#include "topologies/topology.pb.h"
#include "traces/training/step_graph.hpp"

namespace orrery::estimates {

/// What kernels and links of a GPU family reach: shares of the data sheet's rates. Fields and
/// ranges: KernelProfile in topologies/topology.proto; values: topologies/catalog/kernels.yaml.
struct CostProfile {
  double gemm_peak = 0, gemm_processors = 0, gemm_tile_loss = 0, gemm_half_k = 0, gemm_wave = 0;
  double gemm_overlap = 0, gemm_memory = 0;
  double gemm_low_peak = 0;       ///< gemm_peak of products below 16 bits, of their own peak
  double gemm_fp4_peak = 0;       ///< the same in 4 bits; 0: as in 8
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
  /// Of collectives by protocol (sim/estimates/collectives/protocols.hpp); zeros: one protocol that
  /// costs nothing.
  Seconds collective_start = {};
  double collective_ll = 0, collective_ll128 = 0;  ///< shares of the plain protocol's rate
  double collective_hop = 0, network_hop = 0;      ///< of NCCL's constants, inside and between
  Seconds collective_fill = {};
  double network_fill = 0, collective_pair_loss = 0;
  double nvls = 0, send = 0;                       ///< shares of NVLink's rate; 0: as a ring
  Seconds send_start = {};
  double fused_bytes = 1;         ///< of norm, activation, rotary, residual: left after fusion
  Seconds layer_gap = {};         ///< what the host adds to each pass of a layer
  Seconds layer_host = {};        ///< what it needs to launch one, which no pass is shorter than
  Seconds transfer_gap = {};      ///< what a transfer between stages takes beside its bytes
  double latency = 1;             ///< factor on latencies between nodes inside blocks
  double update_bytes = 1, loss_bytes = 1;  ///< factors on what optimizer and loss move
  double attention_flash_1 = 1, attention_flash_2 = 1;  ///< over the newest kernels' rate
  double attention_rate = 1;      ///< of the job's kernels, over the newest
  double link_limit = 0;          ///< bytes per second that no link passes on more of; 0: none
};

/// The shipped profile of a GPU model by name (kernel_profile() says which).
CostProfile cost_profile(const std::string& gpu);
CostProfile cost_profile(const KernelProfile& from);
/// Of a GPU: by its name, where a profile is fitted on it; else by its family.
CostProfile cost_profile(const GpuModel& gpu);

/// The same over the links of a cluster: as measured, or at the rates of their data sheets.
CostProfile over_links(CostProfile profile, const Cluster& cluster);

/// With the job's generation of attention kernels (Job.attention).
CostProfile with_attention(CostProfile profile, const std::string& kernels);

/// The same under a software stack: its factors and gaps (SoftwareStack in traces/scenario.proto;
/// the gap of a whole step is the caller's).
CostProfile apply(CostProfile profile, const SoftwareStack& stack, const std::string& gpu = {},
                  const std::string& family = {});

/// Ranks of a communicator, and how many share an NVLink domain: a node, or several.
struct GroupShape {
  std::uint32_t size = 1, per_node = 1;
};

/// Who talks inside a block, and over what.
struct BlockGroups {
  GroupShape tensor, context, expert;
  Seconds nvlink_latency, network_latency;  ///< between neighbours of a node, of two nodes
  BytesPerSecond network;                   ///< one GPU's part of its node's NICs
  const GroupShape& of(Communicator which) const;
};

/// Groups of those shapes over a cluster's links.
BlockGroups group_links(const Cluster& cluster, GroupShape tensor, GroupShape context,
                        GroupShape expert);
/// By replica and kind, how many ranks the NVLink domains hold of that of its groups where they
/// hold fewest; empty: groups of one. Groups of experts may have ranks of several replicas.
struct ReplicaGroups {
  std::vector<std::uint32_t> tensor, context, expert;
  /// Of some of the replicas; true of a job of those alone where its groups are within_replicas().
  ReplicaGroups of(const std::vector<std::uint32_t>& replicas) const;
};
ReplicaGroups replica_groups(const StepGraph& graph, const Cluster& cluster,
                             const std::vector<GpuId>& placement);
bool within_replicas(const StepGraph& graph);
BlockGroups block_groups(const StepGraph& graph, const Cluster& cluster,
                         const ReplicaGroups& groups);
/// The groups of the ranks where they are placed: of each kind the one on most NVLink domains.
BlockGroups block_groups(const StepGraph& graph, const Cluster& cluster,
                         const std::vector<GpuId>& placement);

struct BlockPrice {
  Seconds compute;  ///< grows when the GPU is slow
  Seconds tensor;   ///< collectives inside the block that no kernel hides
  Bytes moved;      ///< through GPU memory
};

/// Price of one execution on a GPU of nominal speed. Products of low precision run at the job's
/// `precision`, everything else in 16 bits (fp32 where the job is). A collective that runs beside
/// a kernel costs what is longer than all executions of it. A declared block costs exactly what
/// it declares. Throws bad_input if the GPU does not support the precision.
BlockPrice price(const Block& block, const GpuModel& gpu, Precision precision,
                 const BlockGroups& groups, const CostProfile& profile);

/// Rounds of a ring collective among n, and the share of its full size that crosses each edge.
struct RingCost {
  double rounds = 0;
  double share = 0;
};
RingCost ring_all_reduce(std::uint32_t n);
RingCost ring_half(std::uint32_t n);  ///< reduce-scatter, all-gather

/// Precision by its name in a scenario ("bf16"). Throws an internal Error on another one.
Precision precision_named(const std::string& name);

}  // namespace orrery::estimates
