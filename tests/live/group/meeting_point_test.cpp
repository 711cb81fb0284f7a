#include "live/group/meeting_point.hpp"

#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "live/group/messages.hpp"

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

TEST(MeetingPoint, RanksAtAMeetingContinueAtTheEndOfTheConnection) {
  Sent sent;
  MeetingPoint point([&sent](const Fields& fields) { sent.push_back(fields); });
  point.handle_message({"halt", "1"});
  point.handle_message({"meet", "1", "1"});
  ASSERT_TRUE(point.mark_step(1));
  point.announce_arrival({});
  point.end_connection();
  EXPECT_EQ(point.wait_for_instruction(), Fields{"resume"});
  EXPECT_FALSE(point.mark_step(2));
}

TEST(MeetingPoint, ASuccessorArrangesTheNextMeetingAndNotTheOldOne) {
  Sent sent;
  MeetingPoint point([&sent](const Fields& fields) { sent.push_back(fields); });
  point.handle_message({"halt", "1"});
  point.handle_message({"meet", "1", "1"});
  ASSERT_TRUE(point.mark_step(1));
  point.end_connection();
  point.begin_connection();
  EXPECT_EQ(point.wait_for_instruction(), Fields{"resume"}) << "the old meeting is over";
  point.handle_message({"halt", "1"});
  point.handle_message({"meet", "1", "3"});
  EXPECT_FALSE(point.mark_step(2));
  ASSERT_TRUE(point.mark_step(3));
  point.handle_message({"give", "path"});
  EXPECT_EQ(point.wait_for_instruction(), (Fields{"give", "path"}));
}

TEST(MeetingPoint, AHaltedRankContinuesAtTheEndOfTheConnection) {
  MeetingPoint point([](const Fields&) {});
  point.handle_message({"halt", "1"});
  std::thread end([&point] { point.end_connection(); });
  EXPECT_FALSE(point.mark_step(1));
  end.join();
}

TEST(MeetingPoint, AProcessThatIsToJoinFailsAtTheEndOfTheConnection) {
  MeetingPoint point([](const Fields&) {});
  point.handle_message({"join", "path"});
  point.end_connection();
  EXPECT_EQ(point.wait_for_instruction(), (Fields{"join", "path"}));
  EXPECT_THROW(point.wait_for_instruction(), std::runtime_error);
}

TEST(Messages, BeginWithTheNameOfTheirKind) {
  EXPECT_EQ(message_of(MessageKind::count, {"7", "4"}), (Fields{"count", "7", "4"}));
  for (const std::string& name : all_names<MessageKind>()) {
    const std::optional<MessageKind> kind = kind_of(Fields{name});
    ASSERT_TRUE(kind) << name;
    EXPECT_EQ(message_of(*kind), Fields{name}) << "each name belongs to one kind";
  }
  EXPECT_EQ(kind_of(Fields{"hurry"}), std::nullopt);
  EXPECT_THROW(kind_of(Fields{}), std::out_of_range);
}

}  // namespace
}  // namespace orrery::live
