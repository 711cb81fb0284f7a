#include "policies/handover/hand_over.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "policies/drive.hpp"
#include "policies/recorder.hpp"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

/// Decides the toy's shift at step 12 and again on every refusal, `times` at most; counts outcomes.
class Insistent : public Policy {
 public:
  explicit Insistent(int times = 1) : times_(times) {}
  Needs needs() const override { return {kSteps | kRanks, action_bit(2), toy::kTick}; }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  void observe(Context&, const Observation& seen, DecisionList& decisions) override {
    EXPECT_EQ(seen.sequence, calls++);
    for (const Event& event : seen.events) {
      const auto* outcome = std::get_if<DecisionOutcome>(&event);
      if (outcome != nullptr) outcomes.push_back(*outcome);
    }
    const bool answered = outcomes.size() == std::size_t(taken_);
    if (seen.jobs[0].step < 12 || taken_ == times_ || !answered) return decisions.rest();
    ++taken_;
    Decision& shift = decisions.add(ShiftMicrobatches{{0}, {12, 12, 4, 12}}, "rank 2 is slow");
    shift.effective_at_step = seen.jobs[0].step + 1;
  }

  std::vector<DecisionOutcome> outcomes;
  std::uint64_t calls = 0;

 private:
  int times_, taken_ = 0;
};

/// Answers every question the same, after so many calls.
class Same : public Approver {
 public:
  Same(bool yes, int delay) : yes_(yes), delay_(delay) {}
  void ask(const Decision& decision, Nanos) override {
    asked.push_back(decision.number);
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
  bool shifted() const { return backend.world().jobs()[0].per_replica[2] == 4; }

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
  for (const DecisionOutcome& outcome : run.policy.outcomes) {
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
  EXPECT_EQ(run.policy.outcomes[0].reason, "nobody answered in time");
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

TEST(HandOver, WakeMePassesInEveryMode) {
  class Sleeper : public Policy {
   public:
    Needs needs() const override { return {kSteps, action_bit(Action{WakeMe{}}.index()), 0}; }
    void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
    void observe(Context&, const Observation& seen, DecisionList& decisions) override {
      for (const Event& event : seen.events) {
        const auto* outcome = std::get_if<DecisionOutcome>(&event);
        applied += outcome != nullptr && outcome->status == Outcome::applied ? 1 : 0;
      }
      if (seen.sequence == 3) decisions.add(WakeMe{seen.now + 1}, "");
    }
    int applied = 0;
  } sleeper;
  const Cluster cluster = toy::cluster();
  toy::ToyBackend backend(cluster);
  HandOver handed_over(backend, {.mode = HandOverMode::shadow});
  Rng rng(1);
  Context context{rng, {}};
  drive(sleeper, handed_over, context);
  EXPECT_EQ(sleeper.applied, 1);
}

TEST(HandOver, ModesHaveNames) {
  EXPECT_EQ(hand_over_mode(""), HandOverMode::drive);
  EXPECT_EQ(hand_over_mode("shadow"), HandOverMode::shadow);
  EXPECT_THROW(hand_over_mode("dance"), Error);
}

}  // namespace
}  // namespace orrery
