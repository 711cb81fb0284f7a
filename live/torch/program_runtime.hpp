// All fault-tolerant groups of this process, with its connection to `orrery run`. One per process,
// never destroyed. Compiled into the user's program.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "live/torch/control.hpp"
#include "live/torch/group_worker.hpp"

namespace orrery::live {

class ProgramRuntime {
 public:
  /// Connects this process. `descriptor` is the socket to `orrery run`, `store_path` its store.
  ProgramRuntime(int descriptor, std::size_t rank, std::string store_path, InnerBuilder build);

  /// Creates a group and blocks until its members are connected, as Gloo does: a program that forks
  /// loader processes afterwards must not fork in the middle of a connection. Groups with equal
  /// `key` are told apart by the order of their creation, which is the same at all members.
  std::shared_ptr<GroupWorker> add_group(const std::string& key, std::vector<std::size_t> ranks,
                                         std::size_t own, std::chrono::milliseconds timeout);
  /// Returns a new connection to the store.
  c10::intrusive_ptr<c10d::Store> open_store() const;
  /// Blocks until no group builds connections, for at most a second. Called before a fork.
  void wait_until_settled();
  /// Reports the end of optimizer step `step` and the seconds spent in data loaders so far.
  void report_step(std::uint64_t step, double input_s);
  /// Blocks until no other rank needs a result of this one.
  void leave_run() { control_->leave_run(); }

 private:
  void announce_epoch(const ProgramEpoch& epoch);
  DoneCounts done_counts();

  const std::string store_path_;
  const InnerBuilder build_;
  std::mutex mutex_;
  std::map<std::string, int> created_;
  std::vector<std::shared_ptr<GroupWorker>> groups_;
  std::unique_ptr<ProgramControl> control_;
};

}  // namespace orrery::live
