// State machine of a job between its first assignment and its end, the same in simulated and live
// runs. The state is JobInfo, which World changes by events only; this file has the rules. Pure
// functions of the state, without clock, processes or threads. A world calls the function of an
// input, emits the events and carries out the orders: a simulated run adds durations, a live run
// processes.
//
// | input                      | rule                       | events          | orders            |
// |----------------------------|----------------------------|-----------------|-------------------|
// | heartbeats are missing     | suspicion_of()             | RanksSuspected  |                   |
// | ranks are lost             | loss_of()                  | RanksLost       |                   |
// | World has applied the loss | after_loss()               | JobHeld if held | replace           |
// | a node is lost             | lose_copies()              |                 |                   |
// | GPUs are assigned          | is_restart(), orders_of()  | JobHeld (1)     | start, abandon (2)|
// | a GPU is lost              | is_assignment_void()       |                 | end role `none`   |
// | a process ends             | role_of(): working         | a loss          |                   |
// |                            | role_of(): starting        |                 | start it again    |
// |                            | role_of(): leaving, none   |                 |                   |
// | all assigned ranks joined  | start_of() (3)             | JobStarted      | end role `none`   |
// | the job leaves its GPUs    | stop_of()                  | JobStopped      | end all processes |
// | a checkpoint is complete   | add_checkpoint()           |                 |                   |
// | the last step is committed | has_done_all_steps()       | JobDone         |                   |
//
// (1) if the assignment restarts a running job; (2) the current step, if ranks leave before others
// have joined; (3) not if the job has done all of its steps. For example, if rank 2 of 4 is silent
// and then lost under `on_loss: replace`, the policies see RanksSuspected {2}, RanksLost {2} and,
// once a process on the same GPU has joined, JobStarted.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "policies/seam/decision.hpp"
#include "policies/seam/event.hpp"

namespace orrery {

/// Role of a GPU's process in a job. `none`: neither the job nor its pending assignment uses the
/// GPU, so a process there must end; also the GPU of a lost rank that no assignment uses again.
/// `working`: the process is a rank and stays one. `starting`: the pending assignment uses the GPU,
/// on which no rank works now. `leaving`: the process is a rank until the pending assignment is
/// active.
enum class ProcessRole : std::uint8_t { none, working, starting, leaving };

/// Returns true if the assignment restarts the job: the job has GPUs, trains, and does not take its
/// state from a peer. All ranks end at once, also those on GPUs that the assignment names; the job
/// is on hold until new ranks have loaded the state.
bool is_restart(const JobInfo& job, const Assign& assign);
/// Returns the rank that works on the GPU; nothing if the job does not use the GPU, or if the rank
/// is lost. The ranks of a job that is restarting count, see role_of().
std::optional<RankId> rank_on(const JobInfo& job, GpuId gpu);
/// Returns the GPUs of the lost ranks, in the order of their ranks.
std::vector<GpuId> lost_gpus(const JobInfo& job);
/// Returns the number of ranks that work: those of the job's GPUs without the lost ones; 0 for a
/// job without GPUs and for a job that is restarting.
std::size_t count_working_ranks(const JobInfo& job);
/// Returns the role of the GPU's process. For example, on GPUs 0 to 3 with rank 3 lost and an
/// assignment to 0, 1 and 4 pending: 0 and 1 work, 2 leaves, 4 starts, 3 has no role.
ProcessRole role_of(const JobInfo& job, GpuId gpu);

/// Records a complete checkpoint of the job, and updates `saved` and `saved_at`.
void add_checkpoint(JobInfo& job, HeldCheckpoint checkpoint);
/// Removes the copies of the job's checkpoints in the memory of a lost node; `saved` and `saved_at`
/// are then those of the newest checkpoint that is left, or 0.
void lose_copies(JobInfo& job, NodeId node);
/// Forgets the checkpoints of steps after `step`, with which the job begins again.
void forget_checkpoints_after(JobInfo& job, Step step);
/// Marks the state of the job as corrupted. The newest checkpoint of the job is then that of step
/// `intact`, which is complete at `now` at the latest; 0: the job has none any more.
void fall_back(JobInfo& job, Step intact, Nanos now);

/// Returns the time since its last heartbeat after which a rank is suspected: half of the time
/// after which it is lost.
constexpr Nanos suspicion_time(Nanos heartbeat_timeout) { return heartbeat_timeout / 2; }
/// Returns the event that replaces the job's list of suspected ranks by `silent`, the ranks without
/// a heartbeat for suspicion_time(), in any order and perhaps repeated; nothing if the list would
/// not change. A rank that is lost or that the job does not have is not suspected, nor is any rank
/// of a job that restarts or has no GPUs. A loss needs no such event: World removes the lost ranks
/// from the list. For example, with rank 1 in the list, {1} is no event, and {} is one without
/// ranks: rank 1 has sent a heartbeat.
std::optional<RanksSuspected> suspicion_of(const JobInfo& job, std::vector<RankId> silent);

/// Returns the event of a loss of `ranks`, which may be in any order and repeat: ascending, each
/// once, in the next membership epoch.
RanksLost loss_of(const JobInfo& job, std::vector<RankId> ranks);

/// Consequences of a loss.
struct AfterLoss {
  bool held = false;           ///< the job stops until it is assigned: JobHeld follows
  bool is_assigned = false;    ///< an assignment is pending, made by the loss or before it
  /// no whole replica is left, or the state is corrupted, so that no rank can pass on the state
  bool is_state_lost = false;
  std::vector<GpuId> replace;  ///< GPUs of all lost ranks, of any loss, that the assignment uses
};
/// Returns the consequences of a loss; call after World has applied the RanksLost event. `can_run`:
/// the remaining replicas are a job that can be run (replicas_objection() is empty). The job is
/// held if its OnLoss says so, if it is not running, if the remaining replicas lack the memory for
/// the work of the lost ones, or if the job cannot run with the remaining number of replicas.
AfterLoss after_loss(const JobInfo& job, bool can_run);

/// Courses of silent ranks that were lost and are heard again, by the GPU of their process.
struct ReturnOrders {
  /// The processes take part again: as ranks of the job, or as those that the pending assignment
  /// starts there.
  std::vector<GpuId> readmit;
  /// The places of the processes are taken: they end.
  std::vector<GpuId> end;
};
/// Returns what becomes of the processes on `heard`, whose ranks fell silent and are heard again.
/// Readmitted are: a process that the pending assignment would start, a process whose loss is not
/// reported yet, and, if no assignment is pending, the processes of the job's lost ranks, provided
/// that the job can run then: no rank is lost any more, or OnLoss is not `hold`, the working
/// replicas have the memory for the batch, and `can_run` accepts their number. Processes in the
/// places of lost ranks for which that does not hold yet are in neither list: they wait. All others
/// end.
ReturnOrders returns_of(const JobInfo& job, const std::vector<GpuId>& heard,
                        const std::function<bool(std::uint32_t replicas)>& can_run);
/// Returns the event by which the lost ranks on the GPUs `back` work again: the placement and the
/// layout stay, other ranks stay lost. Call only for GPUs that returns_of() readmits while no
/// assignment is pending.
JobStarted start_after_return(const JobInfo& job, const std::vector<GpuId>& back);

/// Orders that follow from an accepted assignment.
struct AssignmentOrders {
  /// Assigned GPUs without a working rank: processes to start. Their role is `starting` once the
  /// assignment is pending.
  std::vector<GpuId> start;
  /// The current step is not completed: working ranks end at once. Ranks that leave once others
  /// have joined complete it.
  bool abandons_step = false;
};
/// Returns the orders of an assignment with GPUs. Call before World applies the JobStarted of the
/// assignment: `job` still has its earlier placement. No orders if the job has lost no rank and the
/// GPUs are its present ones. A restart starts processes for all of its GPUs and abandons the step.
AssignmentOrders orders_of(const JobInfo& job, const Assign& assign);

/// Returns true if the pending assignment of a running job is void: a GPU on which it starts a
/// process is lost. World then drops the assignment: the ranks that work go on, and the policies
/// decide anew. A rank that still works on a lost GPU makes nothing void; its loss follows. For
/// example, a growth of a job on GPUs 0 and 1 to GPU 2 is void once GPU 2 is lost. Restarts, and
/// assignments of jobs on hold, are not void. `is_healthy`: true for a GPU that is not lost, nor
/// its node.
bool is_assignment_void(const JobInfo& job, const std::function<bool(GpuId)>& is_healthy);

/// Returns the event of a job that has left all of its GPUs and would begin again at step `kept`,
/// that of its newest intact checkpoint or, without one, 0.
JobStopped stop_of(const JobInfo& job, Step kept);

/// Returns true if a job of `steps` steps has completed its last step: JobDone follows, and a
/// pending assignment is not activated any more. Returns false for 0 steps: the number is unknown.
constexpr bool has_done_all_steps(Step completed, Step steps) {
  return steps > 0 && completed >= steps;
}
/// The same for the steps of the job's submission.
bool has_done_all_steps(const JobInfo& job);
/// Returns the event that activates an assignment to `where` from step `from` on, in the next
/// membership epoch.
JobStarted start_of(const JobInfo& job, Step from, Standing where);

}  // namespace orrery
