// A rank's connection to `orrery run` (live/programs), or to a successor that takes the run over:
// membership epochs, heartbeats, the last result before the end. Plain C++ without PyTorch,
// compiled into the user's program. All functions may be called by any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "live/group/frames.hpp"
#include "live/group/program_epoch.hpp"
#include "live/group/sent_facts.hpp"
#include "live/group/step_reports.hpp"

namespace orrery::live {

/// Counts of done operations by the key of their group.
using DoneCounts = std::map<std::string, std::uint64_t>;

/// Addresses of the sockets of groups, as numbers in the order of the host.
using Addresses = std::set<std::uint32_t>;

/// Calls of a connection, on its thread. All must be set.
struct ControlCalls {
  /// Receives every announced epoch.
  std::function<void(const ProgramEpoch&)> heard;
  /// Receives all messages about joins and plans (live/group/meeting_point.hpp,
  /// live/group/step_plans.hpp).
  std::function<void(const Fields&)> others;
  /// Returns the counts of this rank's groups; also called by confirm_leavers() and leave_run().
  std::function<DoneCounts()> done_counts;
  /// Returns the addresses that this rank's groups have now (address_of_group()): sockets of their
  /// earlier ones are shut.
  std::function<Addresses()> addresses;
  /// Reports the end of the connection (false), or that a successor has taken the run over (true).
  std::function<void(bool is_connected)> connected;
  /// Called ten times a second while no `orrery run` is there.
  std::function<void()> watch_alone;
  /// Returns the number of steps that this rank has done.
  std::function<std::uint64_t()> steps;
};

/// Connection of one rank. If `orrery run` is killed, the thread of the connection asks once a
/// second for a successor (live/programs/taken_run.hpp). Never destroyed: its thread runs until the
/// process ends.
class ProgramControl {
 public:
  /// Sends the hello of `rank` over the socket `descriptor` and starts the thread. `folder`: folder
  /// of the run's sockets.
  ProgramControl(int descriptor, std::size_t rank, std::string folder, ControlCalls calls);

  /// Sends one message, of at most kMaxFrameBytes, behind the reports that wait; does nothing if
  /// the connection is gone.
  void send_fields(const Fields& fields);
  /// Returns the reports of steps, which the thread sends soon (StepReports::next_look_s()).
  StepReports& reports() { return reports_; }
  /// Sends the reports that wait.
  void send_reports();
  /// Returns the newest epoch. Blocks until the first one is known; returns epoch 0 without members
  /// if the connection ends before.
  ProgramEpoch epoch();
  /// Returns true once an epoch is known. Does not block.
  bool has_epoch();
  /// Answers the ranks that wait to leave and whose counts this rank has reached by now.
  void confirm_leavers();
  /// Blocks until no other member needs a result of this rank any more, or `orrery run` is gone.
  void leave_run();

 private:
  void send_frames(const std::string& last);
  void run_connection();
  void serve_connection();
  /// Blocks until a successor has accepted this rank; its first message is in `reader_` then.
  void await_successor();
  bool is_accepted(int socket);
  void handle_frames();
  void handle_frame(const Fields& fields);
  void shut_old_sockets();
  void record_exit(int code) const;

  const int descriptor_;
  const std::size_t rank_;
  const std::string folder_;
  const ControlCalls calls_;
  FrameReader reader_;
  StepReports reports_;
  std::mutex sending_;
  SentFacts facts_;                      // guarded by sending_
  std::atomic<bool> was_alone_ = false;  // `orrery run` was killed at some time
  std::mutex mutex_;
  std::condition_variable changed_;
  ProgramEpoch epoch_;
  bool has_epoch_ = false, has_left_ = false, is_gone_ = false;
  std::map<std::string, DoneCounts> leavers_;
  int sweeps_left_ = 0;
};

/// Returns the loopback address of the sockets of a group in its epoch, 127.E.K.K with E = 64 +
/// epoch modulo 128 and K, K from a hash of its key. The address tells the sockets of older epochs
/// from those of the program and of groups that still use theirs.
std::uint32_t address_of_group(const std::string& key, std::uint64_t epoch);
/// Returns an address as text, for example "127.64.1.7".
std::string text_of_address(std::uint32_t address);

}  // namespace orrery::live
