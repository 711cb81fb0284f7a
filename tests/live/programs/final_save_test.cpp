#include "live/programs/final_save.hpp"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "live/group/meeting_point.hpp"

namespace orrery::live {
namespace {

using Sent = std::vector<std::pair<std::size_t, Fields>>;

/// Snapshot of ranks 0 and 2, with the messages that it has sent.
struct Ordered {
  Sent sent;
  FinalSave save{
      [this](std::size_t rank, const Fields& fields) { sent.emplace_back(rank, fields); }};
  Ordered() { save.order_save(); }
  Sent drain() { return std::exchange(sent, {}); }
  /// Brings both ranks to the meeting after step 6.
  void meet() {
    save.begin_save({0, 2});
    save.handle_answer(0, {"count", "save-1", "4"});
    save.handle_answer(2, {"count", "save-1", "5"});
    save.handle_answer(0, {"met", "save-1"});
    save.handle_answer(2, {"met", "save-1"});
  }
};

Sent to_both(const Fields& fields) { return {{0, fields}, {2, fields}}; }

TEST(FinalSave, AllSaveAfterTheFurthestStepAndThenContinue) {
  Ordered all;
  EXPECT_TRUE(all.save.is_ordered());
  EXPECT_EQ(all.drain(), Sent{}) << "the ranks are not known yet";
  all.save.begin_save({});
  all.save.begin_save({0, 2});
  all.save.begin_save({0, 2});  // has begun
  EXPECT_EQ(all.drain(), to_both({"halt", "save-1"}));
  all.save.handle_answer(0, {"count", "7", "9"});  // another meeting
  all.save.handle_answer(0, {"count", "save-1", "4"});
  all.save.handle_answer(2, {"snapshot", "5"});  // saved by the program itself
  all.save.handle_answer(2, {"count", "save-1", "5"});
  EXPECT_EQ(all.drain(), to_both({"meet", "save-1", "6"}));
  EXPECT_EQ(all.save.step(), 6u);
  all.save.handle_answer(0, {"met", "save-1"});
  all.save.handle_answer(0, {"met", "save-1"});  // counts once
  EXPECT_EQ(all.drain(), Sent{});
  all.save.handle_answer(2, {"met", "save-1"});
  EXPECT_EQ(all.drain(), to_both({"save"}));
  all.save.handle_answer(2, {"snapshot", "6"});
  EXPECT_FALSE(all.save.drain_result());
  all.save.handle_answer(0, {"snapshot", "6"});
  EXPECT_EQ(all.save.drain_result(), true);
  EXPECT_EQ(all.drain(), to_both({"resume"}));
  EXPECT_FALSE(all.save.is_ordered());
  EXPECT_FALSE(all.save.drain_result());
}

TEST(FinalSave, IsIncompleteIfOneRankCannotSave) {
  Ordered all;
  all.meet();
  all.save.handle_answer(0, {"unsaved", "6"});
  all.save.handle_answer(2, {"snapshot", "6"});
  EXPECT_EQ(all.save.drain_result(), false);
  all.save.order_save();  // the next order begins anew, with another number
  all.drain();
  all.save.begin_save({2});
  EXPECT_EQ(all.drain(), (Sent{{2, {"halt", "save-2"}}}));
}

TEST(FinalSave, GoesOnWithoutALostRankInEachStage) {
  for (int lost_after = 0; lost_after < 3; ++lost_after) {
    Ordered all;
    all.save.begin_save({0, 2});
    all.save.handle_answer(2, {"count", "save-1", "5"});
    if (lost_after == 0) all.save.remove_member(0);
    all.save.handle_answer(0, {"count", "save-1", "5"});
    all.save.handle_answer(2, {"met", "save-1"});
    if (lost_after == 1) all.save.remove_member(0);
    all.save.handle_answer(0, {"met", "save-1"});
    all.save.handle_answer(2, {"snapshot", "6"});
    if (lost_after == 2) all.save.remove_member(0);
    EXPECT_EQ(all.save.drain_result(), true) << lost_after;
    EXPECT_EQ(all.sent.back(), (std::pair<std::size_t, Fields>{2, {"resume"}}));
  }
  Ordered none;
  none.meet();
  none.save.remove_member(0);
  none.save.remove_member(2);
  EXPECT_EQ(none.save.drain_result(), false);
}

TEST(FinalSave, TheMeetingPointOfARankPassesTheOrderOn) {
  Sent answers;
  MeetingPoint point([&answers](const Fields& fields) { answers.emplace_back(0, fields); });
  EXPECT_FALSE(point.mark_step(1));
  FinalSave save([&point](std::size_t, const Fields& fields) { point.handle_message(fields); });
  save.order_save();
  save.begin_save({0});
  save.handle_answer(0, answers.back().second);
  ASSERT_TRUE(point.mark_step(2));
  point.announce_arrival({});
  save.handle_answer(0, answers.back().second);
  EXPECT_EQ(point.wait_for_instruction(), Fields{"save"});
  save.handle_answer(0, {"snapshot", "2"});
  EXPECT_EQ(save.drain_result(), true);
  EXPECT_EQ(point.wait_for_instruction(), Fields{"resume"});
  EXPECT_FALSE(point.mark_step(3));
}

}  // namespace
}  // namespace orrery::live
