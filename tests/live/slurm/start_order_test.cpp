#include "live/slurm/start_order.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

StartOrder order_at(std::int64_t since_s) { return {.nodes = {"n3", "n6"}, .since_s = since_s}; }

SlurmJob waiting(std::vector<std::string> nodes, std::int64_t eligible_s,
                 const std::string& reason = "Resources") {
  SlurmJob job;
  job.required_nodes = std::move(nodes);
  job.eligible_s = eligible_s;
  job.reason = reason;
  return job;
}

TEST(StartOrder, AnOrderThatSlurmShowsWaitsUntilThePatienceEnds) {
  EXPECT_EQ(state_of(order_at(100), waiting({"n6", "n3"}, 100), 101, 60), OrderState::waits);
  EXPECT_EQ(state_of(order_at(100), waiting({"n3", "n6"}, 100), 161, 60), OrderState::overdue);
}

TEST(StartOrder, OtherNodesOrALaterBeginMeanThatTheOrderIsLost) {
  EXPECT_EQ(state_of(order_at(100), waiting({}, 100), 101, 60), OrderState::lost);
  EXPECT_EQ(state_of(order_at(100), waiting({"n3"}, 100), 101, 60), OrderState::lost);
  EXPECT_EQ(state_of(order_at(100), waiting({"n3", "n6"}, 120), 101, 60), OrderState::lost);
}

TEST(StartOrder, NodesThatDoNotFitAreRefused) {
  EXPECT_EQ(state_of(order_at(100), waiting({"n3", "n6"}, 100, "BadConstraints"), 101, 60),
            OrderState::refused);
}

TEST(StartOrder, LinesOfScontrol) {
  EXPECT_EQ(start_line("5_2", {"n3", "n6"}, "orrery:7").text,
            "update JobId=5_2 ReqNodeList=n3,n6 StartTime=now");
  EXPECT_EQ(withdraw_line("17", 20).text, "update JobId=17 ReqNodeList= StartTime=now+20");
  const std::vector<std::string> lines = lease_lines(std::vector<std::string>(12, "1"), 20);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lease_lines({"1", "2_3"}, 20),
            std::vector<std::string>{"update JobId=1,2_3 StartTime=now+20"});
  EXPECT_EQ(requeue_line("17"), "requeue incomplete 17");
}

TEST(StartOrder, AMarkKeepsTheTextOfTheUser) {
  for (const std::string text :
       {"", "of the night run", "ends [so]", "[orrery:x]", "  ", "a[orrery:5]"}) {
    const std::string marked = marked_comment(text, "orrery:7").value();
    EXPECT_EQ(owner_in(text), "") << text;
    EXPECT_EQ(owner_in(marked), "orrery:7");
    EXPECT_EQ(marked_comment(marked, "").value(), text);
    EXPECT_EQ(marked_comment(marked, "orrery:81").value(),
              marked_comment(text, "orrery:81").value());
  }
  EXPECT_EQ(marked_comment("", "orrery:7"), "[orrery:7]");
  EXPECT_FALSE(marked_comment(std::string(1000, 'x'), "orrery:7"));
}

}  // namespace
}  // namespace orrery::live
