// Traffic of a simulated training job with the file system that all nodes share (cluster.storage):
// the checkpoint in flight and the reads of the training data are flows, one of each kind for a
// rank, which share the file system and the links of the nodes max-min fairly. Rates are computed
// anew at events: begin and end of a checkpoint, begin of a step, a fault of the storage. One
// thread. Seconds and bytes; nanoseconds of the policy clock where named Nanos.
//
// Limits: a step in progress keeps its duration, also when a fault of the storage begins or ends;
// all ranks advance at the rate of the slowest one of the same kind; data that were read ahead
// before a checkpoint begins do not count.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/ids.hpp"
#include "policies/seam/job.hpp"
#include "topologies/cluster.hpp"
#include "topologies/topology.pb.h"
#include "traces/workload/step_graph.hpp"

namespace orrery::sim {

class JobInWorld;
struct TrainingState;

/// Nodes with equal numbers of ranks of a job.
struct StorageNodes {
  std::uint32_t nodes = 0;
  std::uint32_t writers = 0;  ///< ranks of one node, each with its shard of a checkpoint
  std::uint32_t readers = 0;  ///< ranks of one node in the first stage, which read training data
};

/// Returns the nodes of a job by their numbers of ranks. `placement`: GPU of each rank of `graph`.
std::vector<StorageNodes> storage_nodes(const Cluster& cluster, const StepGraph& graph,
                                        const std::vector<GpuId>& placement);

/// Rates of flows of one rank, in bytes per second.
struct StorageRates {
  double write = 0;
  double read = 0;
};

/// Returns the rates of the slowest writer and reader on `nodes`, if all flows share `storage`
/// max-min fairly and none exceeds `wanted`; 0 for a kind without ranks or with wanted rate 0.
/// `share`: available share of the file system's bandwidth, 0 to 1. For example, a file system of
/// 10 GB/s for one node with one writer that wants all and one reader that wants 2 GB/s gives 8 and
/// 2 GB/s.
StorageRates storage_rates(const SharedStorage& storage, double share,
                           const std::vector<StorageNodes>& nodes, StorageRates wanted);

/// Returns the nanoseconds in which one process of a rank reads one micro-batch in the step that
/// begins now: `job.input.read`, or longer if the storage has no room for the rate at which the
/// rank's processes read, beside a checkpoint in flight; 0 without `job.input.stored`. If the
/// checkpoint ends before the step's data are read, the mean over the step, within 0.2%. `set` and
/// `shares`: setting and micro-batches of the replicas in that step. Call only if the storage
/// accepts anything (is_input_cut()).
Nanos read_time(const JobInWorld& here, const TrainingState& state, const Prefetch& set,
                const std::vector<std::uint32_t>& shares);
/// Returns true if the job reads its data from storage that accepts nothing now, so that no step
/// can begin.
bool is_input_cut(const JobInWorld& here, const TrainingState& state);
/// Sets the rate of the checkpoint in flight from now on, beside the reads of steps that take
/// `step_length` each, or without reads if that is 0: the mean over a step, or the rate beside
/// active readers if the checkpoint ends before the data of the current step are read. Does
/// nothing without a checkpoint of `checkpoints.bytes` in flight.
void renew_write_rate(const JobInWorld& here, TrainingState& state, Nanos step_length);
/// Returns the next instant at which a fault may change the rate of the checkpoint in flight;
/// kNever if none does, or without such a checkpoint.
Nanos next_rate_change(const TrainingState& state);

}  // namespace orrery::sim
