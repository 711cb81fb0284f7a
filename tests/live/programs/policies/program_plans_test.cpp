#include "live/programs/policies/program_plans.hpp"

#include <utility>

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

using Message = std::pair<std::size_t, Fields>;

/// Plans of a program, with the messages to its ranks.
struct Program {
  std::vector<Message> sent;
  ProgramPlans plans{
      [this](std::size_t rank, const Fields& fields) { sent.emplace_back(rank, fields); }};

  void answer(const char* kind, const char* number, const char* begun) {
    for (const std::size_t rank : {0, 1}) plans.handle_message(rank, {kind, number, begun});
  }
};

TEST(ProgramPlans, ALateChangeIsProposedAgainFurtherAhead) {
  Program program;
  program.plans.propose_soon("every", "every 5", {{0, 1}, 10});
  EXPECT_EQ(program.sent.front(), (Message{0, {"propose", "1", "12", "every 5"}}));
  program.answer("late", "1", "13");
  program.sent.clear();
  EXPECT_TRUE(program.plans.settle_answers({{0, 1}, 13}).empty());
  EXPECT_EQ(program.sent.front(), (Message{0, {"propose", "2", "17", "every 5"}}));
  program.answer("accepted", "2", "14");
  program.plans.settle_answers({{0, 1}, 14});
  EXPECT_EQ(program.sent.back(), (Message{1, {"commit", "2"}}));
}

TEST(ProgramPlans, OfOneKindTheNewestChangeCounts) {
  Program program;
  program.plans.propose_soon("every", "every 5", {{0}, 0});
  program.plans.propose_soon("every", "every 9", {{0}, 0});
  EXPECT_EQ(program.sent[1], (Message{0, {"withdraw", "1"}}));
  EXPECT_EQ(program.sent[2], (Message{0, {"propose", "2", "2", "every 9"}}));
}

TEST(ProgramPlans, AChangeOfMembersRepeatsChangesAndReturnsDecisions) {
  Program program;
  Decision decision{.id = 3, .what = Configure{{0}, Shares{{1, 3}}}, .at_step = 8};
  program.plans.propose_soon("save", "save", {{0, 1}, 5});
  program.plans.propose_decision(decision, "shares", "shares 0:1 1:3", {{0, 1}, 5});
  EXPECT_EQ(program.sent.back(), (Message{1, {"propose", "2", "8", "shares 0:1 1:3"}}));
  const std::vector<Decision> void_ones = program.plans.withdraw_all();
  ASSERT_EQ(void_ones.size(), 1u);
  EXPECT_EQ(void_ones[0].id, 3u);
  program.sent.clear();
  program.plans.settle_answers({{1}, 6});
  EXPECT_EQ(program.sent, (std::vector<Message>{{1, {"propose", "3", "8", "save"}}}));
}

TEST(ProgramPlans, ADecisionWithoutAStepIsProposedUntilAllAccept) {
  Program program;
  const Decision decision{.id = 4, .what = Configure{{0}, CodecRules{}}};
  program.plans.propose_decision(decision, "codecs", "codecs none 0 1", {{0, 1}, 10});
  EXPECT_EQ(program.sent.back(), (Message{1, {"propose", "1", "12", "codecs none 0 1"}}));
  program.answer("late", "1", "13");
  EXPECT_TRUE(program.plans.settle_answers({{0, 1}, 13}).empty());
  EXPECT_EQ(program.sent.back(), (Message{1, {"propose", "2", "17", "codecs none 0 1"}}));
  program.answer("accepted", "2", "14");
  const auto answered = program.plans.settle_answers({{0, 1}, 14});
  ASSERT_EQ(answered.size(), 1u);
  EXPECT_TRUE(answered[0].is_accepted);
}

TEST(ProgramPlans, BeforeTheRanksBeginADecisionNeedsNoAnswer) {
  Program program;
  const Decision decision{.id = 4, .what = Configure{{0}, CodecRules{}}};
  program.plans.set_decision(decision, "codecs", "codecs int8 0 1", 8);
  const auto answered = program.plans.settle_answers({{}, 7});
  ASSERT_EQ(answered.size(), 1u);
  EXPECT_EQ(answered[0].decision.id, 4u);
  EXPECT_TRUE(answered[0].is_accepted);
  program.plans.commit_plan(answered[0].number);
  EXPECT_TRUE(program.plans.settle_answers({{}, 7}).empty());
  EXPECT_TRUE(program.sent.empty());
  program.plans.begin_rank(1, 7);
  EXPECT_EQ(program.sent,
            (std::vector<Message>{{1, {"plan", "8", "codecs int8 0 1"}}, {1, {"begin"}}}));
}

TEST(ProgramPlans, TheRanksAnswerADecision) {
  Program program;
  Decision decision{.id = 3, .what = Configure{{0}, Shares{{1, 3}}}, .at_step = 8};
  program.plans.propose_decision(decision, "shares", "a", {{0, 1}, 5});
  program.answer("accepted", "1", "5");
  const auto accepted = program.plans.settle_answers({{0, 1}, 6});
  ASSERT_EQ(accepted.size(), 1u);
  EXPECT_TRUE(accepted[0].is_accepted);
  program.plans.commit_plan(accepted[0].number);
  EXPECT_EQ(program.sent.back(), (Message{1, {"commit", "1"}}));
  program.plans.propose_decision(decision, "shares", "a", {{0, 1}, 9});
  program.answer("late", "2", "9");
  const auto late = program.plans.settle_answers({{0, 1}, 9});
  ASSERT_EQ(late.size(), 1u);
  EXPECT_FALSE(late[0].is_accepted);
  EXPECT_EQ(late[0].late_step, 9u);
}

}  // namespace
}  // namespace orrery::live
