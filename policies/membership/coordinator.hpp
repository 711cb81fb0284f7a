// The controller's end of the control core: who is a member, which epoch holds, which step is
// final, which decision is in force. A state machine without clock, thread or socket: statuses in,
// directives out, time as an argument. Live mode and the model test drive it; one thread.
//
// A change of membership is a new epoch. First every candidate gives up the old one (gathering),
// then all link up (linking), then steps are worked on one at a time. A step is final when every
// member of the epoch holds its sum: then each of them can apply it, whoever dies. A decision is in
// force when every member has acknowledged it, from the next step on; a new epoch aborts one that
// was not.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "policies/membership/protocol.hpp"

namespace orrery::membership {

struct Revoked { std::uint64_t epoch = 0; };  ///< everything before `epoch` is over
struct Lost { Seat seat; bool silent = false; };  ///< silent: not heard for the timeout
struct Agreed { std::uint64_t epoch = 0; };  ///< all members have given up what was before
struct Formed { std::uint64_t epoch = 0; std::vector<Seat> members; };
struct Committed { Step step = 0; std::uint64_t epoch = 0; };
struct Decided { std::uint64_t number = 0; };
struct Aborted { std::uint64_t number = 0; };
struct Stuck {};  ///< nobody who is there holds the state; goes on if one who does comes back
using Happening = std::variant<Revoked, Lost, Agreed, Formed, Committed, Decided, Aborted, Stuck>;

class Coordinator {
 public:
  struct Options {
    std::uint32_t ranks = 0;  ///< all are awaited at the start
    Nanos timeout = kNanosPerSecond;  ///< of silence
    /// When all fall silent at once it is rather the way to them, or the machine that was
    /// suspended, than all of them: they are given this long to be heard again.
    Nanos patience_with_all = 600 * kNanosPerSecond;
    std::uint32_t quorum = 1;         ///< fewest members of an epoch
  };
  /// A journal of an earlier coordinator: goes on where that one stood, with whoever is still
  /// there after one timeout.
  explicit Coordinator(const Options& options, const Journal& journal = {});

  void hear(const Status& status, Nanos now);
  /// The process in this seat has ended.
  void gone(const Seat& seat);
  /// Looks for the silent. Many times per timeout: a coordinator that was itself away holds that
  /// against nobody.
  void tick(Nanos now);
  /// All that are there are silent, and are waited for.
  bool all_silent() const { return all_silent_; }
  /// Asks all members to hold decision `number`; numbers grow. Only while running().
  void propose(std::uint64_t number);
  /// The members stand still: they give up the step under way and link up anew.
  void renew();
  /// Lets the members work on step committed(). Only while ready().
  void work();

  bool ready() const { return phase_ == Phase::idle && proposed_ == decided_; }
  /// All members have applied what is final, and their links hold.
  bool settled() const;
  bool running() const { return phase_ == Phase::idle || phase_ == Phase::working; }
  std::uint64_t epoch() const { return epoch_; }
  Step committed() const { return committed_; }
  const std::vector<Seat>& members() const { return members_; }
  Journal journal() const { return {epoch_, committed_, committed_in_, decided_}; }

  /// What that rank should know now; nothing if it has to wait.
  std::optional<Directive> directive(std::uint32_t rank) const;
  /// Ranks that have not been heard of for `span`, ascending.
  std::vector<std::uint32_t> silent(Nanos span, Nanos now) const;
  /// Ranks that are heard of, members or not.
  std::vector<std::uint32_t> peers() const;
  /// What has happened since the last call.
  std::vector<Happening> take();

 private:
  enum class Phase : std::uint8_t { waiting, gathering, linking, idle, working };
  struct Peer {
    Status newest;
    Nanos heard = 0;
    bool member = false;
  };
  bool wait_for_all(Nanos now);
  void remove(Seat seat, bool silent);  ///< a copy: the caller's may be the one that goes
  void review();
  void gather();
  void agree();
  void commit();
  bool broken() const;
  bool newcomers() const;
  template <class Condition>
  bool all_members(Condition condition) const;

  Options options_;
  bool restarted_;
  Phase phase_ = Phase::waiting;
  std::uint64_t epoch_ = 0, number_ = 0;
  Step committed_ = 0;
  std::uint64_t committed_in_ = 0, proposed_ = 0, decided_ = 0;
  std::uint64_t in_force_ = 0;  ///< of the decisions, in the step under way
  std::vector<Seat> members_;
  std::uint32_t source_ = 0;
  bool share_ = false;
  std::map<std::uint32_t, Peer> peers_;  ///< by rank
  std::optional<Nanos> began_, looked_;
  bool all_silent_ = false;
  std::vector<Happening> happened_;
};

}  // namespace orrery::membership
