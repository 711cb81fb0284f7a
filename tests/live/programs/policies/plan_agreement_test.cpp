#include "live/programs/policies/plan_agreement.hpp"

#include <utility>

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

using Message = std::pair<std::size_t, Fields>;

/// Agreement with the messages that it has sent.
struct Ranks {
  std::vector<Message> sent;
  PlanAgreement plans{
      [this](std::size_t rank, const Fields& fields) { sent.emplace_back(rank, fields); }};
};

TEST(PlanAgreement, APlanIsCommittedOnceAllHaveAccepted) {
  Ranks ranks;
  const std::uint64_t number = ranks.plans.propose_plan("every", 7, "text", {0, 2});
  EXPECT_EQ(ranks.sent[1], (Message{2, {"propose", "1", "7", "text"}}));
  EXPECT_TRUE(ranks.plans.handle_message(0, {"accepted", "1", "5"}));
  EXPECT_TRUE(ranks.plans.drain_answers().empty());
  ranks.plans.handle_message(2, {"accepted", "1", "6"});
  const auto answers = ranks.plans.drain_answers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(answers[0].is_accepted);
  ranks.plans.commit_plan(number);
  EXPECT_EQ(ranks.sent.back(), (Message{2, {"commit", "1"}}));
}

TEST(PlanAgreement, ALateRankVoidsThePlanForAll) {
  Ranks ranks;
  ranks.plans.propose_plan("every", 7, "text", {0, 1});
  ranks.plans.handle_message(0, {"accepted", "1", "5"});
  ranks.plans.handle_message(1, {"late", "1", "8"});
  const auto answers = ranks.plans.drain_answers();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_FALSE(answers[0].is_accepted);
  EXPECT_EQ(answers[0].late_step, 8u);
  EXPECT_EQ(ranks.sent.back(), (Message{1, {"withdraw", "1"}}));
  EXPECT_FALSE(ranks.plans.handle_message(0, {"done", "1"}));
}

TEST(PlanAgreement, AChangeOfMembersVoidsAllOpenPlans) {
  Ranks ranks;
  ranks.plans.propose_plan("every", 7, "a", {0, 1});
  ranks.plans.propose_plan("shares", 8, "b", {0, 1});
  ranks.plans.handle_message(0, {"accepted", "1", "5"});
  ranks.plans.handle_message(1, {"accepted", "1", "5"});
  EXPECT_EQ(ranks.plans.withdraw_all(), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_TRUE(ranks.plans.drain_answers().empty());
  const std::size_t sent = ranks.sent.size();
  ranks.plans.commit_plan(1);
  EXPECT_EQ(ranks.sent.size(), sent);
}

TEST(PlanAgreement, ANewProcessGetsTheNewestPlanOfEachKind) {
  Ranks ranks;
  for (const std::uint64_t step : {3, 5, 9}) {
    const auto number = ranks.plans.propose_plan("every", step, std::to_string(step), {0});
    ranks.plans.commit_plan(number);
  }
  ranks.sent.clear();
  ranks.plans.begin_rank(1, 6);
  EXPECT_EQ(ranks.sent, (std::vector<Message>{
                            {1, {"plan", "5", "5"}}, {1, {"plan", "9", "9"}}, {1, {"begin"}}}));
}

}  // namespace
}  // namespace orrery::live
