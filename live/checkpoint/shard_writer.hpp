// Rank's end of a checkpoint: writes shards on a thread of its own, so that the step loop never
// waits for a disk. Calls may come from any one thread; `done` is called by either thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "live/checkpoint/checksum.hpp"
#include "live/checkpoint/format.hpp"
#include "live/checkpoint/store.hpp"

namespace orrery::live {

/// Result of writing one shard.
struct ShardOutcome {
  ShardHeader header;
  ShardProof proof;     ///< checksums of the shard and of the writer's state
  Seal seal;            ///< valid if the shard is durable
  std::string failure;  ///< otherwise
};

/// Asynchronous writer of shards, one at a time.
class ShardWriter {
 public:
  using OpenStore = std::function<std::unique_ptr<Store>()>;  ///< may throw Error
  using Done = std::function<void(const ShardOutcome&)>;

  /// Starts the thread, which calls `open` for each shard. `done` must not throw.
  ShardWriter(OpenStore open, Done done);
  /// Blocks until the current shard is written and reported.
  ~ShardWriter();

  /// Starts writing a shard and returns; `done` later receives the outcome on the writer's thread,
  /// also of an error of `open` or of the store, for a part of another size than the header's
  /// range, or if the copy in memory changes before it is written. `state`: checksums of the state
  /// from which the part was copied, for the outcome. If the previous shard is still being written
  /// or reported, drops this one and calls `done` with a failure before it returns. `open`: opens
  /// the store of this shard instead of the writer's function, if given.
  void write(const ShardHeader& header, TrainingState part, PartChecksums state = {},
             OpenStore open = {});
  /// Blocks until no shard is being written and all outcomes are reported.
  void wait_until_idle();

 private:
  struct Order {
    ShardHeader header;
    TrainingState part;
    ShardProof proof;
    OpenStore open;
  };
  void run();
  ShardOutcome carry_out(const Order& order) const;

  const OpenStore open_;
  const Done done_;
  std::mutex mutex_;  // guards the two below
  std::condition_variable changed_;
  std::optional<Order> order_;  ///< shard being written
  bool over_ = false;
  std::jthread thread_;
};

}  // namespace orrery::live
