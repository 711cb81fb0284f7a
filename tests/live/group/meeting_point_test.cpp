#include "live/group/meeting_point.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

using Sent = std::vector<Fields>;

TEST(MeetingPoint, ACancelledMeetingHoldsNobody) {
  Sent sent;
  MeetingPoint point([&sent](const Fields& fields) { sent.push_back(fields); });
  EXPECT_FALSE(point.mark_step(1));
  point.handle_message({"halt", "1"});
  EXPECT_EQ(sent, (Sent{{"count", "1", "1"}}));
  point.handle_message({"meet", "1", "3"});
  EXPECT_FALSE(point.mark_step(2));
  point.handle_message({"resume"});
  EXPECT_FALSE(point.mark_step(3));
  point.handle_message({"halt", "2"});
  point.handle_message({"meet", "2", "4"});
  ASSERT_TRUE(point.mark_step(4));
  point.announce_arrival({"a", "1"});
  EXPECT_EQ(sent.back(), (Fields{"met", "2", "a", "1"}));
  point.handle_message({"give", "2", "path"});
  point.handle_message({"resume", "joined"});
  EXPECT_EQ(point.wait_for_instruction(), (Fields{"give", "2", "path"}));
  EXPECT_EQ(point.wait_for_instruction(), (Fields{"resume", "joined"}));
  EXPECT_FALSE(point.mark_step(5));
}

TEST(MeetingPoint, AMeetingThatIsLeftLateIsNotTakenForTheNextOne) {
  Sent sent;
  MeetingPoint point([&sent](const Fields& fields) { sent.push_back(fields); });
  point.handle_message({"halt", "1"});
  point.handle_message({"meet", "1", "1"});
  ASSERT_TRUE(point.mark_step(1));
  point.handle_message({"resume"});  // the first join is cancelled, the second one begins
  point.handle_message({"halt", "2"});
  point.announce_arrival({});
  EXPECT_EQ(sent.back(), (Fields{"met", "1"}));
  EXPECT_EQ(point.wait_for_instruction(), Fields{"resume"});
}

}  // namespace
}  // namespace orrery::live
