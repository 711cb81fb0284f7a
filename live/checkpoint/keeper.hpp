// Controller's end of a run's checkpoints: collects the ranks' reports about their shards, commits
// the manifest when all are durable, and then deletes older checkpoints, on a thread of its own.
// Called by one thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "live/checkpoint/checksum.hpp"
#include "live/checkpoint/format.hpp"
#include "live/checkpoint/store.hpp"

namespace orrery::live {

/// State machine of the checkpoint attempts of one run. For example, after begin(step 100, 4
/// shards) and four shard_durable() calls the keeper's thread commits the manifest, and the next
/// drain_outcomes() after the commit returns the durable checkpoint of step 100.
class CheckpointKeeper {
 public:
  /// Options of a keeper.
  struct Options {
    std::string training;
    std::uint64_t total = 0;  ///< parameters of the model
    std::uint32_t keep = 1;   ///< number of newest complete checkpoints that are not deleted
    std::uint64_t first_attempt = 1;
    /// Limit for all shards of an attempt, checked by drain_outcomes().
    std::chrono::milliseconds patience{60'000};
    std::string key = {};  ///< key of the manifests
  };
  /// Starts the keeper's thread; changes nothing in the store.
  CheckpointKeeper(std::unique_ptr<Store> store, Options options);
  /// Fails the current attempt, and waits for pending writes and deletions.
  ~CheckpointKeeper();

  /// Registers the complete checkpoints of an earlier run, up to step `newest`, so that retention
  /// applies to them; later complete ones stay and do not count. Deletes the unfinished ones of any
  /// step. Lists the folder within the call and throws the errors of that; deletes later, on the
  /// keeper's thread, without errors. Yields no outcomes. Call before any other method.
  void adopt_existing(Step newest);

  /// Continues the attempts `begun` by an earlier controller of this run, oldest first, on the
  /// keeper's thread: drain_outcomes() reports the result of each, success if the attempt has a
  /// valid manifest. Other attempts fail; those without a manifest are deleted. Call before any
  /// other method except adopt_existing().
  void continue_attempts(std::vector<CheckpointId> begun);

  /// Returns the number under which the next attempt's shards must be written.
  std::uint64_t next_attempt() const { return next_attempt_; }
  /// Records the begin of attempt next_attempt(), which becomes the current attempt: `shards` > 0
  /// ranks are writing the state after the first `step` steps. Increases next_attempt(), and starts
  /// the attempt's `patience`. An attempt that still waits for shards fails, with an outcome.
  void begin(Step step, std::uint32_t shards);
  /// Records a durable shard, of size above 0; the last one starts the commit of the manifest and
  /// ends the current attempt, which fails instead if the proofs disagree (find_disagreement()). No
  /// effect if `attempt` is not the current attempt, the attempt has no shard `index`, or the shard
  /// has been recorded.
  void shard_durable(std::uint64_t attempt, std::uint32_t index, const Seal& seal,
                     const ShardProof& proof = {});
  /// Fails the current attempt because of a shard, even one that has been recorded; `index` is for
  /// the message. No effect if `attempt` is another one.
  void shard_failed(std::uint64_t attempt, std::uint32_t index, const std::string& why);
  /// Fails the current attempt because the writer of a shard is gone, unless the shard is durable.
  /// No effect without a current attempt or without a shard `index`.
  void writer_gone(std::uint32_t index);

  /// Returns true if there is a current attempt that still waits for the shard `index`.
  bool waits_for_shard(std::uint32_t index) const;

  /// Protects the complete checkpoint `id` from deletion until the next begin(), also if newer
  /// checkpoints are complete: ranks are about to load it. Replaces the earlier one.
  void protect_checkpoint(const CheckpointId& id);

  /// Result of one attempt.
  struct Outcome {
    Step step = 0;
    std::uint64_t attempt = 0;
    std::string failure = {};  ///< empty: the checkpoint is durable
    std::uint64_t size = 0;    ///< bytes of all shards; 0 if not all were durable
  };
  /// Returns the outcomes of the attempts that finished since the last call, oldest first; empty if
  /// none did. Does not wait for commits. Fails an attempt whose `patience` is over; its outcome
  /// may come only from a later call. The files of a failed attempt of this keeper are deleted
  /// before its outcome if one try succeeds, otherwise after a later attempt or at the end; the
  /// files of failed attempts of continue_attempts() are deleted after their outcome. Errors of the
  /// store are failures of the attempt and are not thrown.
  std::vector<Outcome> drain_outcomes();
  /// Returns true if no attempt waits for shards and the thread has no work.
  bool is_quiet();
  /// Returns true if no attempt is in flight, no outcome is undrained and the thread has no work,
  /// such as the deletions of adopt_existing(). Does not check `patience`.
  bool is_idle();

 private:
  struct Attempt {
    Manifest manifest;
    std::vector<ShardProof> proofs;  ///< indexed by shard
    std::uint32_t missing = 0;
    std::chrono::steady_clock::time_point deadline;
  };
  void fail_attempt(const std::string& why);
  void post_job(std::function<void()> job);
  void run();
  void commit_manifest(const Manifest& manifest);
  void resolve_attempts(const std::vector<CheckpointId>& begun);
  void clean_up();
  bool has_given_up(const CheckpointId& id) const;
  std::vector<CheckpointId> given_up();
  bool try_remove(const CheckpointId& id);
  bool is_protected(const CheckpointId& id);
  void add_outcome(Outcome outcome);

  const std::unique_ptr<Store> store_;
  const Options options_;
  std::uint64_t next_attempt_;
  std::optional<Attempt> attempt_;  ///< attempt whose shards are not all durable yet

  // Members of the thread:
  std::deque<CheckpointId> whole_;    ///< oldest first
  std::vector<CheckpointId> broken_;  ///< attempts of earlier runs; not deleted yet
  /// begun by earlier controllers of this run, and never complete
  std::vector<CheckpointId> begun_;
  std::uint64_t newest_ended_ = 0;  ///< newest own attempt that is complete or has failed; 0: none

  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::vector<Outcome> outcomes_;
  std::optional<CheckpointId> protected_;  ///< argument of protect_checkpoint(); none after begin()
  bool over_ = false;
  std::jthread thread_;
};

}  // namespace orrery::live
