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
#include "live/membership/member.hpp"

namespace orrery::live {

/// Monitor of one rank. Holds the rank's member of the control core, the newest directive, the
/// links of the epoch, the state of the hardware, and the end of the run. A revoked task is
/// interrupted at once; every change of the member's status is sent to the controller by
/// Hooks::tell, in the thread that makes the change. Thread-safe; the sections below say which
/// thread calls a method.
class RankState {
 public:
  /// Callbacks of the rank; all must be set.
  struct Hooks {
    std::function<void()> interrupt;  ///< Interrupts the current work; called under the lock.
    std::function<void()> resume;  ///< Allows new work after an interrupt; called under the lock.
    /// Sends a status to the controller; called without the lock.
    std::function<void(const MemberStatus&)> tell;
  };
  /// Initializes the state with `applied`, the number of steps whose updates this rank holds.
  /// `link_rate`: see JoiningFabric; in force until on_hardware(). Calls no hook.
  RankState(membership::Seat self, Step applied, double link_rate, Hooks hooks);

  // ---- callable from any thread ----
  /// Returns the member's status with the next heartbeat number, and with the address of its fabric
  /// if one listens.
  MemberStatus status();
  /// Returns the number of steps whose updates this rank holds. Uses up a heartbeat number.
  Step applied_steps();
  /// Records that this rank cannot continue; the caller reports it. wait_for_release() then waits
  /// also without a recorded end. Neither interrupts nor sends.
  void mark_failed();

  // ---- called by the thread that reads the controller's messages ----
  /// Applies a directive of the control core and sends the status. If the directive revokes the
  /// current epoch, interrupts the task and aborts the fabric. A directive that is outdated or for
  /// another process changes nothing, but the status is sent.
  void on_directive(const MemberDirective& said);
  /// Applies a new send rate or a link failure, which aborts the fabric; a repaired link wakes
  /// wait_for_link(). A later fabric gets the rate in mark_listening(). The compute speed belongs
  /// to the trainer. Sends no status.
  void on_hardware(const Hardware& said);
  /// Records an order to write a shard between two steps, in place of an order that next() has not
  /// carried out.
  void add_shard_order(const SaveShard& order);
  /// Records the end of the run, interrupts the current task and aborts the fabric. Releases this
  /// rank for good unless `stop` requests the parameters. A later call replaces the stop unless the
  /// rank is released.
  void end(const Stop& stop);
  /// Forgets the end of the run, because a new session has begun: a controller that still wants the
  /// end sends it again. A release and an aborted fabric stay.
  void begin_session();
  /// Records that no controller remains to release this rank; no effect on a released rank. Wakes
  /// no thread: call end() afterwards.
  void lose_controller();
  /// Returns true if the controller needs nothing more of this rank.
  bool is_released();

  // ---- called by the thread that trains ----
  using Task = membership::Task;
  using Save = std::function<void(const SaveShard& order, Step applied)>;
  /// Blocks until a task is due or the run ends; meanwhile writes ordered shards with `save`,
  /// without the lock, and passes on its errors, after which the order is forgotten. Allows new
  /// work (Hooks::resume) and returns the task, never of kind `none`; returns the same task again
  /// until its completion is recorded. Returns nothing after the end of the run, except that a
  /// final step that is not applied is still returned, as `apply`.
  std::optional<Task> next(const Save& save);
  /// Releases the links of the last epoch: fabric() is null until mark_listening(). Sends no
  /// status.
  void drop_links();
  /// Stores `fabric`, not null, gives it the current send rate, and records that this rank listens
  /// in `epoch`. The record is ignored, but the fabric stored, unless `epoch` is the newest and not
  /// begun.
  void mark_listening(std::uint64_t epoch, std::shared_ptr<JoiningFabric> fabric);
  /// Blocks while the link of this rank is down and the epoch goes on. Returns true if the link is
  /// up; false if `epoch` is not the newest or the run is over, also if the link is up.
  bool wait_for_link(std::uint64_t epoch);
  /// Peers of one epoch.
  struct Links {
    std::shared_ptr<JoiningFabric> fabric;
    std::vector<std::string> addresses;  ///< Addresses of the newest directive, by member.
    bool current = false;  ///< True if this rank holds the state of the newest final step.
  };
  /// Returns the peers of `epoch`; nothing unless `epoch` is the newest. Links::fabric is null
  /// before mark_listening().
  std::optional<Links> links(std::uint64_t epoch);
  /// Returns the plan in the newest directive, empty if the directive has none; nothing unless
  /// `epoch` is the newest.
  std::optional<StepPlan> plan(std::uint64_t epoch);
  /// Returns the fabric of the newest mark_listening(); null before, and after drop_links().
  std::shared_ptr<JoiningFabric> fabric();
  /// Records that this rank is linked with all members of `epoch` and has the training state.
  /// Ignored unless `epoch` is the newest and begun, and after mark_broken(). Sends the status in
  /// any case, as all mark_ methods of this section do.
  void mark_linked(std::uint64_t epoch);
  /// Records that this rank holds the gradient sum of `step`. Ignored for an epoch that this rank
  /// has not begun or has left, and for another step than the next one.
  void mark_reduced(std::uint64_t epoch, Step step);
  /// Records that the update of the final step is applied. `gathered`: the parameters have been
  /// gathered as well; if false, the links of `epoch` count as broken. Call only while the task is
  /// `apply`; throws an internal Error otherwise.
  void mark_updated(std::uint64_t epoch, bool gathered);
  /// Records that the links of `epoch` are broken. Ignored for a past epoch.
  void mark_broken(std::uint64_t epoch);
  /// Returns the number of steps that this rank's parameters hold, if the run has ended and the
  /// controller requests the parameters; nothing otherwise, also after begin_session(). Uses up a
  /// heartbeat number.
  std::optional<Step> parameters_wanted();
  /// Blocks until the controller releases this rank or begin_session() forgets the end, at most 10
  /// s. Returns false if the end is forgotten or has not been recorded, and the rank is neither
  /// released nor failed: continue with next(). Returns true otherwise, also after 10 s without a
  /// release.
  bool wait_for_release();
  /// Returns true if a new process of this rank has to join the run: no controller remained to
  /// release this rank, or the reason of the newest stop is kStateIsLost or kCountsAsLost.
  bool has_to_join_again();

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
