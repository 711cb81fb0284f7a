#include "policies/drive.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

/// Does what it is told, once, at the given call; notes what it saw of the others.
class Scripted : public Policy {
 public:
  Scripted(Needs needs, std::vector<Action> actions, bool rests = true)
      : needs_(needs), actions_(std::move(actions)), rests_(rests) {}
  Needs needs() const override { return needs_; }
  void start(Context& context, const Cluster&, const google::protobuf::Message*) override {
    first_random = context.rng.next();
  }
  void observe(Context&, const Observation& seen, DecisionList& decisions) override {
    seen_before = decisions.items().size();
    ++calls;
    if (seen.sequence == 1) {
      for (const Action& action : actions_) decisions.add(action, "scripted");
    }
    if (rests_) decisions.rest();
  }
  void save(Archive& archive) const override { archive = std::to_string(calls); }
  void load(const Archive& archive) override { calls = std::stoi(archive); }

  std::uint64_t first_random = 0;
  std::size_t seen_before = 0;
  int calls = 0;

 private:
  Needs needs_;
  std::vector<Action> actions_;
  bool rests_;
};

std::unique_ptr<Scripted> idle(Needs needs, bool rests = true) {
  return std::make_unique<Scripted>(needs, std::vector<Action>{}, rests);
}

PolicyStack::Member member(std::string name, Family family, std::unique_ptr<Policy> policy) {
  return {.name = std::move(name), .family = family, .policy = std::move(policy),
          .parameters = nullptr};
}

template <class... Members>
PolicyStack stack(Members... members) {
  std::vector<PolicyStack::Member> list;
  (list.push_back(std::move(members)), ...);
  return PolicyStack(std::move(list));
}

/// Keeps what reached the backend.
class Witness : public toy::ToyBackend {
 public:
  using ToyBackend::ToyBackend;
  void begin(const Needs& needs) override {
    begun = needs;
    ToyBackend::begin(needs);
  }
  void apply(std::span<const Decision> decisions, bool at_rest) override {
    for (const Decision& decision : decisions) numbers.push_back(decision.number);
    rests += at_rest ? 1 : 0;
    ToyBackend::apply(decisions, at_rest);
  }
  Needs begun;
  std::vector<std::uint64_t> numbers;
  int rests = 0;
};

std::uint64_t run(Policy& policy, Backend& backend) {
  Rng rng = policy_rng(1);
  Context context{rng, {}};
  return drive(policy, backend, context);
}

std::string failure_of(Policy& policy, Backend& backend) {
  try {
    run(policy, backend);
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(Drive, OnePolicySteersTheToyWorld) {
  const Cluster cluster = toy::cluster();
  Witness backend(cluster);
  toy::ShiftOnce policy;
  EXPECT_EQ(run(policy, backend), 1u);
  EXPECT_EQ(backend.world().jobs()[0].step, 40u);
  EXPECT_EQ(backend.world().jobs()[0].per_replica, (std::vector<std::uint32_t>{12, 12, 4, 12}));
  EXPECT_EQ(backend.begun.tick_period, toy::kTick);
  EXPECT_EQ(backend.numbers, std::vector<std::uint64_t>{0});
  EXPECT_GT(backend.rests, 40);
}

TEST(Drive, WhatTheBackendLacksIsNamed) {
  const Cluster cluster = toy::cluster();
  class Poor : public toy::ToyBackend {
   public:
    using ToyBackend::ToyBackend;
    Capabilities capabilities() const override { return {kJobs, action_bit(0)}; }
  } backend(cluster);
  Scripted policy({kJobs | kDevices | kLinks, action_bit(0) | action_bit(2), 0}, {});
  EXPECT_EQ(failure_of(policy, backend),
            "the policies need what this run does not offer: the signals devices, links and the "
            "actions ShiftMicrobatches");
  EXPECT_EQ(policy.calls, 0);
}

/// A world whose clock stands still.
class Frozen : public toy::ToyBackend {
 public:
  using ToyBackend::ToyBackend;
  std::optional<Observation> next() override {
    auto seen = ToyBackend::next();
    if (seen) seen->now = 0;
    return seen;
  }
};

/// Decides in every call.
class Restless : public Policy {
 public:
  Needs needs() const override { return {.tick_period = toy::kTick}; }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  void observe(Context&, const Observation&, DecisionList& decisions) override {
    decisions.add(WakeMe{1}, "again");
  }
};

TEST(Drive, DecidingWithoutEndAtOneInstantEndsTheRun) {
  const Cluster cluster = toy::cluster();
  Rng rng(1);
  Context context{rng, {}};
  Restless policy;
  Frozen frozen(cluster, 1'000'000);
  try {
    drive(policy, frozen, context);
    FAIL() << "it ended by itself";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(error.message().find("1000 times in a row at 0 s"), std::string::npos)
        << error.message();
  }
  toy::ToyBackend moving(cluster, 400);
  EXPECT_GT(drive(policy, moving, context), 1000u);
}

TEST(PolicyStack, NeedsAreTheUnionAndTicksTheShortest) {
  PolicyStack policies = stack(
      member("a", Family::scheduling, idle({1, 2, 500})),
      member("b", Family::scheduling, idle({4, 8, 0})),
      member("c", Family::scheduling, idle({1, 1, 200})));
  EXPECT_EQ(policies.needs().signals, 5u);
  EXPECT_EQ(policies.needs().actions, 11u);
  EXPECT_EQ(policies.needs().tick_period, 200);
}

TEST(PolicyStack, MembersAreAskedByFamilyAndSeeEarlierDecisions) {
  const Cluster cluster = toy::cluster();
  toy::ToyBackend backend(cluster, 2);
  auto late = std::make_unique<Scripted>(Needs{}, std::vector<Action>{SetBuckets{{0}, {1e6}}});
  auto early = std::make_unique<Scripted>(Needs{}, std::vector<Action>{Prefetch{{0}, 2}});
  class AtOne : public Scripted {
   public:
    using Scripted::Scripted;
    void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
      Scripted::observe(context, seen, decisions);
      if (seen.sequence == 1) before_at_one = seen_before;
    }
    std::size_t before_at_one = 99;
  };
  auto last = std::make_unique<AtOne>(Needs{}, std::vector<Action>{});
  const AtOne& watcher = *last;
  PolicyStack policies = stack(member("late", Family::collectives, std::move(late)),
                               member("last", Family::compression, std::move(last)),
                               member("early", Family::recovery, std::move(early)));
  EXPECT_EQ(policies.members()[0].name, "early");
  EXPECT_EQ(run(policies, backend), 2u);
  EXPECT_EQ(watcher.before_at_one, 2u);
}

TEST(PolicyStack, TwoDecisionsOnOneSubjectNameBothMembers) {
  const Cluster cluster = toy::cluster();
  const auto decide = [](std::string name, std::vector<Action> actions) {
    return member(std::move(name), Family::scheduling,
                  std::make_unique<Scripted>(Needs{}, std::move(actions)));
  };
  {
    toy::ToyBackend backend(cluster);
    PolicyStack policies =
        stack(decide("one", {Prefetch{{0}, 1}}), decide("two", {Prefetch{{0}, 2}}));
    EXPECT_EQ(failure_of(policies, backend),
              "the policies 'one' and 'two' both decide Prefetch of job 0 at 0.1 s");
  }
  {
    toy::ToyBackend backend(cluster);  // another kind, another thing, waking twice: all fine
    PolicyStack policies = stack(
        decide("one", {Prefetch{{0}, 1}, SetPowerCap{{0}, {1}}, WakeMe{1}}),
        decide("two", {SetBuckets{{0}, {1}}, SetPowerCap{{1}, {1}}, WakeMe{1}}));
    EXPECT_EQ(failure_of(policies, backend), "no error");
  }
}

TEST(PolicyStack, RestsOnlyWhenAllDo) {
  const Cluster cluster = toy::cluster();
  const auto rests = [&cluster](bool first, bool second) {
    Witness backend(cluster, 2);
    PolicyStack policies = stack(
        member("a", Family::scheduling, idle({}, first)),
        member("b", Family::scheduling, idle({}, second)));
    run(policies, backend);
    return backend.rests;
  };
  EXPECT_GT(rests(true, true), 0);
  EXPECT_EQ(rests(true, false), 0);
  EXPECT_EQ(rests(false, true), 0);
}

TEST(PolicyStack, RandomnessOfAMemberDoesNotDependOnTheOthers) {
  const Cluster cluster = toy::cluster();
  const auto first_random = [&cluster](bool alone) {
    toy::ToyBackend backend(cluster, 1);
    auto policy = idle({});
    const Scripted& watched = *policy;
    std::vector<PolicyStack::Member> members;
    if (!alone) {
      members.push_back(member("other", Family::recovery, idle({})));
    }
    members.push_back(member("me", Family::scheduling, std::move(policy)));
    PolicyStack policies(std::move(members));
    run(policies, backend);
    return watched.first_random;
  };
  EXPECT_EQ(first_random(true), first_random(false));
}

TEST(PolicyStack, SavesAndLoadsAllMembers) {
  const Cluster cluster = toy::cluster();
  toy::ToyBackend backend(cluster);
  PolicyStack policies = stack(member("a", Family::scheduling, std::make_unique<toy::ShiftOnce>()),
                               member("b", Family::recovery, std::make_unique<toy::ShiftOnce>()));
  Archive before;
  EXPECT_THROW(run(policies, backend), Error);  // both shift job 0
  policies.save(before);
  PolicyStack again = stack(member("a", Family::scheduling, std::make_unique<toy::ShiftOnce>()),
                            member("b", Family::recovery, std::make_unique<toy::ShiftOnce>()));
  again.load(before);
  Archive after;
  again.save(after);
  EXPECT_EQ(before, after);
  EXPECT_NE(before.find("shifted"), Archive::npos);
  EXPECT_THROW(again.load(before.substr(0, before.size() - 1)), Error);
  EXPECT_THROW(again.load(before + "x"), Error);
}

}  // namespace
}  // namespace orrery
