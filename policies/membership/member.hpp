// One rank's end of the control core: a state machine without clock, thread or socket. It is told
// what the coordinator says and what the rank has done, and answers what the rank is to do next.
// Live agents and the model test drive it; the caller serialises the calls.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "policies/membership/protocol.hpp"

namespace orrery::membership {

struct Task {
  enum class Kind : std::uint8_t {
    none,
    apply,  ///< update along the sum that is held
    enter,  ///< give the links up, drop what is held, listen for those of `epoch`
    link,   ///< with `members`; then, if `share`, newcomers take the state of `source`
    work    ///< compute `step` and sum it up, update nothing
  };
  Kind kind = Kind::none;
  std::uint64_t epoch = 0;
  Step step = 0;
  std::vector<Seat> members = {};
  std::uint32_t source = 0;
  bool share = false;
  std::uint64_t decided = 0;
};

class Member {
 public:
  /// Its state holds the updates of the steps before `applied`.
  explicit Member(Seat self, Step applied = 0) : self_(self) { state_.applied = applied; }

  /// True if it revokes the epoch: whatever is being done must end now.
  bool hear(const Directive& said);
  /// What to do now; stays the same until it is done or the coordinator says otherwise.
  Task task() const;

  void applied();
  void entered(std::uint64_t epoch);
  void linked(std::uint64_t epoch);
  /// Too late for an epoch that is over: ignored, as is the next.
  void reduced(std::uint64_t epoch, Step step);
  void broke(std::uint64_t epoch);

  Status status();
  std::uint64_t epoch() const { return state_.epoch; }
  /// It holds the state of the newest step that it knows to be final.
  bool whole() const { return state_.whole; }
  const Directive& newest() const { return newest_; }

 private:
  bool may_apply() const;

  Seat self_;
  Status state_;
  std::uint64_t beats_ = 0;
  Directive newest_;
};

}  // namespace orrery::membership
