// Thread of one fault-tolerant process group: performs the numbered operations in the inner group
// of the present epoch, and carries them through losses (live/group/member.hpp). The next operation
// may begin before the oldest one has ended, so that a device or a network need not wait for this
// thread between them. Compiled into the user's program.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "live/codec/gradient_codes.hpp"
#include "live/codec/gradient_meter.hpp"
#include "live/group/member.hpp"
#include "live/group/messages.hpp"
#include "live/group/operation_log.hpp"
#include "live/torch/control.hpp"
#include "live/torch/operation.hpp"
#include "live/torch/operation_line.hpp"
#include "live/torch/program_store.hpp"

namespace orrery::live {

/// State of a process that all of its groups share.
struct GroupRecords {
  OperationLog log;                             ///< times of the operations
  GradientCodes codes;                          ///< codes of the gradient buckets
  GradientMeter meter;                          ///< measurements of the gradient buckets
  std::atomic<std::uint64_t> early_starts = 0;  ///< operations begun while others were in flight
};

/// Name, size and connections of a group.
struct GroupPlace {
  std::string key;                 ///< equal at all members, different from all other groups
  std::string name;                ///< description of the group for the user
  std::vector<std::size_t> ranks;  ///< ranks of the program, by rank of the group
  std::size_t own = 0;             ///< this process's rank of the group
  std::chrono::milliseconds timeout{};
  std::string store_path;
  std::string backend = "gloo";  ///< backend of the inner group: "gloo" or "nccl"
  /// Type of the devices whose tensors are carried through a loss.
  c10::DeviceType device_type = c10::kCPU;
  bool shares_sums = true;    ///< sums of tensors on the CPU take memory that the members share
  bool starts_early = false;  ///< an operation may start before the one before it has ended
  /// Returns true if the inner group only queues its operations on a device: their futures do not
  /// tell when they end, and a lost rank leaves them running until they are aborted.
  bool is_queued() const { return backend == "nccl"; }
};

/// Builds the inner groups: backend, store, prefix of their keys, rank, size, timeout, loopback
/// address.
using InnerBuilder = std::function<InnerGroups(
    const std::string& backend, const c10::intrusive_ptr<c10d::Store>& store,
    const std::string& prefix, int rank, int size, std::chrono::milliseconds timeout,
    const std::string& address)>;

/// Group of one process. Must be owned by a shared pointer. Once started, never destroyed before
/// the run ends, because other members may need its kept result after the program has dropped the
/// group.
class GroupWorker : public std::enable_shared_from_this<GroupWorker> {
 public:
  /// Constructs a group without a thread and without an epoch; `control` and `records` must outlive
  /// it.
  GroupWorker(GroupPlace place, InnerBuilder build, ProgramControl& control, GroupRecords& records)
      : place_(std::move(place)),
        build_(std::move(build)),
        control_(control),
        records_(records),
        member_(place_.ranks.size()) {}

  /// Starts the thread. Call once.
  void start();
  /// Announces an epoch to the group, before or after start(). An epoch in which the group need not
  /// connect anew (epoch_of_group()) has no effect on its operations; `orrery run` is told again if
  /// the group has a broken connection, or is settled and a successor repeats the epoch. Any
  /// thread.
  void announce_epoch(const ProgramEpoch& epoch);
  /// Adds an operation behind those that wait; its work is never completed if the run ends because
  /// of an operation. `work` and `perform` must be set. Any thread.
  void add_operation(std::unique_ptr<Operation> operation);
  /// Returns the instant of the newest add_operation(), in seconds of the monotonic clock; 0 before
  /// the first. Any thread.
  double last_added_s() const { return last_added_s_; }
  /// Returns the inner group for an operation `name` that bypasses the numbering, which cannot be
  /// carried through a loss: a later loss ends the run, and so does this call if a member is lost.
  /// Blocks until is_settled(); throws nothing: if the run ends meanwhile, blocks until `orrery
  /// run` ends the process. Any thread.
  c10::intrusive_ptr<c10d::Backend> inner_for(const std::string& name);

  /// Blocks for good if the run ends because of an operation of this group, also if that becomes
  /// known within 5 s. Call after a failure of an operation of inner_for(). Any thread.
  void wait_if_refused();

  /// Blocks until is_settled(), or until the run ends because of an operation. Any thread.
  void wait_until_settled();
  /// Blocks until all added operations are done and their work is complete, or until the run ends
  /// because of an operation. Any thread.
  void wait_until_idle();
  /// Gives this group, which has worked alone, the number of operations of the group that it joins.
  /// Call while no operation is left, before the first epoch with other members. Any thread.
  void adopt_progress(std::uint64_t operations);

  /// Aborts an inner group that queues operations: its threads must not outlive the device at the
  /// end of the process. Does nothing for others. Call once no operation is left. Any thread.
  void abort_inner();

  /// Returns the operation that this member cannot complete without `orrery run`, or text in its
  /// place: a step has failed, or a member of an operation that is not done has ended. Empty if
  /// there is none. Any thread.
  std::string stranded_operation();
  /// Returns the process ids of the living members; empty before they are connected. Any thread.
  std::vector<int64_t> processes();

  /// Returns the address of the group's sockets in its present epoch. Any thread.
  std::uint32_t address();
  /// Returns the place of the constructor.
  const GroupPlace& group_place() const { return place_; }
  /// Returns the records of this process.
  GroupRecords& group_records() { return records_; }
  /// Returns the number of operations whose result this member has; 0 before the first. Any thread.
  std::uint64_t done_count();
  /// Returns true if the members are connected in the announced epoch, agree on their progress, and
  /// no result is still to be delivered. False before the first epoch. Any thread.
  bool is_settled();

 private:
  struct Connecting;

  void run_steps();
  void take_step(GroupStep step, std::uint64_t epoch);
  void connect_inner(std::uint64_t epoch);
  void exchange_progress(std::uint64_t epoch);
  void deliver_result(std::uint64_t epoch);
  void perform_operation(std::uint64_t epoch);
  /// Starts a part of the oldest operation, if it is not started, and waits for it. Returns true if
  /// it succeeded.
  bool perform_part(const std::function<void(Operation&)>& start, std::uint64_t epoch);
  /// Starts the next operation, if it may start before the oldest one in flight has ended. One that
  /// fails to start is started again when it is the oldest.
  void start_early(std::uint64_t epoch);
  void release_operation();
  void finish_step(GroupStep step, std::uint64_t epoch);
  /// Blocks until inner work has ended or a newer epoch was announced. Returns true if the work
  /// succeeded. Reports a failure.
  bool wait_for_work(const c10::intrusive_ptr<c10d::Work>& work, std::uint64_t epoch);
  /// Does the same for work on a device, whose future is complete as soon as the work is queued:
  /// asks for its end, and lets the current stream wait for it.
  bool poll_work(const c10::intrusive_ptr<c10d::Work>& work, std::uint64_t epoch);
  /// Sends a message about the newest epoch of the program.
  void send_news(MessageKind kind, const std::string& text);
  void report_failure(std::uint64_t epoch, const std::string& problem);
  bool is_newest(std::uint64_t epoch);

  const GroupPlace place_;
  const InnerBuilder build_;
  ProgramControl& control_;
  GroupRecords& records_;
  std::mutex mutex_;
  std::condition_variable changed_;
  GroupMember member_;               // guarded by mutex_
  std::uint64_t program_epoch_ = 0;  // newest epoch of the program; by mutex_
  OperationLine line_;               // changed under mutex_, but for the results
  EpochView view_, next_view_;       // guarded by mutex_
  OperationStarts starts_;
  std::vector<InnerGroups> old_groups_;  // alive while sockets may be in use
  std::exception_ptr mistake_;
  int failures_ = 0;
  double last_done_s_ = 0;  // end of the newest operation's work
  std::atomic<double> last_added_s_ = 0;
};

}  // namespace orrery::live
