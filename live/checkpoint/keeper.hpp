// The controller's end of a run's checkpoints: collects what the ranks say about their shards,
// commits the manifest when all are durable, and removes older checkpoints after that, on a thread
// of its own. One thread calls it.
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

#include "live/checkpoint/format.hpp"
#include "live/checkpoint/store.hpp"

namespace orrery::live {

class CheckpointKeeper {
 public:
  struct Options {
    std::string training;
    std::uint64_t total = 0;  ///< parameters of the model
    std::uint32_t keep = 1;
    std::uint64_t first_attempt = 1;
    std::chrono::milliseconds patience{60'000};  ///< for all shards of an attempt
    std::string key = {};                        ///< of the manifests
  };
  CheckpointKeeper(std::unique_ptr<Store> store, Options options);
  /// Waits for what is being written.
  ~CheckpointKeeper();

  /// Takes over the checkpoints up to that of step `newest` which an earlier run of this training
  /// has left, to be removed when there are enough newer ones; what it left unfinished goes now.
  /// To be called before anything else.
  void adopt(Step newest);

  /// Takes over what an earlier controller of this run has begun, oldest first: take() says what
  /// has come of each, and what has no manifest goes. To be called before anything but adopt().
  void take_over(std::vector<CheckpointId> begun);

  /// The number under which the next attempt's shards are to be written.
  std::uint64_t next_attempt() const { return next_attempt_; }
  /// That attempt has begun: `shards` ranks are writing. One that is still under way has failed.
  void begin(Step step, std::uint32_t shards);
  void shard_durable(std::uint64_t attempt, std::uint32_t index, const Seal& seal);
  void shard_failed(std::uint64_t attempt, std::uint32_t index, const std::string& why);
  /// Of the attempt under way, if that shard is not durable yet: its writer is gone.
  void writer_gone(std::uint32_t index);

  struct Outcome {
    Step step = 0;
    std::string failure = {};  ///< empty: the checkpoint is durable
    std::uint64_t size = 0;    ///< of all shards, bytes
  };
  /// What has come of attempts since the last call.
  std::vector<Outcome> take();
  /// Nothing is under way, and take() has nothing more to say.
  bool at_rest();

 private:
  struct Attempt {
    Manifest manifest;
    std::uint32_t missing = 0;
    std::chrono::steady_clock::time_point deadline;
  };
  void fail(const std::string& why);
  void post(std::function<void()> job);
  void run();
  void commit(const Manifest& manifest);
  void look_at(const std::vector<CheckpointId>& begun);
  void clean_up();
  bool gave_up(const CheckpointId& id) const;
  std::vector<CheckpointId> given_up();
  bool try_remove(const CheckpointId& id);
  void finished(Outcome outcome);

  const std::unique_ptr<Store> store_;
  const Options options_;
  std::uint64_t next_attempt_;
  std::optional<Attempt> attempt_;  ///< not all shards are there yet

  // Of the thread:
  std::deque<CheckpointId> whole_;    ///< oldest first
  std::vector<CheckpointId> broken_;  ///< of earlier runs; not removed yet
  std::vector<CheckpointId> begun_;   ///< by earlier controllers of this run, and never whole
  std::uint64_t newest_ended_ = 0;    ///< attempt of ours that is whole or has failed; 0: none

  std::mutex mutex_;  // of everything below
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::vector<Outcome> outcomes_;
  bool over_ = false;
  std::jthread thread_;
};

}  // namespace orrery::live
