#include "live/group/step_plans.hpp"

#include <future>
#include <vector>

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

using Texts = std::vector<std::string>;

/// Plans of a rank, and the messages that the rank has sent.
struct Rank {
  std::vector<Fields> sent;
  StepPlans plans{[this](const Fields& fields) { sent.push_back(fields); }};
};

TEST(StepPlans, APlanBeginsWithItsStep) {
  Rank rank;
  EXPECT_EQ(rank.plans.begin_step(1), Texts{});
  EXPECT_TRUE(rank.plans.handle_message({"propose", "1", "3", "a"}));
  EXPECT_EQ(rank.sent.back(), (Fields{"accepted", "1", "1"}));
  rank.plans.handle_message({"commit", "1"});
  EXPECT_EQ(rank.plans.begin_step(2), Texts{});
  EXPECT_EQ(rank.plans.begin_step(3), Texts{"a"});
  EXPECT_EQ(rank.plans.begin_step(4), Texts{});
}

TEST(StepPlans, AProposalForAStepThatHasBegunIsLate) {
  Rank rank;
  rank.plans.begin_step(3);
  rank.plans.handle_message({"propose", "1", "3", "a"});
  EXPECT_EQ(rank.sent.back(), (Fields{"late", "1", "3"}));
  rank.plans.handle_message({"commit", "1"});
  EXPECT_EQ(rank.plans.begin_step(4), Texts{});
}

TEST(StepPlans, AStepWaitsForTheCommitOfItsProposal) {
  Rank rank;
  rank.plans.begin_step(1);
  rank.plans.handle_message({"propose", "1", "2", "a"});
  auto next = std::async(std::launch::async, [&rank] { return rank.plans.begin_step(2); });
  EXPECT_EQ(next.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  rank.plans.handle_message({"commit", "1"});
  EXPECT_EQ(next.get(), Texts{"a"});
}

TEST(StepPlans, AWithdrawnProposalAndALostConnectionHoldNobody) {
  Rank rank;
  rank.plans.handle_message({"propose", "1", "2", "a"});
  rank.plans.handle_message({"withdraw", "1"});
  EXPECT_EQ(rank.plans.begin_step(2), Texts{});
  rank.plans.handle_message({"propose", "2", "3", "b"});
  rank.plans.end_connection();
  EXPECT_EQ(rank.plans.begin_step(3), Texts{});
  rank.plans.wait_until_begun();
}

TEST(StepPlans, ASuccessorsProposalsCount) {
  Rank rank;
  rank.plans.handle_message({"plan", "4", "kept"});
  rank.plans.handle_message({"propose", "1", "5", "void"});
  rank.plans.end_connection();
  rank.plans.begin_connection();
  rank.plans.wait_until_begun();
  rank.plans.handle_message({"propose", "1", "6", "new"});
  EXPECT_EQ(rank.plans.begin_step(5), Texts{"kept"});
  rank.plans.handle_message({"commit", "1"});
  EXPECT_EQ(rank.plans.begin_step(6), Texts{"new"});
}

TEST(StepPlans, ANewProcessGetsThePlansBeforeItBegins) {
  Rank rank;
  rank.plans.handle_message({"plan", "9", "later"});
  rank.plans.handle_message({"plan", "4", "now"});
  rank.plans.handle_message({"begin"});
  rank.plans.wait_until_begun();
  EXPECT_EQ(rank.plans.begin_step(7), Texts{"now"});
  EXPECT_EQ(rank.plans.begin_step(9), Texts{"later"});
  EXPECT_FALSE(rank.plans.handle_message({"halt", "1"}));
}

}  // namespace
}  // namespace orrery::live
