// A rank's connection to `orrery run` (live/programs): membership epochs, heartbeats, the last
// result before the end. Plain C++ without PyTorch, compiled into the user's program. All functions
// may be called by any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "live/group/frames.hpp"

namespace orrery::live {

/// Members of one epoch, as ascending ranks of the program.
struct ProgramEpoch {
  std::uint64_t number = 0;
  std::vector<std::size_t> members;
};

/// Counts of done operations by the key of their group.
using DoneCounts = std::map<std::string, std::uint64_t>;

/// Connection of one rank. Never destroyed: its thread runs until the process ends.
class ProgramControl {
 public:
  /// Sends the hello of `rank` over the socket `descriptor` and starts the thread. `heard` receives
  /// every announced epoch and `others` all messages about joins and plans
  /// (live/group/meeting_point.hpp, live/group/step_plans.hpp), at the end of the connection one
  /// without fields, on that thread; `done_counts` returns the counts of this rank's groups, and is
  /// called on that thread and by confirm_leavers() and leave_run().
  ProgramControl(int descriptor, std::size_t rank, std::function<void(const ProgramEpoch&)> heard,
                 std::function<void(const Fields&)> others,
                 std::function<DoneCounts()> done_counts);

  /// Sends one message, of at most kMaxFrameBytes; does nothing if the connection is gone.
  void send_fields(const Fields& fields);
  /// Returns the newest epoch. Blocks until the first one is known; returns epoch 0 without members
  /// if the connection ends before.
  ProgramEpoch epoch();
  /// Answers the ranks that wait to leave and whose counts this rank has reached by now.
  void confirm_leavers();
  /// Blocks until no other member needs a result of this rank any more, or `orrery run` is gone.
  void leave_run();

 private:
  void run_connection();
  void handle_frame(const Fields& fields);
  void shut_old_sockets();

  int descriptor_;
  std::function<void(const ProgramEpoch&)> heard_;
  std::function<void(const Fields&)> others_;
  std::function<DoneCounts()> done_counts_;
  std::mutex sending_;
  std::mutex mutex_;
  std::condition_variable changed_;
  ProgramEpoch epoch_;
  bool has_epoch_ = false, has_left_ = false, is_gone_ = false;
  std::map<std::string, DoneCounts> leavers_;
  int sweeps_left_ = 0;
};

/// Returns the loopback address of the sockets of an epoch. The address tells the sockets of older
/// epochs from those of the program: 127.77.E.1 with E = 1 + epoch modulo 250.
std::string address_of_epoch(std::uint64_t epoch);

}  // namespace orrery::live
