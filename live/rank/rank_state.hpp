// State of one rank and the controller's newest orders: the monitor between the thread that reads
// the controller's messages and the thread that trains.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "live/control.pb.h"
#include "live/fabric/joining_fabric.hpp"
#include "policies/membership/member.hpp"

namespace orrery::live {

/// Monitor of one rank. Holds the rank's member of the control core, the newest directive, the
/// links of the epoch, the state of the hardware, and the end of the run. A revoked task is
/// interrupted at once; every change of the member's status is sent to the controller. Thread-safe;
/// the sections below say which thread calls a method.
class RankState {
 public:
  /// Callbacks of the rank.
  struct Hooks {
    std::function<void()> interrupt;  ///< Interrupts the current work; called under the lock.
    std::function<void()> resume;  ///< Allows new work after an interrupt; called under the lock.
    /// Sends a status to the controller.
    std::function<void(const MemberStatus&)> tell;
  };
  /// Initializes the state with `applied`, the number of steps whose updates this rank holds.
  /// `link_rate`: see JoiningFabric.
  RankState(membership::Seat self, Step applied, double link_rate, Hooks hooks);

  // ---- callable from any thread ----
  /// Returns the member's status, with the address of its fabric.
  MemberStatus status();
  /// Returns the number of steps whose updates this rank holds.
  Step applied_steps();
  /// Records that this rank cannot continue and has reported a failure.
  void mark_failed();

  // ---- called by the thread that reads the controller's messages ----
  /// Applies a directive of the control core and sends the status. If the directive revokes the
  /// current task, interrupts the task and aborts the fabric. Outdated directives change nothing.
  void on_directive(const MemberDirective& said);
  /// Applies a new send rate or a link failure, which aborts the fabric. The compute speed belongs
  /// to the trainer.
  void on_hardware(const Hardware& said);
  /// Records an order to write a shard between two steps, in place of an order that next() has not
  /// carried out.
  void add_shard_order(const SaveShard& order);
  /// Records the end of the run, interrupts the current task and aborts the fabric. Releases this
  /// rank unless `stop` requests the parameters.
  void end(const Stop& stop);
  /// Forgets the end of the run, because a new session has begun: a controller that still wants the
  /// end sends it again.
  void begin_session();
  /// Records that no controller remains to release this rank; no effect on a released rank.
  void lose_controller();
  /// Returns true if the controller needs nothing more of this rank.
  bool is_released();

  // ---- called by the thread that trains ----
  using Task = membership::Task;
  using Save = std::function<void(const SaveShard& order, Step applied)>;
  /// Blocks until a task is due; meanwhile writes ordered shards with `save`, without the lock.
  /// Allows new work (Hooks::resume) and returns the task; nothing at the end of the run, after the
  /// last final step is applied.
  std::optional<Task> next(const Save& save);
  /// Releases the links of the last epoch.
  void drop_links();
  /// Records that this rank listens in `epoch` with `fabric`, which gets the current send rate.
  void mark_listening(std::uint64_t epoch, std::shared_ptr<JoiningFabric> fabric);
  /// Blocks while the link of this rank is down. Returns false if the epoch or the run is over,
  /// also if the link is up.
  bool wait_for_link(std::uint64_t epoch);
  /// Peers of one epoch.
  struct Links {
    std::shared_ptr<JoiningFabric> fabric;
    std::vector<std::string> addresses;
    bool current = false;  ///< True if this rank holds the state of the newest final step.
  };
  /// Returns the peers of `epoch`; nothing if the epoch is over. Links::fabric is null before
  /// mark_listening().
  std::optional<Links> links(std::uint64_t epoch);
  /// Returns the plan of the current step; nothing if the epoch is over.
  std::optional<StepPlan> plan(std::uint64_t epoch);
  /// Returns the fabric of the current epoch; null if none.
  std::shared_ptr<JoiningFabric> fabric();
  /// Records that this rank is linked with all members of `epoch`.
  void mark_linked(std::uint64_t epoch);
  /// Records that this rank holds the gradient sum of `step`.
  void mark_reduced(std::uint64_t epoch, Step step);
  /// Records that the update of the current step is applied. `gathered`: the parameters have been
  /// gathered as well; if false, the links of `epoch` count as broken.
  void updated(std::uint64_t epoch, bool gathered);
  /// Records that the links of `epoch` are broken.
  void mark_broken(std::uint64_t epoch);
  /// Returns the number of steps that this rank's parameters hold, if the run has ended and the
  /// controller requests the parameters; nothing otherwise.
  std::optional<Step> parameters_wanted();
  /// Blocks until the controller releases this rank, at most 10 s. Returns false if the controller
  /// that collected the parameters is gone and a successor has taken its place; returns true also
  /// after 10 s or a failure.
  bool wait_for_release();
  /// Returns true if no controller remained to release this rank.
  bool is_abandoned();

 private:
  /// Applies `how` under the lock and sends the new status.
  template <class Change>
  void change_member(const Change& how);
  /// Sends the member's status to the controller.
  void send_status();

  const Hooks hooks_;
  std::mutex mutex_;  // Guards all members below.
  std::condition_variable changed_;
  membership::Member member_;
  MemberDirective order_;                  ///< Newest directive.
  std::shared_ptr<JoiningFabric> fabric_;  ///< Fabric of the current epoch.
  Hardware hardware_;                      ///< Newest state of the hardware.
  std::optional<SaveShard> save_;          ///< Order to write between two steps.
  std::optional<Stop> stop_;
  bool failed_ = false;
  bool released_ = false;   ///< True if the controller needs nothing more of this rank.
  bool abandoned_ = false;  ///< True if no controller remains to release this rank.
};

}  // namespace orrery::live
