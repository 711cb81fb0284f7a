#include "live/fault_schedule.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

const std::vector<std::uint32_t> kAll{0, 1, 2, 3};

Fault& add(Scenario& scenario, std::uint32_t rank) {
  Fault& fault = *scenario.add_faults();
  fault.set_rank(rank);
  return fault;
}

TEST(FaultSchedule, StrikesOnceAtItsStepOrInstant) {
  Scenario scenario;
  add(scenario, 1).set_at_step(3);
  scenario.mutable_faults(0)->set_kill(true);
  add(scenario, 2).set_at_time(500);
  scenario.mutable_faults(1)->set_stop(true);
  FaultSchedule faults(scenario, 4);
  EXPECT_EQ(faults.next_instant(0), 500);
  EXPECT_TRUE(faults.due(2, 100, kAll).empty());
  const auto first = faults.due(3, 100, kAll);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].rank, 1u);
  EXPECT_FALSE(first[0].stop);
  const auto second = faults.due(3, 500, kAll);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].rank, 2u);
  EXPECT_TRUE(second[0].stop);
  EXPECT_EQ(faults.next_instant(500), kNever);
  EXPECT_TRUE(faults.due(9, 900, kAll).empty());
  EXPECT_EQ(faults.injected(), 2u);
}

TEST(FaultSchedule, AStrikeWaitsForARankThatIsAwayOrNotYetMissed) {
  Scenario scenario;
  for (int i = 0; i < 2; ++i) {
    Fault& fault = add(scenario, 1);
    fault.set_at_step(0);
    fault.set_kill(true);
  }
  FaultSchedule faults(scenario, 4);
  const std::vector<std::uint32_t> without{0, 2, 3};
  EXPECT_TRUE(faults.due(0, 10, without).empty());
  EXPECT_EQ(faults.due(0, 20, kAll).size(), 1u);
  EXPECT_TRUE(faults.due(0, 30, kAll).empty());
  EXPECT_EQ(faults.noticed(1), 20);
  EXPECT_EQ(faults.noticed(1), std::nullopt);
  EXPECT_EQ(faults.due(0, 40, kAll).size(), 1u);
}

TEST(FaultSchedule, ASlowRankOrOneBeyondTheJobIsOnlyCounted) {
  Scenario scenario;
  add(scenario, 1).set_slow(2);
  Fault& beyond = add(scenario, 9);
  beyond.set_kill(true);
  FaultSchedule faults(scenario, 4);
  EXPECT_TRUE(faults.due(0, 0, kAll).empty());
  EXPECT_EQ(faults.injected(), 2u);
}

}  // namespace
}  // namespace orrery::live
