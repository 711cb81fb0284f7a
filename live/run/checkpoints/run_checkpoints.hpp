// What a run has to do with checkpoints, as its controller sees it: where it goes on, which steps
// end with one, what has come of them. Reading an earlier run's happens here, on the caller's
// thread; writing happens in the ranks and in the keeper. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "live/checkpoint/keeper.hpp"
#include "live/control.pb.h"
#include "live/run/checkpoints/checkpoint_history.hpp"
#include "live/run/files/journal.hpp"
#include "live/training/text.hpp"
#include "traces/report.pb.h"
#include "traces/run.pb.h"

namespace orrery::live {

/// SHA-256 of everything that the parameters after a step depend on: model, seed, optimizer, batch
/// and text. Neither the ranks nor how long the run is.
std::string training_name(const Scenario& scenario, const Text& text);

class RunCheckpoints {
 public:
  /// Finds the checkpoint that `request.resume_from` asks for. Throws bad_input if there is none,
  /// or if the run has no step left to do after it. Where an earlier controller has a `past`, goes
  /// on with its checkpoints instead.
  RunCheckpoints(const RunRequest& request, const Text& text, const Past& past = {});

  /// The first step of this run.
  Step first_step() const { return resumed_ ? resumed_->step : 0; }
  /// What the ranks are told.
  void fill(Assignment& assignment) const;
  /// Makes the folder. Throws an environment Error if it cannot be written to.
  void open();

  /// From the next planned step on; 0: none by itself.
  void set_every(std::uint64_t steps) { every_ = steps; }
  /// One after the next planned step, whatever the plan.
  void ask() { asked_ = true; }
  bool asked() const { return asked_; }
  bool kept() const { return keeper_ != nullptr; }
  /// The attempt that the plan of `step` for these ranks carries; 0: that step ends without a
  /// checkpoint.
  std::uint64_t plan(Step step, std::vector<std::uint32_t> members);
  /// That attempt, if the step that was planned last ends with one; 0 if not.
  std::uint64_t planned() const { return planned_ ? keeper_->next_attempt() : 0; }
  /// The step that was planned last is final: its ranks write their shards if the plan said so.
  void committed();
  void take(const ShardWritten& said);
  void lost(std::uint32_t rank);
  /// Nothing is being written.
  bool at_rest();
  /// Checkpoints that have become durable, or failed, since the last call.
  struct Durable {
    Step step = 0;
    bool whole = true;  ///< else it failed
  };
  std::vector<Durable> durable();

  /// The newest that was due is not there, and may be tried once more with the state after `step`
  /// steps, written by these ranks: its attempt; 0: not. For the end of a run, once at_rest().
  std::uint64_t once_more(Step step, std::vector<std::uint32_t> members);
  std::uint64_t written() const { return history_.written(); }
  std::uint64_t failed() const { return history_.failed(); }
  /// Why the newest that was due is not there; empty: it is, or none was due.
  const std::string& missing() const { return missing_; }

  /// To go on with in another process; what this run has begun and not removed.
  void keep(JournalSnapshot& now) const;

  void fill(Report& report) const;

 private:
  void find(const std::string& folder);
  Resumption resumption() const;

  const RunRequest& request_;
  const Checkpoints& settings_;
  const std::string training_;
  const std::uint64_t total_;  ///< parameters
  const std::string key_;      ///< of manifests; empty: none
  std::uint64_t every_;        ///< steps; 0: none by itself
  bool asked_ = false;
  std::optional<CheckpointId> resumed_;
  std::unique_ptr<CheckpointKeeper> keeper_;  ///< if checkpoints are to be written
  std::optional<Step> planned_;               ///< the checkpoint that follows the step under way
  CheckpointHistory history_;
  std::vector<std::uint32_t> members_, writers_;  ///< of that step; of the newest attempt, by shard
  std::string missing_;
  int retries_ = 0;
  std::optional<std::uint64_t> size_;  ///< of the newest whole one, bytes
  std::vector<std::string> warnings_;
};

/// Of a rank: the state that it is to go on with. Throws bad_input unless that checkpoint is whole.
TrainingState load_checkpoint(const Assignment& assignment);

}  // namespace orrery::live
