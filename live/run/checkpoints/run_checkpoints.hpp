// Checkpoints of a run, as seen by its controller.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "live/checkpoint/keeper.hpp"
#include "live/control.pb.h"
#include "live/run/files/kept_checkpoints.hpp"
#include "live/run/files/run_state.hpp"
#include "live/training/text.hpp"
#include "policies/seam/job.hpp"
#include "traces/report.pb.h"
#include "traces/run.pb.h"

namespace orrery::live {

/// Returns the SHA-256 of everything that the parameters after a step depend on: model, seed,
/// optimizer, batch and text. Neither the number of ranks nor the number of steps changes the name.
std::string training_name(const Scenario& scenario, const Text& text);

/// Place of a run's checkpoints in memory.
struct CheckpointMemory {
  const Cluster* cluster = nullptr;  ///< Cluster of the ranks: rank r is on GPU r.
  std::string folder = {};           ///< Empty: the run has no checkpoints in memory.
};

/// Planner of a run's checkpoints: the checkpoint from which the run resumes, the steps that end
/// with a checkpoint, and the outcomes of the attempts. Checkpoints of the tiers local_disk and
/// storage are in the folders of the scenario, those of the tiers memory and peer in a folder in
/// the memory of this machine, which has one folder for each node of the cluster (SpreadStore).
/// Reads earlier checkpoints on the caller's thread; the ranks and the keepers write. Owns a keeper
/// for each tier. Single-threaded.
class RunCheckpoints {
 public:
  /// Finds the newest complete checkpoint in the folder `request.resume_from`, if it is set;
  /// damaged ones become warnings. Throws bad_input if the folder cannot be opened or holds none,
  /// if the run has no step left after it, or if the key file is unusable. Continues from the
  /// checkpoint in `past` instead, if an earlier controller resumed from one, and with the attempts
  /// there; throws bad_input for an unknown tier. `request` and the cluster of `memory` must
  /// outlive this object.
  RunCheckpoints(const RunRequest& request, const Text& text, const Past& past = {},
                 CheckpointMemory memory = {});

  /// Returns the first step of this run: that of the checkpoint from which the run resumes; 0
  /// without one.
  Step first_step() const { return resumed_ ? resumed_->step : 0; }
  /// Writes the training's name and, if the run resumes, the checkpoint to resume from into the
  /// ranks' assignment.
  void fill(Assignment& assignment) const;
  /// Opens the checkpoint folder, creates it if missing, and registers the checkpoints of the
  /// earlier run and the attempts of an earlier controller with the keeper. No effect if the
  /// scenario has no checkpoints. Throws an environment Error if the folder cannot be created,
  /// opened or, in a run that resumes, listed, and bad_input if the storage is the same folder.
  /// Call once, before plan().
  void open();

  /// Sets interval and tier of the periodic checkpoints, from the next planned step on.
  void set_plan(const CheckpointPlan& plan) { periodic_ = plan; }
  /// Requests a checkpoint of the tier after the next planned step, independent of the interval, or
  /// after a later one (SaveRequests). The request stays until on_commit() begins a checkpoint of
  /// the tier. No effect on a run without checkpoints, except that is_requested() stays true.
  void request_checkpoint(Tier tier = Tier::local_disk) { asked_.request_save(tier); }
  /// Returns true if a checkpoint is requested and no checkpoint of its tier has begun since.
  bool is_requested() const { return !asked_.is_empty(); }
  /// Returns true if the run can write checkpoints of the tier.
  bool has_tier(Tier tier) const { return is_enabled() && !folder(tier).empty(); }
  /// Returns true if the run writes checkpoints; false before open().
  bool is_enabled() const { return !writers_.empty(); }
  /// Returns the attempt that the plan of `step` carries for the ranks `members`, if a checkpoint
  /// is requested or `step` + 1 is a multiple of the interval; 0 if the step ends without a
  /// checkpoint or the run writes none. Replaces the previous plan, for example if the step is
  /// repeated. Begins no attempt: see on_commit().
  std::uint64_t plan(Step step, std::vector<std::uint32_t> members);
  /// Returns the attempt of the newest plan(); 0 if that step ends without a checkpoint, before the
  /// first plan, and after on_commit().
  std::uint64_t planned() const { return planned_ ? planned_->attempt : 0; }
  /// Returns the tier of the newest plan(); local_disk if planned() is 0.
  Tier planned_tier() const { return planned_ ? planned_->tier : Tier::local_disk; }
  /// Writes the newest plan() into the plan of the step: attempt, and folder and holders of a
  /// checkpoint in memory.
  void fill(StepPlan& plan) const;
  /// Records that the newest planned step is final: its ranks write their shards if the plan
  /// contains an attempt, which is then in flight, and a requested checkpoint counts as begun. An
  /// earlier attempt that still waits for shards fails. No effect without a planned attempt, so
  /// that a second call has none.
  void on_commit();
  /// Records the outcome of a rank's shard: durable, or failed, which fails the attempt. Ignores
  /// shards of other attempts than the one in flight.
  void record_shard(const ShardWritten& said);
  /// Returns true if an attempt in flight still waits for the rank's shard.
  bool waits_for_rank(std::uint32_t rank) const;
  /// Records that a rank is lost: the attempt in flight fails if the rank's shard is not durable
  /// yet. No effect if the rank writes none.
  void record_lost_rank(std::uint32_t rank);
  /// Records that a node is lost: deletes the copies in its memory. Attempts in flight with a
  /// holder there fail, and complete checkpoints of which a shard has no copy left are forgotten.
  /// May be called again for one loss.
  void record_lost_node(NodeId node);
  /// Returns true if no attempt is in flight, no outcome is undrained and the keeper has no work;
  /// also if the run writes no checkpoints.
  bool is_idle();
  /// Blocks until no attempt is in flight and the keeper has no work, at most for `patience`;
  /// outcomes that drain_outcomes() has not returned yet do not count. Returns at once if the run
  /// writes no checkpoints.
  void wait_for_writes(std::chrono::milliseconds patience);
  /// Rolls back to the state from which the job continues once its ranks are gone, and returns the
  /// state: the newest complete checkpoint of any tier up to step `saved` of this run, of which
  /// every byte is read; an earlier one if it is damaged, with a warning that names file and rank.
  /// Without `saved`, or without a usable one: the state with which the run began, whose attempt is
  /// 0 if that is step 0. The checkpoint is not deleted before the next one begins, and later steps
  /// can be saved and reported again.
  Resumption roll_back_to(std::optional<Step> saved);
  /// Outcome of one checkpoint attempt.
  struct Outcome {
    Step step = 0;
    bool whole = true;  ///< True if the checkpoint is complete; false if the attempt failed.
    Tier tier = Tier::local_disk;
    std::vector<CopyHolders> holders = {};  ///< Holders by shard of a complete one in memory.
  };
  /// Returns the outcomes of the attempts that finished since the last call, oldest first, without
  /// those that an earlier controller has reported; empty if none or if the run writes no
  /// checkpoints. Updates missing() and the counts, and prints a warning about a failure on
  /// standard error, until ten warnings, those of damaged checkpoints included, have been stored.
  /// Does not block.
  std::vector<Outcome> drain_outcomes();

  /// Starts another attempt on disk if missing() is not empty or a checkpoint is requested, which
  /// is so no longer, with the state after `step` steps, written by `members`. Returns the attempt,
  /// which the caller must pass to the members; 0 if no attempt is needed, the run writes no
  /// checkpoints, or three retries have been made. Call only at the end of a run, while is_idle()
  /// holds.
  std::uint64_t retry_checkpoint(Step step, std::vector<std::uint32_t> members);
  /// Returns the number of complete checkpoints.
  std::uint64_t written() const { return now_.written(); }
  /// Returns the number of failed attempts.
  std::uint64_t failed_count() const { return now_.failed(); }
  /// Returns the reason why the newest attempt on disk with an outcome failed; empty if it is
  /// complete or no attempt has an outcome. drain_outcomes() changes the text. The reason of an
  /// attempt under an earlier controller names the step alone.
  const std::string& missing() const { return missing_; }

  /// Appends the warnings to the report and, if the run writes checkpoints, writes counts and the
  /// size of the newest one.
  void fill(Report& report) const;

 private:
  /// Attempt that has begun or is planned.
  struct Attempt {
    Step step = 0;
    Tier tier = Tier::local_disk;
    std::uint64_t attempt = 0;
    std::vector<std::uint32_t> writers = {};
    std::vector<CopyHolders> holders = {};
  };
  /// Keeper of the checkpoints of one tier, and the ranks that write its newest attempt, by shard.
  struct Writer {
    std::unique_ptr<CheckpointKeeper> keeper;
    std::vector<std::uint32_t> ranks = {};
  };
  /// Throws bad_input if the tiers storage and local_disk have one folder.
  void refuse_one_folder() const;
  /// Returns the folder of the tier's checkpoints; empty if the run has none.
  std::string folder(Tier tier) const;
  /// Returns the writer of the tier, whose keeper is started at the first call.
  Writer& writer(Tier tier);
  /// Begins the attempt.
  void begin(Attempt attempt);
  /// Records the outcome of an attempt of the tier; returns nothing if the run has rolled back
  /// behind the attempt or an earlier controller has reported it.
  std::optional<Outcome> record_outcome(Tier tier, const CheckpointKeeper::Outcome& outcome);
  /// Returns true if the checkpoint is complete and undamaged; warns otherwise.
  bool is_loadable(const CheckpointId& id, Tier tier);
  /// Stores a warning for the report and prints it, up to a limit.
  void add_warning(const std::string& what);
  /// Finds the newest complete checkpoint in `folder`.
  void find(const std::string& folder);
  /// Forgets the checkpoints of later steps than that of `from`, and protects the checkpoint `from`
  /// from deletion.
  void forget_after(const Resumption& from);
  /// Returns the checkpoint from which the run resumes.
  Resumption resumption() const;

  const RunRequest& request_;
  const Checkpoints& settings_;
  const std::string training_;
  const std::uint64_t total_;  ///< Number of parameters.
  const std::string key_;      ///< Key of the manifests; empty: none.
  const CheckpointMemory memory_;
  CheckpointPlan periodic_;  ///< Interval 0: no periodic checkpoints.
  SaveRequests asked_;
  std::optional<CheckpointId> resumed_;
  std::map<Tier, Writer> writers_;  ///< Empty if the run writes no checkpoints.
  std::optional<Attempt> planned_;  ///< Checkpoint that follows the current step.
  /// Attempts of this controller in memory that are in flight or complete, by number.
  std::map<std::uint64_t, Attempt> copies_;
  /// State to which an earlier controller has rolled back, without a step since.
  const std::optional<Resumption> rolled_back_;
  /// Attempts that the journal of an earlier controller names, by tier, until open().
  std::map<Tier, std::vector<CheckpointId>> earlier_;
  /// Attempts of the run. The run's state has the same ones, except outcomes that the policies are
  /// yet to be shown, retries, and lost copies.
  KeptCheckpoints now_;
  std::string missing_;
  int retries_ = 0;
  std::optional<std::uint64_t> size_;  ///< Bytes of the newest complete checkpoint.
  std::vector<std::string> warnings_;
};

/// Returns the state from which a rank resumes. Throws bad_input unless the assigned checkpoint is
/// complete and its key file is usable, and the store's error for a file that cannot be read.
TrainingState load_checkpoint(const Assignment& assignment);

}  // namespace orrery::live
