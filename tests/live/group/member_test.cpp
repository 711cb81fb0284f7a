#include "live/group/member.hpp"

#include <cstdlib>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/random.hpp"
#include "live/group/virtual_ranks.hpp"

namespace orrery::live {
namespace {

TEST(AgreeOnResult, TheFirstMemberWithTheNewestResultGivesIt) {
  const GroupAgreement agreed = agree_on_result({{7, 6}, {7, 7}, {8, 7}});
  EXPECT_EQ(agreed.first, 7u);
  EXPECT_EQ(agreed.last, 7u);
  EXPECT_EQ(agreed.giver, 1u);
  EXPECT_EQ(agree_on_result({{7, 6}, {6, 6}}).first, 0u);  // both perform operation 7 again
  EXPECT_EQ(agree_on_result({}).first, 0u);
  const GroupAgreement two = agree_on_result({{9, 8}, {8, 7}, {9, 9}});
  EXPECT_EQ(two.first, 8u);
  EXPECT_EQ(two.last, 9u);
  EXPECT_EQ(two.giver, 2u);
}

TEST(VirtualRanks, SumsAreScaledAndLostEntriesHaveStandIns) {
  EXPECT_EQ(scaled_sum<std::int64_t>(9, 4, 3), 12);
  EXPECT_EQ(scaled_sum<std::int64_t>(-10, 4, 3), -13);
  EXPECT_EQ(scaled_sum<std::uint8_t>(3, 4, 2), 6);
  EXPECT_EQ(scaled_sum(1.5, 4, 2), 3.0);
  EXPECT_EQ(stand_in_position(2, {0, 2, 3}), 1u);
  EXPECT_EQ(stand_in_position(1, {0, 2, 3}), 1u);
  EXPECT_EQ(stand_in_position(3, {0}), 0u);
}

TEST(GroupMember, ALossIsRefusedAfterAShardedOperation) {
  GroupMember member(4);
  member.announce_epoch(0, 4);
  EXPECT_EQ(member.drain_sharded_operation(), "");
  member.mark_sharded("reduce_scatter");
  member.mark_sharded("send");
  EXPECT_EQ(member.drain_sharded_operation(), "reduce_scatter");
  EXPECT_EQ(member.drain_sharded_operation(), "");
  EXPECT_EQ(member.next_step(), GroupStep::connect);
  member.announce_epoch(1, 3);
  EXPECT_EQ(member.next_step(), GroupStep::refuse);
  EXPECT_EQ(member.refused_operation(), "reduce_scatter");
}

TEST(GroupMember, AShardedOperationIsRefusedAfterALoss) {
  GroupMember member(4);
  member.announce_epoch(1, 3);
  EXPECT_NE(member.next_step(), GroupStep::refuse);
  member.begin_operation(OperationKind::sharded, "all_to_all");
  EXPECT_EQ(member.refused_operation(), "all_to_all");
}

TEST(GroupMember, AMemberThatWorkedAloneJoinsWithTheCountsOfTheOthers) {
  GroupMember member(2);
  member.announce_epoch(3, 1);
  member.begin_operation(OperationKind::symmetric, "all_reduce");
  for (const GroupStep step : {GroupStep::connect, GroupStep::exchange, GroupStep::perform}) {
    ASSERT_EQ(member.next_step(), step);
    member.finish_step(step, 3);
    if (step == GroupStep::exchange) member.accept_progress({member.progress()}, 3);
  }
  member.finish_step(GroupStep::release, 3);
  member.adopt_progress(40);
  EXPECT_FALSE(member.has_operation());
  member.announce_epoch(5, 2);
  member.finish_step(GroupStep::connect, 5);
  EXPECT_EQ(member.progress().done, 40u);
  member.accept_progress({{40, 40}, member.progress()}, 5);
  EXPECT_TRUE(member.is_settled());
  member.begin_operation(OperationKind::symmetric, "all_reduce");
  EXPECT_EQ(member.progress().begun, 41u);
  EXPECT_EQ(member.next_step(), GroupStep::perform);
}

TEST(GroupMember, APartialResultIsNotDelivered) {
  GroupMember member(2);
  member.announce_epoch(0, 2);
  member.finish_step(GroupStep::connect, 0);
  member.accept_progress({{0, 0}, {0, 0}}, 0);
  member.begin_operation(OperationKind::partial, "reduce");
  member.announce_epoch(1, 2);  // a cut
  member.finish_step(GroupStep::connect, 1);
  member.accept_progress({{1, 0}, {1, 1}}, 1);
  EXPECT_EQ(member.refused_operation(), "reduce");
}

TEST(GroupMember, AFailedMemberWaitsForTheNextEpoch) {
  GroupMember member(2);
  member.announce_epoch(0, 2);
  EXPECT_EQ(member.next_step(), GroupStep::connect);
  member.fail_step(0);
  EXPECT_EQ(member.next_step(), GroupStep::wait);
  member.announce_epoch(0, 2);
  EXPECT_EQ(member.next_step(), GroupStep::wait);
  member.announce_epoch(1, 2);
  member.fail_step(0);  // late news of the old epoch
  EXPECT_EQ(member.next_step(), GroupStep::connect);
}

TEST(GroupMember, TwoOperationsThatAllBeginAreInFlightAtMost) {
  GroupMember member(2);
  EXPECT_FALSE(member.can_begin_early(OperationKind::symmetric)) << "not connected";
  member.announce_epoch(0, 2);
  member.finish_step(GroupStep::connect, 0);
  member.accept_progress({{0, 0}, {0, 0}}, 0);
  member.begin_operation(OperationKind::symmetric, "all_reduce");
  EXPECT_FALSE(member.can_begin_early(OperationKind::rooted));
  ASSERT_TRUE(member.can_begin_early(OperationKind::symmetric));
  member.begin_operation(OperationKind::symmetric, "all_gather");
  EXPECT_FALSE(member.can_begin_early(OperationKind::symmetric)) << "a third one";
  member.finish_step(GroupStep::perform, 0);
  EXPECT_EQ(member.progress().done, 1u);
  EXPECT_EQ(member.next_step(), GroupStep::release);
  member.finish_step(GroupStep::release, 0);
  EXPECT_TRUE(member.has_operation());
  EXPECT_EQ(member.next_step(), GroupStep::perform);
  member.finish_step(GroupStep::perform, 0);
  member.finish_step(GroupStep::release, 0);
  member.begin_operation(OperationKind::rooted, "broadcast");
  EXPECT_FALSE(member.can_begin_early(OperationKind::symmetric)) << "it may end alone";
}

TEST(GroupMember, AMemberReceivesTwoResultsInTheirOrder) {
  GroupMember member(3);
  member.announce_epoch(0, 3);
  member.finish_step(GroupStep::connect, 0);
  member.accept_progress({{0, 0}, {0, 0}, {0, 0}}, 0);
  member.begin_operation(OperationKind::symmetric, "all_reduce");
  member.begin_operation(OperationKind::symmetric, "all_gather");
  member.announce_epoch(1, 2);
  member.finish_step(GroupStep::connect, 1);
  member.accept_progress({{2, 2}, {2, 0}}, 1);
  for (const std::uint64_t owed : {1u, 2u}) {
    EXPECT_EQ(member.next_step(), GroupStep::deliver);
    EXPECT_EQ(member.owed(), owed);
    EXPECT_EQ(member.giver(), 0u);
    EXPECT_FALSE(member.is_settled());
    member.finish_step(GroupStep::deliver, 1);
    EXPECT_EQ(member.progress().done, owed);
  }
  EXPECT_TRUE(member.is_settled());
  member.finish_step(GroupStep::release, 1);
  member.finish_step(GroupStep::release, 1);
  EXPECT_EQ(member.next_step(), GroupStep::wait);
}

// ---- model test: members on a simulated network, with kills and cuts ----------------------------

/// Rules of a simulation: the project's, or mutations that the property must notice.
struct Rules {
  AgreementRule agree = agree_on_result;
  bool acknowledges = true;         ///< false: members may run ahead of a broadcast's receivers
  std::size_t kept = kMaxInFlight;  ///< results that a member keeps
};

/// Result of an operation: members whose data is in it, each as a bit.
using Result = std::uint64_t;

/// One operation of an inner group, at one position of its order.
struct Round {
  GroupStep step = GroupStep::wait;
  std::size_t root = kNoRoot;  ///< member whose data all receive
  std::map<std::size_t, GroupProgress> arrived;
  Result given = 0;  ///< data of the root
  static constexpr std::size_t kNoRoot = 99;
};

/// Inner group of one epoch.
struct Inner {
  std::vector<std::size_t> members;
  std::deque<Round> rounds;
  bool is_broken = false;
};

struct SimulatedRank {
  explicit SimulatedRank(std::size_t size, AgreementRule rule) : member(size, rule) {}
  GroupMember member;
  bool is_alive = true;
  std::uint64_t step_epoch = 0;
  std::optional<std::size_t> round;  ///< position of the round that the rank waits for
  std::deque<std::size_t> early;     ///< rounds in which it has begun later operations
  std::size_t next_round = 0;
  std::deque<std::uint64_t> announcements;
  std::uint64_t pause = 0;               ///< turns in which the rank's thread does not run
  std::map<std::uint64_t, Result> kept;  ///< newest results, by operation
  Result pending = 0;  ///< result of the current operation before its acknowledgement
  std::vector<Result> released;
};

class Simulation {
 public:
  Simulation(std::uint64_t seed, Rules rules)
      : rules_(rules), random_(seed), size_(2 + random_.below(4)), planned_(3 + random_.below(8)) {
    for (std::size_t rank = 0; rank < size_; ++rank) ranks_.emplace_back(size_, rules.agree);
    for (std::uint64_t op = 0; op < planned_; ++op) {
      roots_.push_back(random_.below(2) == 0 ? Round::kNoRoot : random_.below(size_));
    }
    kills_ = random_.below(size_);
    cuts_ = random_.below(3);
    announce();
  }

  /// Runs the schedule. Returns the first broken promise; empty if all hold.
  std::string run() {
    for (int tick = 0; tick < 200'000 && problem_.empty(); ++tick) {
      if (is_finished()) return compare_survivors();
      disturb();
      advance(random_.below(size_));
    }
    return problem_.empty() ? "the survivors never end" : problem_;
  }

 private:
  bool is_finished() const {
    for (const SimulatedRank& rank : ranks_) {
      if (rank.is_alive && rank.released.size() < planned_) return false;
    }
    return true;
  }

  std::string compare_survivors() const {
    const SimulatedRank* first = nullptr;
    for (const SimulatedRank& rank : ranks_) {
      if (!rank.is_alive) continue;
      if (first != nullptr && rank.released != first->released) return "results differ";
      first = &rank;
    }
    return "";
  }

  void announce() {
    Inner inner;
    for (std::size_t rank = 0; rank < size_; ++rank) {
      if (!ranks_[rank].is_alive) continue;
      inner.members.push_back(rank);
      ranks_[rank].announcements.push_back(epochs_.size());
    }
    epochs_.push_back(inner);
  }

  /// Kills up to two ranks, or cuts the newest inner group, now and then. Recoveries are short, so
  /// a second loss is likelier while one is in progress.
  void disturb() {
    const bool recovers = epochs_.back().rounds.size() < 3;
    const std::size_t chance = recovers ? 12 : 60;
    if (cuts_ > 0 && random_.below(chance) == 0) {
      --cuts_;
      epochs_.back().is_broken = true;
      announce();
    }
    if (kills_ == 0 || random_.below(chance) != 0) return;
    for (std::uint64_t together = 1 + random_.below(2); together > 0 && kills_ > 0; --together) {
      --kills_;
      std::size_t victim = random_.below(size_);
      while (!ranks_[victim].is_alive) victim = (victim + 1) % size_;
      ranks_[victim].is_alive = false;
      for (Inner& inner : epochs_) inner.is_broken = true;
    }
    announce();
  }

  void advance(std::size_t at) {
    SimulatedRank& rank = ranks_[at];
    if (!rank.is_alive) return;
    if (random_.below(16) == 0) rank.pause = random_.below(12);
    if (rank.pause > 0) {
      --rank.pause;
      return;
    }
    if (!rank.announcements.empty() && random_.below(4) == 0) {
      const std::uint64_t epoch = rank.announcements.front();
      rank.announcements.pop_front();
      rank.member.announce_epoch(epoch, epochs_[epoch].members.size());
      return;
    }
    if (rank.round && random_.below(3) == 0) begin_early(at);
    if (rank.round) return try_round(at);
    start_step(at);
  }

  void begin_operation(SimulatedRank& rank) {
    if (rank.member.has_operation() || rank.released.size() == planned_) return;
    rank.member.begin_operation(kind_of(rank.released.size()), "op");
  }

  /// Begins and starts the next operation beside the one that the rank waits for, if it may.
  void begin_early(std::size_t at) {
    SimulatedRank& rank = ranks_[at];
    const std::uint64_t next = rank.member.progress().begun;
    if (next >= planned_ || rank.member.epoch() != rank.step_epoch) return;
    if (!rank.member.can_begin_early(kind_of(next))) return;
    rank.member.begin_operation(kind_of(next), "op");
    rank.early.push_back(enter_round(at, GroupStep::perform, next));
  }

  OperationKind kind_of(std::uint64_t operation) const {
    const bool rooted = roots_[operation] != Round::kNoRoot && rules_.acknowledges;
    return rooted ? OperationKind::rooted : OperationKind::symmetric;
  }

  void start_step(std::size_t at) {
    SimulatedRank& rank = ranks_[at];
    if (random_.below(3) == 0) begin_operation(rank);
    const GroupStep step = rank.member.next_step();
    if (step == GroupStep::wait) return;
    if (step == GroupStep::release) {
      rank.released.push_back(rank.kept[rank.member.released() + 1]);
      return rank.member.finish_step(step, rank.member.epoch());
    }
    if (step == GroupStep::connect) {
      rank.next_round = 0;
      rank.early.clear();
      return rank.member.finish_step(step, rank.member.epoch());
    }
    rank.step_epoch = rank.member.epoch();
    if (step == GroupStep::perform && !rank.early.empty()) {
      rank.round = rank.early.front();
      rank.early.pop_front();
      return;
    }
    rank.round = enter_round(at, step, rank.member.progress().done);
  }

  /// Enters the next round of the inner group, of operation `operation` (counted from 0) if it is
  /// one. Returns the position of the round.
  std::size_t enter_round(std::size_t at, GroupStep step, std::uint64_t operation) {
    SimulatedRank& rank = ranks_[at];
    Inner& inner = epochs_[rank.step_epoch];
    const std::size_t position = rank.next_round++;
    if (inner.rounds.size() <= position) inner.rounds.resize(position + 1);
    Round& round = inner.rounds[position];
    std::size_t root = Round::kNoRoot;
    if (step == GroupStep::deliver) root = inner.members[rank.member.giver()];
    if (step == GroupStep::perform && roots_[operation] != Round::kNoRoot) {
      root = inner.members[stand_in_position(roots_[operation], inner.members)];
    }
    if (round.arrived.empty()) {
      round.step = step;
      round.root = root;
    } else if (round.step != step || round.root != root) {
      problem_ = fmt::format("rank {} takes step {} where others take {}", at,
                             static_cast<int>(step), static_cast<int>(round.step));
    }
    round.arrived[at] = rank.member.progress();
    if (root == at) {
      round.given = step == GroupStep::deliver ? rank.kept[rank.member.owed()] : 1ull << at;
    }
    return position;
  }

  /// Completes or fails the round that a rank waits for. A round of a broken group may do either.
  void try_round(std::size_t at) {
    SimulatedRank& rank = ranks_[at];
    const Inner& inner = epochs_[rank.step_epoch];
    const Round& round = inner.rounds[*rank.round];
    const bool complete = round.root == Round::kNoRoot
                              ? round.arrived.size() == inner.members.size()
                              : round.arrived.count(round.root) > 0;
    if (complete && !(inner.is_broken && random_.below(2) == 0)) return complete_round(at, round);
    if (!inner.is_broken) return;
    rank.round.reset();
    rank.member.fail_step(rank.step_epoch);
  }

  void complete_round(std::size_t at, const Round& round) {
    SimulatedRank& rank = ranks_[at];
    rank.round.reset();
    if (round.step == GroupStep::exchange) {
      std::vector<GroupProgress> progress;
      for (const auto& [from, told] : round.arrived) progress.push_back(told);
      return rank.member.accept_progress(progress, rank.step_epoch);
    }
    if (round.root != Round::kNoRoot) {
      rank.pending = round.given;
    } else if (round.step == GroupStep::perform) {
      rank.pending = 0;
      for (const auto& [from, told] : round.arrived) rank.pending |= 1ull << from;
    }
    const std::uint64_t before = rank.member.progress().done;
    rank.member.finish_step(round.step, rank.step_epoch);
    const std::uint64_t done = rank.member.progress().done;
    if (done == before) return;
    rank.kept[done] = rank.pending;
    if (done > rules_.kept) rank.kept.erase(done - rules_.kept);
  }

  Rules rules_;
  Rng random_;
  std::size_t size_;
  std::uint64_t planned_, kills_ = 0, cuts_ = 0;
  std::vector<std::size_t> roots_;
  std::vector<SimulatedRank> ranks_;
  std::deque<Inner> epochs_;
  std::string problem_;
};

/// Returns the first schedule of `count` that breaks a promise, with the promise; nothing if none.
std::optional<std::string> broken_promise(Rules rules, std::uint64_t count) {
  const char* const text = std::getenv("ORRERY_SEED");
  const std::uint64_t seed = text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
  for (std::uint64_t schedule = 0; schedule < count; ++schedule) {
    const std::string problem = Simulation(seed * 1'000'003 + schedule, rules).run();
    if (!problem.empty()) return fmt::format("seed {}, schedule {}: {}", seed, schedule, problem);
  }
  return std::nullopt;
}

TEST(GroupModel, AllSurvivorsHaveTheSameResultOfEveryOperation) {
  const auto broken = broken_promise({}, 10'000);
  EXPECT_FALSE(broken) << *broken;
}

TEST(GroupModel, RepeatingWhatAMemberHasDoneIsNoticed) {
  const AgreementRule repeats = [](const std::vector<GroupProgress>&) { return GroupAgreement{}; };
  EXPECT_TRUE(broken_promise({.agree = repeats}, 2'000));
}

TEST(GroupModel, AGiverWithoutTheResultIsNoticed) {
  const AgreementRule first = [](const std::vector<GroupProgress>& members) {
    GroupAgreement agreed = agree_on_result(members);
    agreed.giver = 0;
    return agreed;
  };
  EXPECT_TRUE(broken_promise({.agree = first}, 2'000));
}

TEST(GroupModel, AMemberThatKeepsTheNewestResultOnlyIsNoticed) {
  EXPECT_TRUE(broken_promise({.kept = 1}, 10'000));
}

TEST(GroupModel, DeliveringTheNewestResultOnlyIsNoticed) {
  const AgreementRule newest = [](const std::vector<GroupProgress>& members) {
    GroupAgreement agreed = agree_on_result(members);
    agreed.first = agreed.last;
    return agreed;
  };
  EXPECT_TRUE(broken_promise({.agree = newest}, 10'000));
}

TEST(GroupModel, MembersThatRunAheadOfABroadcastAreNoticed) {
  EXPECT_TRUE(broken_promise({.acknowledges = false}, 20'000));
}

}  // namespace
}  // namespace orrery::live
