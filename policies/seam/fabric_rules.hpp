// Limits that the live fabric (gRPC or NCCL) imposes on a training program. A simulation of a
// built-in model obeys the same limits as the live run. Any other model is only simulated: its
// placements and collectives are not limited. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "policies/seam/policy.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Returns the kinds of settings that the scenario's job can change while it runs: all kinds, but
/// CheckpointPlan only with the key `checkpoints`, PowerCap only without a built-in model, which
/// live runs can train, and Prefetch only with the key `job.input` of a model that is only
/// simulated and not recorded.
Kinds<Setting> settable(const Scenario& scenario);

/// Returns the reason why the fabric cannot carry out a decision on the scenario's job; empty if
/// the fabric can. `is_placed`: the job has GPUs, so that an assignment without a state would
/// lose the training. Also for a model that is only simulated, an assignment needs a possible
/// layout (layout_objection), checkpoints need the key `checkpoints` and a tier
/// other than storage, the tier peer needs two nodes, and sharded gradients cannot be compressed.
std::string fabric_refusal(const Scenario& scenario, const Decision& decision,
                           bool is_placed = true);

/// Returns true if an assignment may change the tensor, context and pipeline sizes of the job: the
/// job is described by the sizes of its model, and no part of its step is declared or recorded.
/// Such a job is only simulated.
bool can_change_layout(const Job& job);
/// Returns the sizes of a layout of a scenario, and the order of its ranks.
ParallelLayout layout_of(const Layout& layout);
/// Returns the job of the scenario with the sizes of another layout. The order of its ranks stays.
Job with_layout(Job job, const ParallelLayout& layout);
/// Returns the reason why the job cannot run with `layout`, beginning with the path of the setting
/// in the scenario; empty if the job can. For example, a pipeline has at most as many stages as the
/// model has layers.
std::string layout_objection(const Job& job, const ParallelLayout& layout);
/// Returns the reason why the job cannot run with `replicas` data-parallel replicas, beginning with
/// the path of the setting in the scenario; empty if the job can.
std::string replicas_objection(const Job& job, std::uint32_t replicas);

/// Returns the largest number of GPUs that a job in a cluster of `gpus` GPUs can be assigned: the
/// GPUs of its layout or, if it is `elastic` and more fit, those of the largest number of replicas
/// that fits the cluster and that the job can run with. The sizes of the layout must be set and
/// above 0.
std::uint32_t most_gpus(const Job& job, bool elastic, std::uint32_t gpus);

/// Returns the number of micro-batches of one step that fit into the memory of one replica:
/// job.max_share times the even share of `micro_batches` among `replicas`, and at least the largest
/// even share. `replicas` must not be 0, and max_share must be set. For example, 10 micro-batches,
/// 4 replicas and a max_share of 1 give 3.
std::uint32_t max_micro_batches(const Scenario& scenario, std::uint32_t micro_batches,
                                std::uint32_t replicas);

/// Returns the reaction of the job to lost ranks until a policy decides: survival.on_loss of the
/// scenario if set; otherwise `go_on` if `applied` (decisions of the run are applied) and a policy
/// decides placements, and `replace` if not.
OnLoss loss_response(const Scenario& scenario, const Needs& needs, bool applied);

/// Returns true if gradients are summed as integers, so that the sum has the same bits for any
/// division of the batch among ranks: live.reproducible with a built-in model.
bool reproducible_sums(const Scenario& scenario);

}  // namespace orrery
