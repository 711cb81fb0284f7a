#include "policies/handover/hand_over.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "policies/seam/drive.hpp"
#include "policies/record/recorder.hpp"
#include "tests/policies/replayed.hpp"

namespace orrery {
namespace {

/// Decides the toy's shift at step 12 and again on every refusal, `times` at most; counts outcomes.
class Insistent : public Policy {
 public:
  explicit Insistent(int times = 1) : times_(times) {}
  Needs needs() const override { return toy::setting<Shares>(toy::kTick); }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  void observe(Context&, const Observation& seen, DecisionList& decisions) override {
    EXPECT_EQ(seen.sequence, calls++);
    for (const Event& event : seen.events) {
      const auto* outcome = std::get_if<Decided>(&event);
      if (outcome != nullptr) outcomes.push_back(*outcome);
    }
    const bool answered = outcomes.size() == std::size_t(taken_);
    if (seen.jobs[{0}].step < 12 || taken_ == times_ || !answered) return decisions.rest();
    ++taken_;
    decisions.add(Configure{{0}, Shares{{12, 12, 4, 12}}}, "rank 2 is slow").at_step =
        seen.jobs[{0}].step + 1;
  }

  std::vector<Decided> outcomes;
  std::uint64_t calls = 0;

 private:
  int times_, taken_ = 0;
};

/// Answers every question the same, after so many calls.
class Same : public Approver {
 public:
  Same(bool yes, int delay) : yes_(yes), delay_(delay) {}
  void request_approval(const Decision& decision, Nanos) override {
    asked.push_back(decision.id);
    due_ = delay_;
  }
  std::vector<Verdict> verdicts() override {
    if (due_ < 0 || due_-- > 0) return {};
    return {{asked.back(), yes_, yes_ ? "" : "not today"}};
  }
  std::vector<std::uint64_t> asked;

 private:
  bool yes_;
  int delay_, due_ = -1;
};

struct ToyRun {
  explicit ToyRun(HandOverRules rules, int decisions = 1) : policy(decisions) {
    HandOver handed_over(backend, std::move(rules));
    Rng rng(1);
    Context context{rng, {}};
    drive(policy, handed_over, context);
    handed_over.fill(report);
  }
  bool shifted() const { return backend.world().jobs()[{0}].shares()[2] == 4; }

  const Cluster cluster = toy::cluster();
  toy::ToyBackend backend{cluster};
  Insistent policy;
  HandOverReport report;
};

TEST(HandOver, DrivingPassesDecisionsOn) {
  const ToyRun run({});
  EXPECT_TRUE(run.shifted());
  EXPECT_EQ(run.report.mode(), "drive");
  EXPECT_EQ(run.report.passed_on(), 1u);
  ASSERT_EQ(run.policy.outcomes.size(), 1u);
  EXPECT_EQ(run.policy.outcomes[0].status, Outcome::applied);
}

TEST(HandOver, AShadowAppliesNothingAnswersEachDecisionAndScoresIt) {
  const ToyRun run({.mode = HandOverMode::shadow}, 3);
  EXPECT_FALSE(run.shifted());
  EXPECT_EQ(run.report.only_watched(), 3u);
  EXPECT_EQ(run.report.passed_on(), 0u);
  ASSERT_EQ(run.policy.outcomes.size(), 3u);
  for (const Decided& outcome : run.policy.outcomes) {
    EXPECT_EQ(outcome.status, Outcome::rejected);
    EXPECT_NE(outcome.reason.find("shadow"), std::string::npos);
  }
  // 10 x 30 ms as it was, 4 x 30 ms or 12 x 10 ms as decided.
  const ShadowSummary& summary = run.report.shadow();
  EXPECT_EQ(summary.better(), summary.scored());
  EXPECT_GE(summary.steps(), 20u);
  EXPECT_NEAR(summary.as_decided_s() / summary.as_it_was_s(), 0.4, 0.02);
  EXPECT_NEAR(summary.as_it_was_s() / summary.measured_s(), 1, 0.02);
}

TEST(HandOver, AnAcceptedDecisionIsAppliedARefusedOneIsNot) {
  Same yes(true, 0), no(false, 0);
  const ToyRun accepted({.mode = HandOverMode::approve, .approver = &yes});
  EXPECT_TRUE(accepted.shifted());
  EXPECT_EQ(accepted.report.passed_on(), 1u);
  const ToyRun refused({.mode = HandOverMode::approve, .approver = &no});
  EXPECT_FALSE(refused.shifted());
  EXPECT_EQ(refused.report.refused(), 1u);
  ASSERT_EQ(refused.policy.outcomes.size(), 1u);
  EXPECT_EQ(refused.policy.outcomes[0].reason, "refused: not today");
}

TEST(HandOver, AnAnswerThatComesStepsLaterStillHolds) {
  Same slow(true, 60);
  const ToyRun run({.mode = HandOverMode::approve, .approver = &slow});
  EXPECT_TRUE(run.shifted());
  ASSERT_EQ(run.policy.outcomes.size(), 1u);
  EXPECT_EQ(run.policy.outcomes[0].status, Outcome::applied);
}

TEST(HandOver, WithoutAnAnswerInTimeItIsANo) {
  Same never(true, 1 << 20);
  const ToyRun run(
      {.mode = HandOverMode::approve, .patience = kNanosPerSecond, .approver = &never});
  EXPECT_FALSE(run.shifted());
  EXPECT_EQ(run.report.refused(), 1u);
  ASSERT_EQ(run.policy.outcomes.size(), 1u);
  EXPECT_EQ(run.policy.outcomes[0].reason, "no answer came in time");
}

TEST(HandOver, TheLimitHoldsWithinAnHour) {
  const ToyRun run({.per_hour = 2}, 5);
  EXPECT_EQ(run.report.passed_on(), 2u);
  EXPECT_EQ(run.report.over_the_limit(), 3u);
  EXPECT_EQ(run.policy.outcomes.size(), 5u);
}

TEST(HandOver, TheKillSwitchEndsWhatPoliciesCanDo) {
  const ToyRun run({.stopped = [] { return true; }}, 2);
  EXPECT_FALSE(run.shifted());
  EXPECT_EQ(run.report.stopped(), 2u);
  Same never(true, 1 << 20);
  int looks = 0;
  const ToyRun open({.mode = HandOverMode::approve, .approver = &never,
                  .stopped = [&] { return !never.asked.empty() && ++looks > 3; }});
  EXPECT_EQ(open.report.stopped(), 1u);  // the question that was open
  EXPECT_FALSE(open.shifted());
}

TEST(HandOver, WakesPassInEveryMode) {
  class Sleeper : public Policy {
   public:
    Needs needs() const override { return {}; }
    void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
    void observe(Context&, const Observation& seen, DecisionList& decisions) override {
      if (seen.now == wanted) ++woken;
      if (seen.sequence == 3) decisions.wake(wanted = seen.now + 1);
    }
    Nanos wanted = -1;
    int woken = 0;
  } sleeper;
  const Cluster cluster = toy::cluster();
  toy::ToyBackend backend(cluster);
  HandOver handed_over(backend, {.mode = HandOverMode::shadow});
  Rng rng(1);
  Context context{rng, {}};
  drive(sleeper, handed_over, context);
  EXPECT_EQ(sleeper.woken, 1);
}

/// Policy that decides twice at step 5, of which one decision is refused, and records the effect of
/// the other.
class TwoAtOnce : public Policy {
 public:
  Needs needs() const override { return toy::setting<OnLoss>(toy::kTick); }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  void observe(Context&, const Observation& seen, DecisionList& decisions) override {
    const JobInfo& job = seen.jobs[{0}];
    seen_ += std::to_string(static_cast<int>(job.now.get<OnLoss>().response));
    for (const Event& event : seen.events) seen_ += std::to_string(event.index());
    if (job.step != 5 || decided_) return;
    decided_ = true;
    decisions.add(Configure{{0}, OnLoss{LossResponse::hold}}, "");
    decisions.add(Configure{{0}, CheckpointPlan{}}, "");
  }
  void save(Archive& archive) const override { archive = seen_; }

 private:
  std::string seen_;
  bool decided_ = false;
};

TEST(HandOver, ARefusalIsShownWithTheWorldThatItsEventsLeadTo) {
  const toy::TempDir dir;
  const Cluster cluster = toy::cluster();
  toy::ToyBackend backend(cluster);
  HandOver handed_over(backend, {.per_hour = 1});
  TwoAtOnce policy, again;
  Recorder recorder(handed_over, policy, LogHeader{}, {.path = dir / "log"});
  Rng rng = policy_rng(1);
  Context context{rng, {}};
  EXPECT_EQ(drive(policy, recorder, context), 2u);
  recorder.finish_log();
  EXPECT_EQ(toy::replay_to(again, dir / "log", cluster), "");
}

TEST(HandOver, WhatIsDecidedOnTheLastObservationIsAnsweredToo) {
  class Late : public Policy {
   public:
    Needs needs() const override { return toy::setting<Shares>(); }
    void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
    void observe(Context&, const Observation& seen, DecisionList& decisions) override {
      for (const Event& event : seen.events) {
        if (const auto* told = std::get_if<Decided>(&event)) reasons.push_back(told->reason);
      }
      if (seen.jobs[{0}].step == 40 && asked++ < 2) decisions.add(Save{{0}}, "");
    }
    std::vector<std::string> reasons;
    int asked = 0;
  } policy;
  const Cluster cluster = toy::cluster();
  toy::ToyBackend backend(cluster);
  HandOver handed_over(backend, {.mode = HandOverMode::shadow});
  Rng rng(1);
  Context context{rng, {}};
  EXPECT_EQ(drive(policy, handed_over, context), 2u);
  EXPECT_EQ(policy.reasons, (std::vector<std::string>{"shadow mode: observed, not applied",
                                                      "the run is over"}));
}

TEST(HandOver, AnotherModeRefusesTheQuestionsAndHoldsForLaterDecisions) {
  /// Changes the mode to drive at step 20, while its first decision waits for an answer.
  struct Switching : Insistent {
    Switching() : Insistent(2) {}
    void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
      Insistent::observe(context, seen, decisions);
      if (seen.jobs[{0}].step >= 20) hand_over->set_mode(HandOverMode::drive);
    }
    HandOver* hand_over = nullptr;
  } policy;
  Same silent(true, 1'000'000);
  const Cluster cluster = toy::cluster();
  toy::ToyBackend backend(cluster);
  HandOver hand_over(backend, {.mode = HandOverMode::approve, .approver = &silent});
  policy.hand_over = &hand_over;
  Rng rng(1);
  Context context{rng, {}};
  drive(policy, hand_over, context);
  ASSERT_EQ(policy.outcomes.size(), 2u);
  EXPECT_EQ(policy.outcomes[0].status, Outcome::rejected);
  EXPECT_EQ(policy.outcomes[0].reason, "the mode is now drive");
  EXPECT_EQ(policy.outcomes[1].status, Outcome::applied);
  EXPECT_EQ(silent.asked.size(), 1u);
  EXPECT_EQ(backend.world().jobs()[{0}].shares()[2], 4u);
  EXPECT_THROW(HandOver(backend, {}).set_mode(HandOverMode::approve), Error);
}

TEST(HandOver, KnowsTheDecisionsOfItsBackendAndItsOwn) {
  struct Ahead : toy::ToyBackend {
    using ToyBackend::ToyBackend;
    DecisionId decided_before() const override { return 7; }
  };
  const Cluster cluster = toy::cluster();
  Ahead backend(cluster);
  HandOver hand_over(backend, {.mode = HandOverMode::drive});
  hand_over.begin({});
  EXPECT_EQ(hand_over.decided_before(), 7u);
  ASSERT_TRUE(hand_over.next());
  hand_over.apply(DecisionList(9));
  EXPECT_EQ(hand_over.decided_before(), 9u);

  Ahead ahead(cluster);
  HandOver behind(ahead, {.mode = HandOverMode::drive});
  behind.begin({});
  ASSERT_TRUE(behind.next());
  behind.apply(DecisionList(3));
  const std::optional<std::string> saved = behind.save();
  ASSERT_TRUE(saved);
  toy::ToyBackend plain(cluster);
  HandOver successor(plain, {.mode = HandOverMode::drive});
  successor.begin({});
  successor.load(*saved);
  EXPECT_EQ(successor.decided_before(), 7u) << "its backend has forgotten them";
}

TEST(HandOver, ModesHaveNames) {
  EXPECT_EQ(hand_over_mode(""), HandOverMode::drive);
  EXPECT_EQ(hand_over_mode("shadow"), HandOverMode::shadow);
  EXPECT_THROW(hand_over_mode("dance"), Error);
}

}  // namespace
}  // namespace orrery
