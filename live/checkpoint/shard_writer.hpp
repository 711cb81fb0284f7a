// One rank's end of a checkpoint: writes shards on a thread of its own, so that the step loop waits
// for no disk. Calls may come from any one thread; `done` is called by either.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "live/checkpoint/format.hpp"
#include "live/checkpoint/store.hpp"

namespace orrery::live {

/// How the writing of one shard ended.
struct ShardOutcome {
  ShardHeader header;
  Seal seal;            ///< if it is durable
  std::string failure;  ///< else
};

class ShardWriter {
 public:
  using OpenStore = std::function<std::unique_ptr<Store>()>;  ///< may throw Error
  using Done = std::function<void(const ShardOutcome&)>;

  ShardWriter(OpenStore open, Done done);
  /// Waits for what is being written.
  ~ShardWriter();

  /// Says at once that it failed while the shard before is still being written.
  void write(const ShardHeader& header, TrainingState part);
  /// Returns when nothing is being written.
  void drain();

 private:
  struct Order {
    ShardHeader header;
    TrainingState part;
  };
  void run();
  ShardOutcome carry_out(const Order& order) const;

  const OpenStore open_;
  const Done done_;
  std::mutex mutex_;  // of the two below
  std::condition_variable changed_;
  std::optional<Order> order_;  ///< being written
  bool over_ = false;
  std::jthread thread_;
};

}  // namespace orrery::live
