#include "traces/jobs/node_health.hpp"

#include <cmath>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/random.hpp"

namespace orrery {
namespace {

const std::string kHeader = "JobID|State|Start|End|NodeList\n";

TEST(NodeHealth, ByHand) {
  const auto health =
      node_health("s.txt", kHeader +
                               "1|COMPLETED|2024-03-01T00:00:00|2024-03-02T00:00:00|gpu[1-3]\n"
                               "1.batch|COMPLETED|2024-03-01T00:00:00|2024-03-02T00:00:00|gpu1\n"
                               "2|NODE_FAIL|2024-03-02T00:00:00|2024-03-02T12:00:00|gpu[1-2]\n"
                               "3|CANCELLED by 7|2024-03-02T00:00:00|2024-03-04T00:00:00|gpu4\n"
                               "4|PENDING|Unknown|Unknown|None assigned\n");
  ASSERT_TRUE(health);
  EXPECT_EQ(health->nodes, 4u);
  EXPECT_EQ(health->failures, 1u);
  EXPECT_DOUBLE_EQ(health->node_days, 3 + 1 + 2);
  EXPECT_DOUBLE_EQ(health->per_thousand_node_days(), 1000.0 / 6);
  EXPECT_DOUBLE_EQ(health->mean_hours(2), 72);
  EXPECT_TRUE(health->lemons.empty()) << "one failure makes no lemon";
}

TEST(NodeHealth, OtherLogsDoNotSayIt) {
  EXPECT_FALSE(node_health("s.txt", "JobID|State|Start|End\n1|COMPLETED|0|1\n"));
  EXPECT_FALSE(node_health("s.csv", "job_id,submit_s\n"));
  EXPECT_FALSE(node_health("s.txt", kHeader));
  EXPECT_FALSE(node_health("s.txt", ""));
}

TEST(NodeHealth, ChancesAreThoseOfPoisson) {
  EXPECT_EQ(chance_of_at_least(0, 3), 1);
  EXPECT_NEAR(chance_of_at_least(1, 2), 1 - std::exp(-2), 1e-12);
  EXPECT_NEAR(chance_of_at_least(3, 2), 1 - 5 * std::exp(-2), 1e-12);
  EXPECT_NEAR(chance_of_at_least(20, 100), 1, 1e-9);
  EXPECT_LT(chance_of_at_least(60, 10), 1e-20);
  EXPECT_EQ(chance_of_at_least(2, 0), 0);
}

/// A hundred nodes for a hundred days, in jobs of four nodes that are others each day; node 17
/// fails twenty times as often as the others.
TEST(NodeHealth, TheRateAndTheLemonAreFound) {
  Rng rng(5);
  std::string log = kHeader;
  std::uint64_t drawn = 0;
  for (int day = 0; day < 100; ++day) {
    for (int job = 0; job < 25; ++job) {
      bool fails = false;
      std::string nodes;
      for (int i = 0; i < 4; ++i) {
        const int node = (job + 25 * i + day * i * 3) % 25 + 25 * i;
        fails = rng.uniform() < (node == 17 ? 0.1 : 0.005) || fails;
        nodes += fmt::format("{}{:03}", i == 0 ? "" : ",", node);
      }
      drawn += fails ? 1 : 0;
      log += fmt::format("{}|{}|{}|{}|gpu[{}]\n", day * 25 + job, fails ? "NODE_FAIL" : "COMPLETED",
                         day * 86400, (day + 1) * 86400, nodes);
    }
  }
  const auto health = node_health("s.txt", log);
  ASSERT_TRUE(health);
  EXPECT_EQ(health->failures, drawn);
  EXPECT_DOUBLE_EQ(health->node_days, 10000);
  EXPECT_NEAR(health->per_thousand_node_days(), 5 + 1, 2) << "the lemon adds one";
  ASSERT_EQ(health->lemons.size(), 1u);
  EXPECT_EQ(health->lemons[0].node, "gpu017");
  EXPECT_NEAR(health->lemons[0].failures, 10, 6);
  EXPECT_LT(health->lemons[0].expected, 4);
}

}  // namespace
}  // namespace orrery
