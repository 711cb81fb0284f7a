#include "live/run/processes/briefing.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

membership::Directive directive(std::uint64_t number, bool work = false) {
  membership::Directive out;
  out.to = {1, 0};
  out.epoch = 4;
  out.number = number;
  out.members = {{0, 0}, {1, 0}};
  out.work = work;
  return out;
}

MemberStatus status(std::uint64_t beat, const std::string& address) {
  MemberStatus out;
  out.set_beat(beat);
  out.set_address(address);
  return out;
}

TEST(Briefing, SaysADirectiveOnceToAProcess) {
  Briefing briefing;
  EXPECT_TRUE(briefing.drain_messages(1, {}).empty());
  ASSERT_EQ(briefing.drain_messages(1, directive(1)).size(), 1u);
  EXPECT_TRUE(briefing.drain_messages(1, directive(1)).empty());
  EXPECT_EQ(briefing.drain_messages(1, directive(2)).size(), 1u);
  briefing.mark_connected(1);
  EXPECT_EQ(briefing.drain_messages(1, directive(2)).size(), 1u);
}

TEST(Briefing, ADirectiveCarriesTheNewestAddressesAndThePlan) {
  Briefing briefing;
  briefing.record_status({0, 1}, status(3, "new"));
  briefing.record_status({0, 0}, status(9, "of the process before"));
  briefing.record_status({0, 1}, status(2, "old"));
  StepPlan plan;
  plan.set_step(7);
  briefing.set_plans({{1, plan}});
  const auto said = briefing.drain_messages(1, directive(1, true));
  ASSERT_EQ(said.size(), 1u);
  ASSERT_EQ(said[0].directive().addresses_size(), 2);
  EXPECT_EQ(said[0].directive().addresses(0), "new");
  EXPECT_EQ(said[0].directive().plan().step(), 7u);
  EXPECT_FALSE(briefing.drain_messages(1, directive(2))[0].directive().has_plan());
}

TEST(Briefing, HardwareComesFirstAndOnlyWhenItHasChanged) {
  Briefing briefing;
  Hardware hardware;
  hardware.set_speed(0.5);
  briefing.set_hardware(1, hardware);
  const auto said = briefing.drain_messages(1, directive(1));
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[0].hardware().speed(), 0.5);
  briefing.set_hardware(1, hardware);
  EXPECT_TRUE(briefing.drain_messages(1, directive(1)).empty());
  EXPECT_TRUE(briefing.drain_messages(0, {}).empty());
  hardware.set_speed(1);
  briefing.set_hardware(1, hardware);
  EXPECT_EQ(briefing.drain_messages(1, directive(1)).size(), 1u);
}

}  // namespace
}  // namespace orrery::live
