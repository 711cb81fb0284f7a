// All fault-tolerant groups of this process, with its connection to `orrery run`. One per process,
// never destroyed. Compiled into the user's program.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "live/group/meeting_point.hpp"
#include "live/group/step_plans.hpp"
#include "live/torch/control.hpp"
#include "live/torch/group_worker.hpp"

namespace orrery::live {

/// End of one step of this rank under policies.
struct StepEnd {
  std::uint64_t steps = 0;               ///< steps that the rank has done
  std::uint64_t share = 1;               ///< examples of the rank in the step
  double input_s = 0;                    ///< time in data loaders so far
  std::uint64_t workers = 0, depth = 0;  ///< readers of the newest batch
  bool is_update = false;  ///< true: an optimizer step, reported as report_step() does, too
};

/// Groups of one process and its connection to `orrery run`. Any thread.
class ProgramRuntime {
 public:
  /// Connects this process as rank `rank` of the program and starts the thread of the connection.
  /// `descriptor` is the socket to `orrery run`, `store_path` the path of its store's socket.
  /// `shares_sums`: as of GroupPlace, of all groups. `in_flight`: operations of a group in flight;
  /// 0: 2 in groups of NCCL, 1 in others. `build` is called by threads of the groups.
  ProgramRuntime(int descriptor, std::size_t rank, std::string store_path, bool shares_sums,
                 std::size_t in_flight, InnerBuilder build);

  /// Creates a group and blocks until its members are connected, as Gloo does: a program that forks
  /// loader processes afterwards must not fork in the middle of a connection. Groups with equal
  /// keys are told apart by the order of their creation, which must be the same at all members.
  /// `place`: key (which need not be unique), name, ranks, timeout and backend of the group. If
  /// `orrery run` is gone, this process ends soon (watch_alone()).
  std::shared_ptr<GroupWorker> add_group(GroupPlace place);
  /// Returns a new connection to the store. Throws c10::Error if the store cannot be reached.
  c10::intrusive_ptr<c10d::Store> open_store() const;
  /// Blocks until all groups are settled (GroupWorker::is_settled()), for at most about a second;
  /// does not tell which. Called before a fork.
  void wait_until_settled();
  /// Reports the end of optimizer step `step`, counted from 1, and the seconds spent in data
  /// loaders and the bytes sent for gradients so far. `ends_step`: false under policies.
  /// Does nothing if `orrery run` is gone.
  void report_step(std::uint64_t step, double input_s, bool ends_step);
  /// Marks the begin of a step at `begin_s`, in seconds of the monotonic clock. This method,
  /// mark_update() and end_step() are called by the thread of the training, under policies only.
  void mark_begin(double begin_s) { step_begin_s_ = begin_s; }
  /// Marks the end of the compute of a step, shortly before the update of the parameters: the
  /// program's newest operation in any group, or now if the step has none.
  void mark_update();
  /// Reports the end of a step to the policies, with its duration and compute, the exchange of its
  /// gradients and the memory of this process. The next step begins when this method returns the
  /// plans that begin with it (StepPlans::begin_step()).
  std::vector<std::string> end_step(const StepEnd& end);
  /// Sends the reports that wait.
  void send_reports() { control_->send_reports(); }
  /// Sends a message to `orrery run`. Does nothing if `orrery run` is gone.
  void send_fields(const Fields& fields) { control_->send_fields(fields); }
  /// Returns the living ranks, ascending; for a process that is to join, itself alone. Blocks until
  /// the first epoch is known.
  std::vector<std::size_t> living_ranks() { return control_->epoch().members; }
  /// Returns the meeting point of this rank.
  MeetingPoint& meeting() { return meeting_; }
  /// Returns the plans of this rank.
  StepPlans& plans() { return plans_; }
  /// Returns the records of all groups.
  GroupRecords& group_records() { return records_; }
  /// Blocks until no group has an operation, then tells `orrery run` that this rank waits at the
  /// meeting, with the number of operations of every group.
  void announce_arrival();
  /// Gives the groups, which have worked alone, the numbers of operations of the groups that they
  /// join. `counts`: keys of groups, each followed by a number, also of groups without this rank.
  /// Returns an empty text, or the key of a group that the others lack or this process lacks; no
  /// group is changed then.
  std::string adopt_progress(const Fields& counts);
  /// Blocks until no other rank needs a result of this one, or `orrery run` is gone. Then aborts
  /// the groups on devices.
  void leave_run();

 private:
  void announce_epoch(const ProgramEpoch& epoch);
  void handle_message(const Fields& fields);
  /// Leaves meetings and proposals at the end of the connection, and lets a successor arrange them.
  void change_connection(bool is_connected);
  /// Looks for an operation that cannot be completed without `orrery run`, whose process was
  /// killed, and ends this process with exit code 4 after kPatience_s: nobody carries another loss.
  void watch_alone();
  void print_processes();
  DoneCounts done_counts();
  Addresses group_addresses();
  std::vector<std::shared_ptr<GroupWorker>> all_groups();

  const std::size_t rank_;
  const std::string store_path_;
  const bool shares_sums_;
  const std::size_t in_flight_;
  const InnerBuilder build_;
  GroupRecords records_;
  std::mutex mutex_;
  std::map<std::string, int> created_;
  std::vector<std::shared_ptr<GroupWorker>> groups_;
  MeetingPoint meeting_{[this](const Fields& fields) { send_fields(fields); }};
  StepPlans plans_{[this](const Fields& fields) { send_fields(fields); }};
  std::unique_ptr<ProgramControl> control_;
  double step_begin_s_ = 0, compute_s_ = 0;  ///< begin of the step, and its compute in seconds
  std::atomic<std::uint64_t> steps_ = 0;     ///< steps that this rank has done
  std::map<const GroupWorker*, double> stranded_since_s_;  ///< used by the connection's thread
  double last_input_s_ = 0;  ///< StepEnd::input_s of the previous step
};

}  // namespace orrery::live
