#include "policies/seam/gate.hpp"

#include <map>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/error.hpp"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

constexpr Capabilities kAll{Kinds<Action>::all(), Kinds<Setting>::all()};
const Shares kShifted{{13, 13, 1, 13}};

/// A backend's side that a test moves by hand: job 0 runs on four of 16 GPUs.
class Stage : public Carrier {
 public:
  explicit Stage(Capabilities offered = kAll, bool agreement = false)
      : gate(world, offered, *this, agreement) {
    JobSpec spec = toy::job();
    spec.least_gpus = 1, spec.most_gpus = 8;
    toy::run_on(world, spec);
  }

  std::string refusal(const Decision& decision) const override {
    return std::holds_alternative<Save>(decision.what) ? refuses_saves : "";
  }
  bool is_step_open(JobId) const override { return open; }
  void emit_event(Event event) override {
    world.apply(event, now);
    if (const auto* outcome = std::get_if<Decided>(&event)) {
      EXPECT_TRUE(outcomes.emplace(outcome->decision, *outcome).second) << "told twice";
    }
  }
  void carry_out(const Decision& decision) override {
    EXPECT_EQ(outcomes.at(decision.id).status, Outcome::applied);
    carried.push_back(decision.id);
  }

  /// Decided in one call; their ids.
  std::vector<DecisionId> take_call(std::vector<Decision> decisions) {
    world.begin_batch();
    DecisionList list;
    std::vector<DecisionId> ids;
    for (Decision& decision : decisions) {
      decision.id = next++;
      ids.push_back(decision.id);
      list.put_decision(std::move(decision));
    }
    gate.accept_decisions(list, now);
    return ids;
  }
  /// The pending assignment is complete.
  void start() {
    open = false;
    world.apply(toy::started(world, 0, Standing(*job().next), job().step), now);
    gate.expire_settings({0});
  }
  /// Taken alone; its id.
  DecisionId take(Decision decision) {
    return take_call({std::move(decision)}).front();
  }
  std::vector<DecisionId> take_group(std::vector<Action> actions) {
    world.begin_batch();
    DecisionList list(next);
    const std::uint32_t group = list.new_group();
    std::vector<DecisionId> ids;
    for (Action& action : actions) {
      Decision& decision = list.add(std::move(action), "");
      decision.group = group;
      ids.push_back(decision.id);
    }
    next = list.next();
    gate.accept_decisions(list, now);
    return ids;
  }
  void end_step() {
    open = false;
    world.apply(StepsDone{{0}, job().step}, now);
    gate.settle_deferred({0}, now);
  }
  void lose(std::uint32_t rank) {
    world.apply(RanksLost{{0}, {{rank}}, {job().epoch.value + 1}}, now);
    gate.expire_settings({0});
  }
  const JobInfo& job() const { return world.jobs()[{0}]; }
  bool told(DecisionId id) const { return outcomes.contains(id); }
  /// "applied", or "rejected: why".
  std::string outcome(DecisionId id) const {
    const auto found = outcomes.find(id);
    if (found == outcomes.end()) return "none yet";
    const Decided& told = found->second;
    const char* names[] = {"applied", "rejected", "expired"};
    const std::string name = names[static_cast<std::size_t>(told.status)];
    return told.reason.empty() ? name : name + ": " + told.reason;
  }

  const Cluster cluster = toy::cluster(4, 4);
  World world{cluster};
  DecisionGate gate;
  Nanos now = 10 * kNanosPerSecond;
  bool open = false;
  std::string refuses_saves;
  std::map<DecisionId, Decided> outcomes;
  std::vector<DecisionId> carried;
  DecisionId next = 0;
};

TEST(DecisionGate, WhatNothingStandsAgainstHoldsAtOnce) {
  Stage stage;
  const DecisionId id = stage.take({.what = Configure{{0}, kShifted}});
  EXPECT_EQ(stage.outcome(id), "applied");
  EXPECT_EQ(stage.job().now.get<Shares>(), kShifted);
  EXPECT_EQ(stage.carried, std::vector<DecisionId>{id});
  EXPECT_FALSE(stage.gate.has_waiting({0}));
}

/// Assignments of one call without other decisions take a shorter path through the gate.
TEST(DecisionGate, AssignmentsAloneHaveTheOutcomesThatTheyHaveBesideASetting) {
  const auto outcomes_of = [](bool beside_a_setting) {
    Stage stage;
    JobSpec spec = toy::job();
    spec.id = {1};
    stage.world.apply(JobSubmitted{spec}, stage.now);
    const Standing two{GpuRuns::range({4}, 2), {.data = 2}},
        four{GpuRuns::range({8}, 4), {.data = 4}};
    std::vector<Decision> decisions{
        {.what = Assign{{1}, GpuRuns::range({0}, 4), four.layout}},   // taken
        {.what = Assign{{1}, four.gpus, four.layout}, .expires = 1},  // expired
        {.what = Assign{{1}, four.gpus, four.layout}},                // applied
        {.what = Assign{{1}, four.gpus, four.layout}},                // assigned already
        {.what = Assign{{0}, two.gpus, two.layout}, .at_step = 9},    // deferred
        {.what = Assign{{7}, two.gpus, two.layout}}};                 // no such job
    if (beside_a_setting) decisions.push_back({.what = Save{{7}}});
    std::vector<std::string> outcomes;
    for (const DecisionId id : stage.take_call(decisions)) outcomes.push_back(stage.outcome(id));
    outcomes.resize(6);
    EXPECT_EQ(stage.carried, std::vector<DecisionId>{2});
    EXPECT_TRUE(stage.gate.has_waiting({0}));
    EXPECT_EQ(stage.world.state().free, 8u);
    return outcomes;
  };
  const std::vector<std::string> alone = outcomes_of(false);
  EXPECT_EQ(alone, outcomes_of(true));
  EXPECT_EQ(alone[0], "rejected: GPU 0 is taken by job 0");
  EXPECT_EQ(alone[1], "expired: it expired at 1e-09 s");
  EXPECT_EQ(alone[2], "applied");
  EXPECT_EQ(alone[4], "none yet");
}

TEST(DecisionGate, ExpiresAfterItsInstantAndNotAtIt) {
  Stage stage;
  const auto outcome = [&stage](Nanos expires) {
    return stage.outcome(stage.take({.what = Save{{0}}, .expires = expires}));
  };
  EXPECT_EQ(outcome(stage.now), "applied");
  EXPECT_EQ(outcome(stage.now - 1), "expired: it expired at 9.999999999 s");
  EXPECT_EQ(stage.carried.size(), 1u);
}

TEST(DecisionGate, WhatWasDecidedForAnotherMembershipExpires) {
  Stage stage;
  const auto outcome = [&stage](std::uint64_t epoch) {
    return stage.outcome(stage.take({.what = Save{{0}}, .if_epoch = Epoch{epoch}}));
  };
  EXPECT_EQ(outcome(1), "applied");
  EXPECT_EQ(outcome(0), "expired: membership has changed");
  stage.lose(3);
  EXPECT_EQ(outcome(1), "expired: membership has changed");
  EXPECT_EQ(outcome(2), "applied");
  EXPECT_EQ(stage.outcome(stage.take({.what = Save{{7}}, .if_epoch = Epoch{1}})),
            "rejected: there is no job 7");
}

TEST(DecisionGate, WhatTheRunDoesNotOfferIsRefused) {
  Stage stage({Kinds<Action>::of<Configure>(), Kinds<Setting>::of<OnLoss>()});
  EXPECT_EQ(stage.outcome(stage.take({.what = Configure{{0}, OnLoss{}}})), "applied");
  EXPECT_EQ(stage.outcome(stage.take({.what = Save{{0}}})),
            "rejected: Save is not carried out in this run");
  EXPECT_EQ(stage.outcome(stage.take({.what = Configure{{0}, kShifted}})),
            "rejected: Shares cannot be set in this run");
}

TEST(DecisionGate, WhatTheJobsProgramOrTheBackendCannotDoIsRefused) {
  Stage stage;
  JobSpec spec = toy::job(1);
  spec.can = Kinds<Setting>::of<Shares>();
  toy::run_on(stage.world, spec, 4);
  EXPECT_EQ(stage.outcome(stage.take({.what = Configure{{1}, CodecRules{}}})),
            "rejected: job 1 cannot change its CodecRules while it runs");
  stage.refuses_saves = "the disk is full";
  EXPECT_EQ(stage.outcome(stage.take({.what = Save{{0}}})), "rejected: the disk is full");
  EXPECT_EQ(stage.outcome(stage.take({.what = Save{{9}}})), "rejected: there is no job 9");
  EXPECT_TRUE(stage.carried.empty());
}

// ---- steps --------------------------------------------------------------------------------

TEST(DecisionGate, WhatChangesStepsWaitsForTheOneUnderWay) {
  Stage stage;
  stage.open = true;
  const DecisionId shares = stage.take({.what = Configure{{0}, kShifted}});
  const DecisionId on_loss = stage.take({.what = Configure{{0}, OnLoss{LossResponse::hold}}});
  EXPECT_EQ(stage.outcome(shares), "none yet");
  EXPECT_TRUE(stage.gate.has_waiting({0}));
  EXPECT_EQ(stage.outcome(on_loss), "applied") << "no step depends on it";
  stage.end_step();
  EXPECT_EQ(stage.outcome(shares), "applied");
  EXPECT_EQ(stage.job().now.get<Shares>(), kShifted);
}

TEST(DecisionGate, ASettingOfALaterStepIsTakenAtOnceAndHoldsThen) {
  Stage stage;
  stage.open = true;
  EXPECT_EQ(stage.outcome(stage.take({.what = Configure{{0}, kShifted}, .at_step = 2})),
            "applied");
  EXPECT_EQ(stage.gate.next_effect({0}, 0), 2u);
  EXPECT_NE(stage.job().now.get<Shares>(), kShifted);
  stage.end_step(), stage.end_step();
  EXPECT_EQ(stage.job().now.get<Shares>(), kShifted);
  EXPECT_EQ(stage.gate.next_effect({0}, 2), DecisionGate::kNoStep);
}

TEST(DecisionGate, AnAssignmentOfALaterStepIsHeldUntilThen) {
  Stage stage;
  stage.open = true;
  const DecisionId id = stage.take({.what = toy::assign(0, 0, 8), .at_step = 2});
  EXPECT_EQ(stage.gate.next_effect({0}, 0), 2u);
  stage.end_step();
  EXPECT_EQ(stage.outcome(id), "none yet");
  EXPECT_EQ(stage.world.state().free, 12u);
  stage.end_step();
  EXPECT_EQ(stage.outcome(id), "applied");
  EXPECT_EQ(stage.world.state().free, 8u);
}

TEST(DecisionGate, WhatIsHeldIsJudgedAgainWhenItsStepComes) {
  Stage stage;
  stage.open = true;
  const DecisionId late = stage.take(
      {.what = toy::assign(0, 0, 8), .at_step = 1, .expires = stage.now + 5});
  const DecisionId taken = stage.take({.what = toy::assign(0, 0, 6), .at_step = 2});
  toy::run_on(stage.world, toy::job(1), 4);
  stage.now += 6;
  stage.end_step();
  EXPECT_EQ(stage.outcome(late), "expired: it expired at 10.000000005 s");
  stage.end_step();
  EXPECT_EQ(stage.outcome(taken), "rejected: GPU 4 is taken by job 1");
}

TEST(DecisionGate, AtOnceIsAtOnceAlsoWithinAStep) {
  Stage stage;
  stage.open = true;
  EXPECT_EQ(stage.outcome(stage.take({.what = toy::assign(0, 0, 8)})), "applied");
}

TEST(DecisionGate, AStepThatHasBegunOrIsPastTakesNothing) {
  Stage stage;
  stage.end_step();
  stage.open = true;
  for (const Action& what : {Action{Configure{{0}, kShifted}}, Action{toy::assign(0, 0, 8)},
                             Action{Configure{{0}, OnLoss{}}}}) {
    EXPECT_EQ(stage.outcome(stage.take({.what = what, .at_step = 1})),
              "rejected: step 1 has begun");
  }
  stage.end_step();
  EXPECT_EQ(stage.outcome(stage.take({.what = Save{{0}}, .at_step = 1})),
            "rejected: step 1 is past: job 0 works on step 2");
  EXPECT_EQ(stage.outcome(stage.take({.what = Configure{{0}, kShifted}, .at_step = 2})), "applied")
      << "no step is open";
}

TEST(DecisionGate, AStepAfterTheLastIsRefused) {
  Stage stage;
  JobSpec spec = toy::job(1);
  spec.steps = 8;
  toy::run_on(stage.world, spec, 4);
  const auto outcome = [&stage](Action what, Step step) {
    return stage.outcome(stage.take({.what = std::move(what), .at_step = step}));
  };
  EXPECT_EQ(outcome(Configure{{1}, kShifted}, 7), "applied");
  for (const Action& what : {Action{Configure{{1}, kShifted}}, Action{Save{{1}}},
                             Action{toy::assign(1, 4, 2)}}) {
    EXPECT_EQ(outcome(what, 8), "rejected: there is no step 8: job 1 has steps 0 to 7");
  }
  EXPECT_EQ(outcome(Configure{{0}, kShifted}, 1000), "applied") << "its number of steps is unknown";
}

TEST(DecisionGate, ALayoutOfNoRanksIsRefused) {
  Stage stage;
  for (const ParallelLayout& layout : {ParallelLayout{.data = 0}, {.tensor = 0, .data = 2}}) {
    EXPECT_EQ(stage.outcome(stage.take({.what = Assign{{0}, toy::gpus(0, 2), layout}})),
              "rejected: the layout has no ranks: each of its sizes must be 1 or more");
  }
}

// ---- agreement ----------------------------------------------------------------------------

TEST(DecisionGate, WhatAllRanksMustFollowIsPutToThemFirst) {
  Stage stage(kAll, true);
  stage.open = true;
  const DecisionId shares = stage.take({.what = Configure{{0}, kShifted}, .at_step = 3});
  const DecisionId on_loss = stage.take({.what = Configure{{0}, OnLoss{}}});
  const DecisionId wrong = stage.take({.what = Configure{{0}, Shares{{40}}}});
  EXPECT_EQ(stage.outcome(on_loss), "applied");
  EXPECT_EQ(stage.outcome(wrong), "rejected: job 0 has 4 replicas, not 1") << "nobody is asked";
  ASSERT_TRUE(stage.gate.has_unagreed());
  const std::vector<Decision> put = stage.gate.drain_unagreed();
  EXPECT_FALSE(stage.gate.has_unagreed());
  ASSERT_EQ(put.size(), 1u);
  EXPECT_EQ(stage.outcome(shares), "none yet");
  stage.gate.apply_agreed(put[0], stage.now);
  EXPECT_EQ(stage.outcome(shares), "applied");
}

TEST(DecisionGate, WithoutAnyRankASettingNeedsNoAgreement) {
  Stage stage(kAll, true);
  for (std::uint32_t rank = 0; rank < stage.job().spec.gpus; ++rank) stage.lose(rank);
  stage.emit_event(JobHeld{{0}});
  const auto table = stage.take(
      {.what = Configure{{0}, CollectiveTable{{.algorithm = CollectiveAlgorithm::ring}}}});
  EXPECT_EQ(stage.outcome(table), "applied");
  EXPECT_FALSE(stage.gate.has_unagreed());
}

TEST(DecisionGate, AnAgreementThatComesTooLateOrNeverIsSaid) {
  Stage stage(kAll, true);
  stage.open = true;
  const DecisionId begun = stage.take({.what = Configure{{0}, kShifted}, .at_step = 1});
  const DecisionId at_once = stage.take({.what = Configure{{0}, kShifted}});
  const DecisionId changed = stage.take({.what = Configure{{0}, CodecRules{}}, .at_step = 9});
  const std::vector<Decision> put = stage.gate.drain_unagreed();
  stage.end_step();
  stage.open = true;
  stage.gate.apply_agreed(put[0], stage.now);
  EXPECT_EQ(stage.outcome(begun), "rejected: step 1 has begun");
  stage.gate.apply_agreed(put[1], stage.now);
  EXPECT_EQ(stage.outcome(at_once), "none yet") << "it holds from the next step on";
  stage.end_step();
  EXPECT_EQ(stage.outcome(at_once), "applied");
  stage.gate.expire_decision(put[2]);
  EXPECT_EQ(stage.outcome(changed), "expired: membership has changed");
}

TEST(DecisionGate, AChangeOfMembershipVoidsWhatWaitsForAStep) {
  for (const bool agreement : {false, true}) {
    Stage stage(kAll, agreement);
    stage.open = true;
    const DecisionId shares = stage.take({.what = Configure{{0}, kShifted}});
    const DecisionId move = stage.take({.what = toy::assign(0, 0, 8), .at_step = 1});
    stage.lose(1);
    EXPECT_EQ(stage.outcome(shares), "expired: membership has changed");
    EXPECT_EQ(stage.outcome(move), "none yet") << "whoever wants that says if_epoch";
    stage.end_step();
    EXPECT_EQ(stage.outcome(move), "applied");
    EXPECT_FALSE(stage.gate.has_unagreed());
  }
}

TEST(DecisionGate, WhatWaitsForAJobThatIsGoneIsRefused) {
  for (const bool agreement : {false, true}) {
    Stage stage(kAll, agreement);
    stage.open = true;
    const DecisionId shares = stage.take({.what = Configure{{0}, kShifted}});
    const DecisionId move = stage.take({.what = toy::assign(0, 0, 8), .at_step = 3});
    const DecisionId ahead = stage.take({.what = Configure{{0}, OnLoss{}}, .at_step = 5});
    EXPECT_EQ(stage.gate.next_effect({0}, 3), 5u);
    stage.world.apply(JobStopped{{0}, 0}, stage.now);
    stage.gate.reject_decisions({0}, stage.now);
    EXPECT_EQ(stage.outcome(shares), "rejected: job 0 is not running");
    EXPECT_EQ(stage.outcome(move), "rejected: job 0 has left");
    EXPECT_EQ(stage.outcome(ahead), "applied");
    EXPECT_EQ(stage.gate.next_effect({0}, 0), DecisionGate::kNoStep);
    EXPECT_FALSE(stage.gate.has_unagreed());
  }
}

TEST(DecisionGate, AtTheEndWhateverWaitsIsRefused) {
  for (const bool agreement : {false, true}) {
    Stage stage(kAll, agreement);
    stage.open = true;
    const DecisionId shares = stage.take({.what = Configure{{0}, kShifted}});
    const DecisionId move = stage.take({.what = toy::assign(0, 0, 8), .at_step = 3});
    stage.gate.close("the run is over");
    EXPECT_EQ(stage.outcome(shares), "rejected: the run is over");
    EXPECT_EQ(stage.outcome(move), "rejected: the run is over");
  }
}

// ---- settings next to an assignment --------------------------------------------------------

const CollectiveTable kTree{{.algorithm = CollectiveAlgorithm::tree}};

TEST(DecisionGate, ASettingNextToAnAssignmentStartsWithItsEpoch) {
  for (const bool agreement : {false, true}) {
    for (const bool before : {false, true}) {
      Stage stage(kAll, agreement);
      stage.open = true;
      std::vector<Decision> call{{.what = toy::assign(0, 0, 3)},
                                 {.what = Configure{{0}, Shares{{19, 11, 10}}}},
                                 {.what = Configure{{0}, kTree}}};
      if (before) std::rotate(call.begin(), call.begin() + 1, call.end());
      for (const DecisionId id : stage.take_call(call)) EXPECT_EQ(stage.outcome(id), "applied");
      EXPECT_FALSE(stage.gate.has_unagreed()) << "the ranks agree on the epoch";
      EXPECT_EQ(stage.job().shares().size(), 4u);
      EXPECT_NE(stage.job().now.get<CollectiveTable>(), kTree);
      stage.start();
      EXPECT_EQ(stage.job().now.get<Shares>(), (Shares{{19, 11, 10}}));
      EXPECT_EQ(stage.job().now.get<CollectiveTable>(), kTree);
    }
  }
}

TEST(DecisionGate, SettingsNextToAnAssignmentAreCheckedAgainstItsLayout) {
  for (const bool agreement : {false, true}) {
    Stage stage(kAll, agreement);
    const auto ids = stage.take_call({{.what = Configure{{0}, kShifted}},
                                      {.what = Configure{{0}, Shares{{40}}}},
                                      {.what = toy::assign(0, 0, 3)}});
    EXPECT_EQ(stage.outcome(ids[0]),
              "rejected: job 0 has 3 replicas after its assignment, not 4");
    EXPECT_EQ(stage.outcome(ids[1]),
              "rejected: job 0 has 3 replicas after its assignment, not 1");
    EXPECT_EQ(stage.outcome(ids[2]), "applied");
    const auto ahead = stage.take_call({{.what = Configure{{0}, kShifted}, .at_step = 5}});
    if (agreement) stage.gate.apply_agreed(stage.gate.drain_unagreed().at(0), stage.now);
    EXPECT_EQ(stage.outcome(ahead[0]), "applied") << "another call: it is for the present ranks";
  }
}

TEST(DecisionGate, NextToARefusedAssignmentASettingIsOnItsOwn) {
  Stage stage;
  const auto ids = stage.take_call({{.what = toy::assign(0, 0, 9)},
                                    {.what = Configure{{0}, kShifted}}});
  EXPECT_EQ(stage.outcome(ids[0]), "rejected: job 0 wants 1 to 8 GPUs, not 9");
  EXPECT_EQ(stage.outcome(ids[1]), "applied");
  EXPECT_EQ(stage.job().now.get<Shares>(), kShifted);
}

/// The batch belonged to an assignment that is refused, and comes after the shares of the group.
TEST(DecisionGate, ASettingOfARefusedAssignmentIsJudgedAtItsPlaceInTheCall) {
  Stage stage;
  Decision grouped{.what = Configure{{0}, kShifted}};
  grouped.group = 1;
  const auto ids = stage.take_call({{.what = toy::assign(0, 0, 9)},
                                    std::move(grouped),
                                    {.what = Configure{{0}, Batch{12}}}});
  EXPECT_EQ(stage.outcome(ids[1]),
            "rejected: decisions of a group are applied at once, not from a step on");
  EXPECT_EQ(stage.outcome(ids[2]), "applied");
}

TEST(DecisionGate, NextToALeavingJobASettingIsRefused) {
  for (const bool agreement : {false, true}) {
    Stage stage(kAll, agreement);
    const auto ids = stage.take_call({{.what = Configure{{0}, kShifted}}, {.what = Assign{{0}}}});
    EXPECT_EQ(stage.outcome(ids[0]), "rejected: job 0 is not running");
    EXPECT_EQ(stage.outcome(ids[1]), "applied");
  }
}

TEST(DecisionGate, ASettingOfAWaitingJobStartsWithIt) {
  Stage stage;
  stage.world.apply(JobSubmitted{toy::job(1)}, 0);
  const auto ids = stage.take_call({{.what = Configure{{1}, OnLoss{LossResponse::hold}}},
                                    {.what = toy::assign(1, 4, 4)}});
  EXPECT_EQ(stage.outcome(ids[0]), "applied");
  stage.world.apply(toy::started(stage.world, 1, Standing(*stage.world.jobs()[{1}].next)), 0);
  EXPECT_EQ(stage.world.jobs()[{1}].now.get<OnLoss>().response, LossResponse::hold);
}

TEST(DecisionGate, ASettingNextToAnAssignmentSurvivesALossBeforeIt) {
  for (const bool agreement : {false, true}) {
    Stage stage(kAll, agreement);
    stage.take_call({{.what = toy::assign(0, 0, 3)},
                     {.what = Configure{{0}, Shares{{20, 20, 0}}}}});
    stage.lose(1);
    stage.start();
    EXPECT_EQ(stage.job().now.get<Shares>(), (Shares{{20, 20, 0}}));
  }
}

TEST(DecisionGate, SettingsOfALaterStepWaitForTheirAssignmentAndFailWithIt) {
  for (const bool agreement : {false, true}) {
    Stage stage(kAll, agreement);
    stage.open = true;
    const auto ids = stage.take_call({{.what = toy::assign(0, 0, 3), .at_step = 2},
                                      {.what = Configure{{0}, Shares{{19, 11, 10}}}, .at_step = 1},
                                      {.what = Configure{{0}, kShifted}}});
    EXPECT_EQ(stage.outcome(ids[2]),
              "rejected: job 0 has 3 replicas after its assignment, not 4");
    stage.end_step();
    stage.lose(3);
    EXPECT_EQ(stage.outcome(ids[1]), "none yet") << "a loss does not void it";
    stage.end_step();
    EXPECT_EQ(stage.outcome(ids[0]), "applied");
    EXPECT_EQ(stage.outcome(ids[1]), "applied");
    stage.start();
    EXPECT_EQ(stage.job().now.get<Shares>(), (Shares{{19, 11, 10}}));
    const auto late = stage.take_call({{.what = toy::assign(0, 0, 8), .at_step = 3},
                                       {.what = Configure{{0}, kTree}}});
    toy::run_on(stage.world, toy::job(1), 4);
    stage.end_step();
    for (const DecisionId id : late) {
      EXPECT_EQ(stage.outcome(id), "rejected: GPU 4 is taken by job 1");
    }
    EXPECT_FALSE(stage.gate.has_unagreed());
  }
}

TEST(DecisionGate, ASettingOfAHeldJobStartsWithItsPendingAssignment) {
  for (const bool agreement : {false, true}) {
    Stage stage(kAll, agreement);
    stage.lose(3);
    stage.world.apply(JobHeld{{0}}, stage.now);
    stage.take({.what = toy::assign(0, 0, 3)});
    const DecisionId shares = stage.take({.what = Configure{{0}, Shares{{19, 11, 10}}}});
    EXPECT_EQ(stage.outcome(shares), "applied");
    stage.start();
    EXPECT_EQ(stage.job().now.get<Shares>(), (Shares{{19, 11, 10}}));
  }
}

TEST(DecisionGate, ANewerAssignmentDropsTheSharesOfTheOneBefore) {
  Stage stage;
  stage.lose(3);
  stage.world.apply(JobHeld{{0}}, stage.now);
  stage.take_call({{.what = toy::assign(0, 0, 4)}, {.what = Configure{{0}, kShifted}},
                   {.what = Configure{{0}, kTree}}});
  const DecisionId newer = stage.take({.what = toy::assign(0, 4, 4)});
  EXPECT_EQ(stage.outcome(newer), "applied");
  EXPECT_EQ(stage.world.state().free, 8u);
  stage.start();
  EXPECT_EQ(stage.job().now.get<CollectiveTable>(), kTree);
  EXPECT_NE(stage.job().now.get<Shares>(), kShifted);
}

// ---- groups -------------------------------------------------------------------------------

TEST(DecisionGate, AGroupMayHoldAnAssignmentAndItsSettings) {
  for (const bool agreement : {false, true}) {
    Stage stage(kAll, agreement);
    const Shares shares{{19, 11, 10}};
    const auto both = stage.take_group({Configure{{0}, shares}, toy::assign(0, 0, 3)});
    EXPECT_EQ(stage.outcome(both[0]), "applied");
    EXPECT_EQ(stage.outcome(both[1]), "applied");
    EXPECT_EQ(stage.carried, both);
    stage.start();
    EXPECT_EQ(stage.job().now.get<Shares>(), (Shares{{19, 11, 10}}));
    const auto none = stage.take_group({Configure{{0}, kShifted}, toy::assign(0, 0, 3)});
    for (const DecisionId id : none) {
      EXPECT_EQ(stage.outcome(id), "rejected: job 0 has 3 replicas after its assignment, not 4");
    }
    EXPECT_FALSE(stage.job().next);
  }
}

TEST(DecisionGate, ASettingNextToAGroupStartsWithItsAssignment) {
  Stage stage(kAll, true);
  const auto ids = stage.take_call({{.what = Configure{{0}, kTree}},
                                    {.what = toy::assign(0, 0, 3), .group = 1},
                                    {.what = Configure{{0}, OnLoss{}}, .group = 1}});
  for (const DecisionId id : ids) EXPECT_EQ(stage.outcome(id), "applied");
  stage.start();
  EXPECT_EQ(stage.job().now.get<CollectiveTable>(), kTree);
}

TEST(DecisionGate, AGroupHoldsTogetherInItsOrder) {
  Stage stage;
  stage.world.apply(JobSubmitted{toy::job(1)}, 0);
  const auto ids = stage.take_group({Assign{{0}}, toy::assign(1, 0, 4)});
  EXPECT_EQ(stage.outcome(ids[0]), "applied");
  EXPECT_EQ(stage.outcome(ids[1]), "applied");
  EXPECT_EQ(stage.carried, ids);
  EXPECT_EQ(stage.world.state().owner[0], JobId{1});
}

TEST(DecisionGate, OrNothingOfItDoes) {
  Stage stage;
  stage.world.apply(JobSubmitted{toy::job(1)}, 0);
  const auto none_holds = [&stage](std::vector<Action> actions, const std::string& why) {
    for (const DecisionId id : stage.take_group(std::move(actions))) {
      EXPECT_EQ(stage.outcome(id), "rejected: " + why);
    }
    EXPECT_TRUE(stage.carried.empty());
    EXPECT_FALSE(stage.job().next);
  };
  none_holds({Assign{{0}}, toy::assign(1, 12, 5)}, "job 1 wants 4 GPUs, not 5");
  none_holds({toy::assign(1, 0, 4), Assign{{0}}}, "GPU 0 is taken by job 0");
  none_holds({Assign{{0}}, toy::assign(0, 4, 4)}, "job 0 is assigned twice");
  none_holds({Configure{{0}, OnLoss{}}, Configure{{0}, kShifted}},
             "decisions of a group are applied at once, not from a step on");
  stage.refuses_saves = "no disk";
  none_holds({Save{{0}}, Assign{{0}}}, "no disk");
  none_holds({Assign{{0}}, Save{{0}}}, "job 0 is not running");
}

TEST(DecisionGate, AGroupWithOneThatExpiredExpires) {
  Stage stage;
  DecisionList list(stage.next);
  list.add(Save{{0}}, "").group = 1;
  Decision& late = list.add(Configure{{0}, OnLoss{}}, "");
  late.group = 1;
  late.expires = stage.now - 1;
  list.add(Save{{0}, Tier::peer}, "");
  stage.gate.accept_decisions(list, stage.now);
  EXPECT_EQ(stage.outcome(0), "expired: it expired at 9.999999999 s");
  EXPECT_EQ(stage.outcome(1), stage.outcome(0));
  EXPECT_EQ(stage.outcome(2), "applied") << "it is in no group";
}

// ---- wakes --------------------------------------------------------------------------------

TEST(DecisionGate, WakesComeOnceAtTheirInstantAndThoseInThePastNow) {
  Stage stage;
  EXPECT_EQ(stage.gate.next_wake(), kNever);
  DecisionList list;
  for (const Nanos at : {stage.now + 7, stage.now + 7, stage.now - 5, Nanos{-1}}) list.wake(at);
  stage.gate.accept_decisions(list, stage.now);
  EXPECT_EQ(stage.gate.next_wake(), stage.now);
  EXPECT_TRUE(stage.gate.pop_due_wakes(stage.now));
  EXPECT_FALSE(stage.gate.pop_due_wakes(stage.now + 6));
  EXPECT_EQ(stage.gate.next_wake(), stage.now + 7);
  EXPECT_TRUE(stage.gate.pop_due_wakes(stage.now + 9));
  EXPECT_EQ(stage.gate.next_wake(), kNever);
}

// ---- exactly one outcome ------------------------------------------------------------------

/// Driver that decides, steps, agrees, loses and ends at random; Stage counts the reported
/// outcomes.
class RandomGate {
 public:
  RandomGate(std::uint64_t seed, bool agreement) : rng_(seed), stage_(kAll, agreement) {}

  void live(int turns) {
    for (int i = 0; i < turns; ++i) {
      stage_.now += below(3);
      switch (below(8)) {
        case 0: return_agreements(); break;
        case 1: running() ? stage_.end_step() : start(); break;
        case 2: stage_.open = running() && !stage_.open; break;
        case 3: below(4) == 0 ? change_membership() : start(); break;
        default: decide(); break;
      }
    }
    for (const Decision& decision : put_) stage_.gate.expire_decision(decision);
    for (const Decision& each : stage_.gate.drain_unagreed()) stage_.gate.expire_decision(each);
    stage_.gate.close("over");
    RC_ASSERT(stage_.outcomes.size() == stage_.next);
  }

 private:
  std::uint32_t below(std::uint64_t bound) { return static_cast<std::uint32_t>(rng_.below(bound)); }
  bool running() const { return stage_.job().phase == JobPhase::running; }

  void return_agreements() {
    for (Decision& decision : stage_.gate.drain_unagreed()) put_.push_back(std::move(decision));
    for (const Decision& decision : std::exchange(put_, {})) {
      if (below(3) == 0) {
        put_.push_back(decision);
      } else if (below(4) == 0) {
        stage_.gate.expire_decision(decision);
      } else {
        stage_.gate.apply_agreed(decision, stage_.now);
      }
    }
  }
  void start() {
    const JobInfo& job = stage_.job();
    if (!job.next) return;
    stage_.open = false;
    if (job.next->gpus.empty()) {
      stage_.world.apply(JobStopped{{0}, job.step}, stage_.now);
      stage_.gate.reject_decisions({0}, stage_.now);
    } else {
      stage_.world.apply(toy::started(stage_.world, 0, Standing(*job.next), job.step), stage_.now);
      stage_.gate.expire_settings({0});
    }
  }
  void change_membership() {
    if (!running()) return;
    const auto ranks = static_cast<std::uint64_t>(stage_.job().gpus.size());
    stage_.lose(below(ranks));
  }
  Action action() {
    const JobId job{below(8) == 0 ? 1u : 0u};
    switch (below(6)) {
      case 0: return Save{job};
      case 1: return Assign{job};
      case 2: return toy::assign(job.value, below(4), 1 + below(8));
      case 3: return Configure{job, OnLoss{}};
      case 4: return Configure{job, CodecRules{}};
      default: return Configure{job, Shares{even_split(40, 1 + below(8))}};
    }
  }
  void decide() {
    DecisionList list(stage_.next);
    for (std::uint64_t i = 1 + below(4); i > 0; --i) {
      Decision& decision = list.add(action(), "");
      if (below(2) == 0) decision.at_step = stage_.job().step + below(4);
      if (below(4) == 0) decision.if_epoch = stage_.job().epoch;
      if (below(4) == 0) decision.expires = stage_.now + below(4);
      decision.group = below(3);
    }
    if (below(4) == 0) list.wake(stage_.now);
    stage_.next = list.next();
    stage_.world.begin_batch();
    stage_.gate.accept_decisions(list, stage_.now);
  }

  Rng rng_;
  Stage stage_;
  std::vector<Decision> put_;
};

RC_GTEST_PROP(DecisionGateProperty, EveryDecisionIsToldOnce, (std::uint64_t seed, bool agreement)) {
  RandomGate(seed, agreement).live(200);
}

}  // namespace
}  // namespace orrery
