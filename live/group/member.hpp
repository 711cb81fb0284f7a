// Rules of one member of a fault-tolerant process group: which step it takes next, also after other
// members are lost. Plain C++ without PyTorch. Used by the process group inside users' programs
// (live/torch), which performs the steps, and by the model test, which simulates them. One thread.
//
// Operations of a group are numbered from 1, and begin and end in this order at each member. All
// members of a membership epoch are connected by an inner group (Gloo, NCCL) that works until one
// of them is lost. Up to kMaxInFlight operations are in flight at a member, and it keeps the
// results of as many. An operation is done at a member only after all members have begun it, so the
// members' counts of done operations differ by at most kMaxInFlight. After a loss the remaining
// members connect again and exchange their counts. Example: of members 0, 1 and 2, member 2 is lost
// while operations 7 and 8 are in flight. Member 0 has both results, member 1 has none: member 1
// receives operation 7, then 8, from member 0. If neither has operation 7, both perform it again
// without member 2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace orrery::live {

/// Counts of one member: numbers of the newest operation that the member has begun, and of the
/// newest one whose result it has. 0: none.
struct GroupProgress {
  std::uint64_t begun = 0;
  std::uint64_t done = 0;
};

/// Operations that may be in flight at a member, and results that it keeps.
constexpr std::uint64_t kMaxInFlight = 2;

/// Outcome of an exchange of progress. If `first` is above 0, all members that lack the results of
/// operations `first` to `last` receive them, in order, from member `giver`.
struct GroupAgreement {
  std::uint64_t first = 0, last = 0;
  std::size_t giver = 0;  ///< position in the exchanged list
};

/// Returns the outcome for the progress of all members of an epoch, in their order. The giver is
/// the first member that has all results. Returns `first` 0 if all members have done equally many.
GroupAgreement agree_on_result(const std::vector<GroupProgress>& members);

using AgreementRule = GroupAgreement (*)(const std::vector<GroupProgress>& members);

/// Kinds of operations, by how they survive a loss.
enum class OperationKind : std::uint8_t {
  symmetric,  ///< equal result at all members, needs data of all: all-reduce, all-gather, barrier
  rooted,     ///< equal result at all members, needs data of the root only: broadcast
  partial,    ///< result at some members only: reduce, scatter; repeated, but never delivered
  sharded,    ///< different result at each member: reduce-scatter, all-to-all, send and receive
};

/// Steps of a member. Members of an epoch take the steps between `exchange` and `acknowledge` in
/// the same order, because each is an operation of the inner group.
enum class GroupStep : std::uint8_t {
  wait,         ///< nothing to do until an operation begins or an epoch is announced
  connect,      ///< build the inner group of the announced epoch
  exchange,     ///< gather the progress of all members, then call accept_progress()
  deliver,      ///< broadcast the kept result of operation owed() from member giver()
  perform,      ///< perform the oldest operation that is not done
  acknowledge,  ///< barrier after an operation that a member may finish before others begin it;
                ///< the operation is done after the barrier
  release,      ///< hand the result to the program
  refuse,       ///< end the run: operation refused_operation() cannot be carried through the loss
};

/// State machine of one member. The caller takes next_step(), does it, and reports finish_step() or
/// fail_step(); begin_operation() and announce_epoch() may come between any two calls.
class GroupMember {
 public:
  /// Member of a group of `size` members, all of which are alive. No epoch is announced.
  explicit GroupMember(std::size_t size, AgreementRule rule = agree_on_result)
      : rule_(rule), size_(size), alive_(size) {}

  /// Returns true if an operation of this kind may begin although others are in flight: it and they
  /// end only after every member has begun them, and the members are settled.
  bool can_begin_early(OperationKind kind) const;
  /// Begins the next operation. Call only if has_operation() is false or can_begin_early() is true.
  /// A `sharded` one is marked as by mark_sharded().
  void begin_operation(OperationKind kind, const std::string& name);
  /// Announces the newest membership epoch, with `alive` members of this group, this one included.
  /// Epochs that are not newer than the announced one are ignored. Refuses, as refuse_operation(),
  /// if members are missing and a sharded operation was ever marked in this group, or if one is in
  /// flight in a connected epoch.
  void announce_epoch(std::uint64_t epoch, std::size_t alive);
  /// Marks a sharded operation that bypasses the numbering (send, receive) as used. Refuses at once
  /// if members are missing.
  void mark_sharded(const std::string& name);
  /// Ends the steps of this member because of operation `name`: next_step() is `refuse` for good.
  /// The first name stays. `name` must not be empty.
  void refuse_operation(const std::string& name);

  /// Gives a member that joins later the counts of the others: `operations` operations count as
  /// done. Call only if has_operation() is false; the next epoch must be one of all members.
  void adopt_progress(std::uint64_t operations);

  /// Returns the step to do now; the same step until a report or an announcement changes it.
  GroupStep next_step() const;
  /// Records that step `step`, which next_step() returned in epoch `epoch`, succeeded. Ignored if a
  /// newer epoch was announced, except for `release` and for the step with which the current
  /// operation is done: its result stays. No effect for `exchange`, whose end is
  /// accept_progress().
  void finish_step(GroupStep step, std::uint64_t epoch);
  /// Ends the step `exchange` with the progress of all members of epoch `epoch`, in their order.
  /// Refuses if a `partial` operation would have to be delivered. Ignored if a newer epoch was
  /// announced.
  void accept_progress(const std::vector<GroupProgress>& members, std::uint64_t epoch);
  /// Records that a step failed in epoch `epoch`: the member waits for a newer epoch. Ignored if
  /// one was announced.
  void fail_step(std::uint64_t epoch);

  /// Returns this member's counts.
  GroupProgress progress() const { return {begun_, done_}; }
  /// Returns true from begin_operation() until the step `release` of the operation is reported, for
  /// any operation.
  bool has_operation() const { return begun_ > released_; }
  /// Returns true if the member has agreed in the announced epoch and owes or awaits no delivery.
  bool is_settled() const { return has_agreed_ && owed_ == 0; }
  /// Returns true if a step has failed in the announced epoch: the member waits for a newer one.
  bool is_broken() const { return is_broken_; }
  /// Returns the number of operations that were released, in order.
  std::uint64_t released() const { return released_; }
  /// Returns the announced epoch; 0 before the first announcement.
  std::uint64_t epoch() const { return epoch_; }
  std::uint64_t owed() const { return owed_; }  ///< operation to deliver; 0: none
  /// Returns the member that delivers operation owed(); no meaning if owed() is 0.
  std::size_t giver() const { return giver_; }  ///< its giver, a position in the epoch
  /// Returns the number of living members; all members before the first announcement.
  std::size_t alive() const { return alive_; }  ///< members of the announced epoch
  const std::string& refused_operation() const { return refused_; }  ///< empty: none
  /// Returns the first sharded operation of the group, once; an empty text before it is marked and
  /// in later calls.
  std::string drain_sharded_operation();

 private:
  struct InFlight {
    OperationKind kind;
    std::string name;
  };

  bool acknowledges() const;

  AgreementRule rule_;
  std::size_t size_;
  std::size_t alive_;
  std::uint64_t epoch_ = 0;
  bool is_announced_ = false, is_connected_ = false, is_broken_ = false, has_agreed_ = false;
  bool is_performed_ = false, is_sharded_drained_ = false;
  std::uint64_t begun_ = 0, done_ = 0, released_ = 0;
  std::uint64_t owed_ = 0, last_owed_ = 0;
  std::size_t giver_ = 0;
  std::deque<InFlight> in_flight_;  ///< operations released_ + 1 to begun_
  InFlight newest_{OperationKind::symmetric, ""};
  std::string sharded_, refused_;
};

}  // namespace orrery::live
