// Release of the GPUs of a live run's job, restart of a job on its GPUs, and the state with which a
// job without ranks begins again.
#pragma once

#include "live/run/run_parts.hpp"
#include "live/run/step_parts.hpp"
#include "policies/seam/gate.hpp"

namespace orrery::live {

/// Takes the job off its GPUs, to wait for another assignment: kills the processes of its ranks,
/// gives up the current step and a checkpoint whose shards are not all written, and rolls the run
/// back to the newest durable checkpoint that the policies know or, without one, to the state with
/// which the run began. First rejects the open proposals. Then emits SaveDone for checkpoints that
/// end meanwhile and JobStopped, begins a hold (Recovery), and rejects the deferred decisions;
/// those past their expiry or epoch expire. Emits events by `carrier`. Blocks until the checkpoint
/// folder is quiet, at most ten seconds. Writes the rollback to the journal before JobStopped is
/// emitted. No effect on the processes of warm spares. Call only for a job that has GPUs. Throws an
/// internal Error if that checkpoint is not among the complete ones.
void release_job(RunParts& run, StepParts& parts, Carrier& carrier);

/// Ends all ranks of a job whose pending assignment restarts it, as release_job(), but the job
/// keeps its GPUs and its assignment: emits JobHeld if the job was running without lost ranks, and
/// expires the settings that wait. The caller then starts the processes of the assignment, which
/// load the state. `state`: `none` rolls the run back to the state with which it began, also if a
/// checkpoint exists.
void restart_job(RunParts& run, StepParts& parts, Carrier& carrier, StateFrom state);

/// Lets the ranks of a pending replacement load the newest checkpoint, because no rank with the
/// state is left; as restart_job(). Returns false, without effect, if no replacement is pending, if
/// there is no checkpoint, or if the run has not advanced since the last time: the cause may return
/// at the same step.
bool restore_job(RunParts& run, StepParts& parts, Carrier& carrier);

/// Chooses another checkpoint for a job without ranks that is to load copies in memory, if the
/// copies are lost: rolls the run further back, to the newest durable checkpoint that is left or,
/// without one, to the state with which the run began. Processes that are loading the copies end
/// and are started again. No effect if the job works, if it is to load another checkpoint, or if
/// the copies can be read, which reads every byte. Call after a node is lost and the world knows
/// it.
void choose_checkpoint_again(RunParts& run, StepParts& parts);

}  // namespace orrery::live
