#include "sim/replay/node_outages.hpp"

#include <gtest/gtest.h>

namespace orrery::sim {
namespace {

constexpr Nanos s(std::int64_t count) { return count * kNanosPerSecond; }

TEST(NodeOutages, ANodeIsDownWhileAnyOfItsOutagesLasts) {
  NodeOutages outages({{.node = 1, .begin_s = 10, .end_s = 30},
                       {.node = 1, .begin_s = 20, .end_s = 40, .planned = true},
                       {.node = 0, .begin_s = 40, .end_s = 50}},
                      {}, 2);
  EXPECT_EQ(outages.next(false), s(10));
  auto changes = outages.advance_to(s(10));
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_TRUE(changes[0].down);
  EXPECT_FALSE(changes[0].planned);
  EXPECT_TRUE(outages.advance_to(s(20)).empty());
  EXPECT_TRUE(outages.advance_to(s(30)).empty());
  EXPECT_EQ(outages.down(), 1u);
  changes = outages.advance_to(s(40));
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_FALSE(changes[0].down) << "who comes back goes first";
  EXPECT_EQ(changes[0].node, 1u);
  EXPECT_TRUE(changes[1].down);
  outages.advance_to(s(50));
  EXPECT_EQ(outages.down(), 0u);
  EXPECT_EQ(outages.outages(), 2u);
  EXPECT_EQ(outages.next(true), kNever);
}

TEST(NodeOutages, FailuresComeAtTheirRateWhileThereIsWork) {
  NodeOutages outages({}, {.per_thousand_node_days = 50, .repair = s(3600), .seed = 3}, 100);
  EXPECT_EQ(outages.next(false), kNever);
  Nanos last = 0;
  while (true) {
    const Nanos next = outages.next(true);
    if (next > s(200 * 86400)) break;
    EXPECT_GT(next, last);
    last = next;
    for (const auto& change : outages.advance_to(next)) EXPECT_FALSE(change.planned);
  }
  // 100 nodes for 200 days at 5% a day.
  EXPECT_NEAR(static_cast<double>(outages.outages()), 1000, 100);
  EXPECT_LE(outages.down(), 3u);
}

TEST(NodeOutages, WithoutAnyNothingHappens) {
  EXPECT_FALSE(NodeOutages({}, {}, 5).any());
  EXPECT_EQ(NodeOutages().next(true), kNever);
}

}  // namespace
}  // namespace orrery::sim
