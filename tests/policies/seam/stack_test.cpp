#include "policies/seam/stack.hpp"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "policies/parameters.pb.h"
#include "tests/policies/scripted.hpp"

namespace orrery {
namespace {

using toy::failure_of;
using toy::idle;
using toy::run;
using toy::Scripted;
using toy::Witness;

PolicyStack::Member member(std::string name, std::unique_ptr<Policy> policy) {
  return {.name = std::move(name), .policy = std::move(policy), .parameters = nullptr};
}

template <class... Members>
PolicyStack stack(Members... members) {
  std::vector<PolicyStack::Member> list;
  (list.push_back(std::move(members)), ...);
  return PolicyStack(std::move(list));
}

TEST(PolicyStack, NeedsAreTheUnionAndTicksTheShortest) {
  PolicyStack policies = stack(member("a", idle(toy::setting<Shares>(500))),
                               member("b", idle({Kinds<Action>::of<Save>(), {}, 0})),
                               member("c", idle(toy::setting<OnLoss>(200))));
  EXPECT_EQ(policies.needs().actions, (Kinds<Action>::of<Configure, Save>()));
  EXPECT_EQ(policies.needs().settings, (Kinds<Setting>::of<Shares, OnLoss>()));
  EXPECT_EQ(policies.needs().tick, 200);
}

TEST(PolicyStack, KindsAndPartsAreKnownIfAllMembersThatStartJobsKnowThem) {
  const auto starting = [](bool kinds, bool parts) {
    return idle({.actions = Kinds<Action>::of<Assign>(),
                 .settings = {},
                 .gpu_kinds = kinds,
                 .gpu_parts = parts});
  };
  const Needs one = stack(member("a", starting(true, false)),
                          member("b", idle({Kinds<Action>::of<Save>(), {}, 0})))
                        .needs();
  EXPECT_TRUE(one.gpu_kinds) << "b starts no job";
  EXPECT_FALSE(one.gpu_parts);
  const Needs two =
      stack(member("a", starting(true, true)), member("b", starting(false, true))).needs();
  EXPECT_FALSE(two.gpu_kinds) << "b does not know them";
  EXPECT_TRUE(two.gpu_parts);
}

TEST(PolicyStack, MembersAreAskedInTheOrderOfTheListAndKnowTheirDecisions) {
  const Cluster cluster = toy::cluster();
  Witness backend(cluster, 2);
  auto one =
      std::make_unique<Scripted>(Needs{}, std::vector<Action>{Save{{0}}, Configure{{0}, OnLoss{}}});
  auto two = std::make_unique<Scripted>(Needs{}, std::vector<Action>{});
  auto three =
      std::make_unique<Scripted>(Needs{}, std::vector<Action>{Configure{{0}, CodecRules{}}});
  const Scripted &first = *one, &second = *two, &third = *three;
  PolicyStack policies = stack(member("z", std::move(one)), member("a", std::move(two)),
                               member("m", std::move(three)));
  EXPECT_EQ(policies.members()[0].name, "z");
  Scripted::order().clear();
  EXPECT_EQ(run(policies, backend), 3u);
  EXPECT_EQ(Scripted::order(), (std::vector<const Scripted*>{&first, &second, &third}));
  EXPECT_EQ(first.ids, (std::vector<DecisionId>{0, 1}));
  EXPECT_EQ(third.ids, std::vector<DecisionId>{2});
  EXPECT_EQ(backend.ids, (std::vector<DecisionId>{0, 1, 2}));
  for (const Scripted* each : {&first, &second, &third}) EXPECT_EQ(each->outcomes.size(), 3u);
}

TEST(PolicyStack, GroupsOfMembersStayApart) {
  class Grouping : public Scripted {
   public:
    explicit Grouping(Tier tier) : Scripted({}, {}), tier_(tier) {}
    void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
      Scripted::observe(context, seen, decisions);
      const std::uint32_t group = decisions.new_group();
      decisions.add(Save{{static_cast<std::uint32_t>(tier_)}, tier_}, "").group = group;
      decisions.add(Save{{9 + static_cast<std::uint32_t>(tier_)}, tier_}, "").group = group;
    }

   private:
    Tier tier_;
  };
  const Cluster cluster = toy::cluster();
  PolicyStack policies = stack(member("a", std::make_unique<Grouping>(Tier::memory)),
                               member("b", std::make_unique<Grouping>(Tier::peer)));
  Rng rng(1);
  Context context{rng, {}};
  policies.start(context, cluster, nullptr);
  const World world(cluster);
  NoSamples samples;
  DecisionList decisions;
  policies.observe(context, toy::seen_of(world, {}, samples), decisions);
  std::vector<std::uint32_t> groups;
  for (const Decision& decision : decisions.items()) groups.push_back(decision.group);
  EXPECT_EQ(groups, (std::vector<std::uint32_t>{1, 1, 2, 2}));
}

TEST(PolicyStack, TwoDecisionsOnOneSubjectNameBothMembers) {
  const Cluster cluster = toy::cluster();
  const auto conflict = [&cluster](std::vector<Action> one, std::vector<Action> two) {
    toy::ToyBackend backend(cluster);
    PolicyStack policies =
        stack(member("one", std::make_unique<Scripted>(Needs{}, std::move(one))),
              member("two", std::make_unique<Scripted>(Needs{}, std::move(two))));
    return failure_of(policies, backend);
  };
  const Configure rules{{0}, CodecRules{}}, table{{0}, CollectiveTable{}};
  EXPECT_EQ(conflict({Save{{0}}}, {Save{{0}, Tier::peer}}),
            "the policies 'one' and 'two' both decide Save of job 0 at 0.1 s");
  EXPECT_EQ(conflict({rules}, {table, rules}),
            "the policies 'one' and 'two' both decide CodecRules of job 0 at 0.1 s");
  EXPECT_EQ(conflict({Assign{{3}}}, {Assign{{3}}}),
            "the policies 'one' and 'two' both decide Assign of job 3 at 0.1 s");
  EXPECT_EQ(conflict({rules, Save{{0}}, Assign{{0}}}, {table, Save{{1}}, Assign{{1}}}), "no error");
  EXPECT_EQ(conflict({rules, rules}, {table}), "no error") << "its own business";
}

TEST(PolicyStack, RestsOnlyWhenAllDo) {
  const Cluster cluster = toy::cluster();
  const auto rests = [&cluster](bool first, bool second) {
    Witness backend(cluster, 2);
    PolicyStack policies = stack(member("a", idle({}, first)), member("b", idle({}, second)));
    run(policies, backend);
    return backend.rests;
  };
  EXPECT_GT(rests(true, true), 0);
  EXPECT_EQ(rests(true, false), 0);
  EXPECT_EQ(rests(false, true), 0);
}

TEST(PolicyStack, AnAnnotationOfACallThatIsUndoneIsDropped) {
  class Noting : public Scripted {
   public:
    Noting() : Scripted({}, {}) {}
    void observe(Context&, const Observation& seen, DecisionList& decisions) override {
      seen.samples.ranks({0});
      decisions.add_note("calls", 1.0);
    }
  };
  const Cluster cluster = toy::cluster();
  const World world(cluster);
  NoSamples samples;
  PolicyStack policies = stack(member("a", std::make_unique<Noting>()));
  Rng rng(1);
  Context context{rng, {}};
  policies.start(context, cluster, nullptr);
  for (const bool resting : {false, true}) {
    DecisionList decisions;
    decisions.add_note("of another", 0.0);
    policies.observe(context,
                     Observation{.now = 0,
                                 .sequence = 0,
                                 .events = {},
                                 .cluster = cluster,
                                 .state = world.state(),
                                 .jobs = world.jobs(),
                                 .samples = samples,
                                 .resting = resting},
                     decisions);
    EXPECT_EQ(decisions.notes().size(), resting ? 1u : 2u);
  }
}

TEST(PolicyStack, ARestingPolicyDecidesNothingBySamplesOfKnownSteps) {
  class Deciding : public Scripted {
   public:
    Deciding(bool looks, bool by_durations, Nanos tick)
        : Scripted({.actions = {}, .settings = {}, .tick = tick, .step_times = by_durations}, {}),
          looks_(looks) {}
    void observe(Context&, const Observation& seen, DecisionList& decisions) override {
      if (looks_) seen.samples.ranks({0});
      decisions.add(Save{{0}}, "because");
      decisions.wake(7);
    }

   private:
    bool looks_;
  };
  const Cluster cluster = toy::cluster();
  const World world(cluster);
  const auto decides = [&](bool looks, bool by_durations, bool resting, Nanos tick = 50) {
    NoSamples samples;
    PolicyStack policies =
        stack(member("a", std::make_unique<Deciding>(looks, by_durations, tick)));
    Rng rng(1);
    Context context{rng, {}};
    policies.start(context, cluster, nullptr);
    DecisionList decisions(5);
    policies.observe(context,
                     Observation{.now = 0,
                                 .sequence = 0,
                                 .events = {},
                                 .cluster = cluster,
                                 .state = world.state(),
                                 .jobs = world.jobs(),
                                 .samples = samples,
                                 .resting = resting},
                     decisions);
    EXPECT_EQ(decisions.items().size(), decisions.wake_times().size());
    EXPECT_EQ(decisions.next(), 5 + decisions.items().size()) << "its number is free again";
    EXPECT_EQ(decisions.is_resting(), decisions.items().empty());
    return !decisions.items().empty();
  };
  EXPECT_TRUE(decides(true, false, false));
  EXPECT_FALSE(decides(true, false, true)) << "a simulation that skips ahead would not ask it";
  EXPECT_TRUE(decides(false, false, true)) << "by events, which it gets in both cases";
  EXPECT_TRUE(decides(true, true, true)) << "by durations, of which it is told one by one";
  EXPECT_TRUE(decides(true, false, true, 0)) << "no tick showed it noise: it broke its promise";
}

TEST(PolicyStack, RandomnessOfAMemberDoesNotDependOnTheOthers) {
  const Cluster cluster = toy::cluster();
  const auto first_random = [&cluster](bool alone) {
    toy::ToyBackend backend(cluster, 1);
    auto policy = idle({});
    const Scripted& watched = *policy;
    std::vector<PolicyStack::Member> members;
    if (!alone) {
      members.push_back(member("other", idle({})));
    }
    members.push_back(member("me", std::move(policy)));
    PolicyStack policies(std::move(members));
    run(policies, backend);
    return watched.first_random;
  };
  EXPECT_EQ(first_random(true), first_random(false));
}

TEST(PolicyStack, SavesAndLoadsAllMembers) {
  const Cluster cluster = toy::cluster();
  toy::ToyBackend backend(cluster);
  PolicyStack policies = stack(member("a", std::make_unique<toy::ShiftOnce>()),
                               member("b", std::make_unique<toy::ShiftOnce>()));
  Archive before;
  EXPECT_THROW(run(policies, backend), Error);  // both shift job 0
  policies.save(before);
  PolicyStack again = stack(member("a", std::make_unique<toy::ShiftOnce>()),
                            member("b", std::make_unique<toy::ShiftOnce>()));
  again.load(before);
  Archive after;
  again.save(after);
  EXPECT_EQ(before, after);
  EXPECT_NE(before.find("shifted"), Archive::npos);
  EXPECT_THROW(again.load(before.substr(0, before.size() - 1)), Error);
  EXPECT_THROW(again.load(before + "x"), Error);
}

/// Counts its calls, and by how much a parameter says.
class Counting : public Policy {
 public:
  Needs needs() const override { return {}; }
  void start(Context&, const Cluster&, const google::protobuf::Message* given) override {
    by_ = dynamic_cast<const PredictiveRebalanceParameters&>(*given).cooldown_steps();
  }
  void observe(Context&, const Observation&, DecisionList&) override { count_ += by_; }
  void save(Archive& archive) const override { archive = std::to_string(count_); }
  void load(const Archive& archive) override { count_ = std::stoul(archive); }

 private:
  unsigned long by_ = 0, count_ = 0;
};

std::unique_ptr<Policy> another() { return std::make_unique<Counting>(); }

PolicyStack counting() {
  auto parameters = std::make_unique<PredictiveRebalanceParameters>();
  parameters->set_cooldown_steps(1);
  std::vector<PolicyStack::Member> members;
  members.push_back({.name = "counting",
                     .policy = another(),
                     .parameters = std::move(parameters),
                     .make = another});
  return PolicyStack(std::move(members));
}

TEST(PolicyStack, AParameterThatIsSetCountsFromThenOnWithTheStateOfBefore) {
  const Cluster cluster = toy::cluster();
  const World world(cluster);
  NoSamples samples;
  Rng rng(1);
  Context context{rng, {}};
  PolicyStack policies = counting(), others = counting();
  policies.start(context, cluster, nullptr);
  others.start(context, cluster, nullptr);
  const auto show = [&](PolicyStack& to, const std::vector<Event>& events) {
    DecisionList decisions(0);
    to.observe(context, toy::seen_of(world, events, samples, 0, 0), decisions);
    Archive saved;
    to.members()[0].policy->save(saved);
    return saved;
  };
  EXPECT_EQ(show(policies, {Tick{}}), "1");
  EXPECT_EQ(show(policies, {ParameterSet{"another", "cooldown_steps", "50"}}), "2");
  EXPECT_EQ(show(policies, {ParameterSet{"counting", "cooldown_steps", "10"}}), "12");
  Archive all;
  policies.save(all);
  others.load(all);  // in the process that goes on, of the scenario's parameters
  EXPECT_EQ(show(others, {Tick{}}), "22");
  EXPECT_EQ(show(policies, {Tick{}}), "22");
  others.load(all);  // again: the changes are those of the archive, once
  Archive again;
  others.save(again);
  EXPECT_EQ(again, all);
  EXPECT_THROW(show(policies, {ParameterSet{"counting", "cooldown_steps", "none"}}), Error);
}

}  // namespace
}  // namespace orrery
