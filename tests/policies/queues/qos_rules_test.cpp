#include "policies/queues/qos_rules.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

TEST(QosTable, FactorsArePartsOfTheLargestPriority) {
  const QosTable table({{.name = "a", .priority = 100}, {.name = "b", .priority = 25}});
  EXPECT_DOUBLE_EQ(table.factor("a"), 1);
  EXPECT_DOUBLE_EQ(table.factor("b"), 0.25);
  EXPECT_DOUBLE_EQ(table.factor("c"), 0);
  EXPECT_DOUBLE_EQ(QosTable(std::vector<Qos>{{.name = "a"}}).factor("a"), 0);
  EXPECT_FALSE(table.has_preemption());
}

TEST(QosTable, OnlyNamedQosArePreempted) {
  const QosTable table({{.name = "a", .preempts = {"b"}}, {.name = "b"}, {.name = "c"}});
  EXPECT_TRUE(table.has_preemption());
  EXPECT_TRUE(table.can_preempt("a", "b"));
  EXPECT_FALSE(table.can_preempt("a", "c"));
  EXPECT_FALSE(table.can_preempt("b", "a"));
  EXPECT_FALSE(table.can_preempt("x", "b"));
}

TEST(QosTable, WrongListsAreRefused) {
  const auto refused = [](std::vector<Qos> all) {
    EXPECT_THROW(QosTable(std::move(all)), Error);
  };
  refused({{.name = "a"}, {.name = "a"}});
  refused({{.name = "a", .preempts = {"a"}}});
  refused({{.name = "a", .preempts = {"b"}}});
}

TEST(QosUse, BothLimitsHold) {
  const QosTable table({{.name = "q", .gpus = 8, .gpus_per_user = 5}, {.name = "free"}});
  QosUse use(table);
  EXPECT_TRUE(use.fits("q", "ann", 5));
  EXPECT_FALSE(use.fits("q", "ann", 6)) << "limit of a user";
  use.add("q", "ann", 4);
  EXPECT_TRUE(use.fits("q", "ann", 1));
  EXPECT_FALSE(use.fits("q", "ann", 2));
  EXPECT_TRUE(use.fits("q", "bob", 4));
  EXPECT_FALSE(use.fits("q", "bob", 5)) << "limit of all";
  use.remove_gpus("q", "ann", 2);
  EXPECT_TRUE(use.fits("q", "ann", 3));
  EXPECT_TRUE(use.fits("q", "bob", 5));
  use.add("free", "ann", 1000);
  EXPECT_TRUE(use.fits("free", "ann", 1000));
  use.add("unknown", "ann", 1000);
  EXPECT_TRUE(use.fits("unknown", "ann", 1000));
}

TEST(QosUse, UnknownUsersHaveNoLimitOfAUser) {
  const QosTable table({{.name = "q", .gpus = 8, .gpus_per_user = 5}});
  QosUse use(table);
  use.add("q", "", 4);
  EXPECT_TRUE(use.fits("q", "", 4)) << "two jobs of unknown users need not be one user's";
  EXPECT_FALSE(use.fits("q", "", 5)) << "limit of all";
}

}  // namespace
}  // namespace orrery
