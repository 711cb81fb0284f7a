// Where a rank stands and what it has been told: the monitor between the thread that hears the
// controller and the one that trains. Holds the member of the control core, the newest order and
// the links of the epoch, how the hardware stands, and whether the run is over. What is revoked is
// interrupted at once; every change of the rank's standing is told. Thread-safe: who calls what is
// said below.
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

class RankState {
 public:
  struct Hooks {
    std::function<void()> interrupt;  ///< ends the work under way; under the lock, as is the next
    std::function<void()> resume;     ///< what comes is to be worked on
    std::function<void(const MemberStatus&)> tell;
  };
  /// Its state holds the updates of the steps before `applied`. `link_rate`: see JoiningFabric.
  RankState(membership::Seat self, Step applied, double link_rate, Hooks hooks);

  // ---- by any thread
  MemberStatus status();
  Step applied();
  /// The rank cannot go on, and says so.
  void fail();

  // ---- by the thread that hears the controller
  void hear(const MemberDirective& said);
  /// The pace of sending, or no link; the speed is the trainer's.
  void feel(const Hardware& said);
  void note(const SaveShard& order);
  void end(const Stop& stop);
  /// There is a controller again: an end that was said before will be said again.
  void begin_session();
  /// Nobody is left who could release this rank.
  void lose_controller();
  bool released();

  // ---- by the thread that trains
  using Task = membership::Task;
  using Save = std::function<void(const SaveShard& order, Step applied)>;
  /// Blocks until there is something to do; shards that are ordered meanwhile are saved. Nothing:
  /// the end; what is final has been applied.
  std::optional<Task> next(const Save& save);
  /// Gives the links of the last epoch up.
  void drop_links();
  /// It listens.
  void enter(std::uint64_t epoch, std::shared_ptr<JoiningFabric> fabric);
  /// While the link of this rank is down. False: the epoch is over before it is up.
  bool wait_for_link(std::uint64_t epoch);
  /// With whom to link up in an epoch.
  struct Links {
    std::shared_ptr<JoiningFabric> fabric;
    std::vector<std::string> addresses;
    bool current = false;  ///< this rank holds the state of the newest step that is final
  };
  /// Nothing: it is over. So is a plan.
  std::optional<Links> links(std::uint64_t epoch);
  std::optional<StepPlan> plan(std::uint64_t epoch);
  std::shared_ptr<JoiningFabric> fabric();
  void linked(std::uint64_t epoch);
  void reduced(std::uint64_t epoch, Step step);
  /// `gathered`: and its parameters have been brought together.
  void updated(std::uint64_t epoch, bool gathered);
  void broke(std::uint64_t epoch);
  /// Where the run has ended and its parameters are asked for: how many steps they hold.
  std::optional<Step> parameters_wanted();
  /// False if the controller that gathered is gone before it let this rank go, and another one has
  /// taken its place.
  bool wait_for_release();
  bool abandoned();

 private:
  template <class Change>
  void change(const Change& how);
  void send_status();

  const Hooks hooks_;
  std::mutex mutex_;  // of everything below
  std::condition_variable changed_;
  membership::Member member_;
  MemberDirective order_;                  ///< newest
  std::shared_ptr<JoiningFabric> fabric_;  ///< of the epoch entered
  Hardware hardware_;                      ///< newest
  std::optional<SaveShard> save_;          ///< to be written between two steps
  std::optional<Stop> stop_;
  bool failed_ = false;
  bool released_ = false;   ///< nothing more is wanted from this rank
  bool abandoned_ = false;  ///< nobody is left who could release it
};

}  // namespace orrery::live
