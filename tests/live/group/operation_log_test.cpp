#include "live/group/operation_log.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

TEST(OperationLog, OperationsAreKeptInTheOrderOfTheirCallsWhileLogging) {
  OperationLog log;
  EXPECT_EQ(log.add_operation("broadcast", "gloo:0:0-1#0", 4), nullptr);
  log.start_logging();
  const double before_s = clock_s();
  const auto first = log.add_operation("all_reduce", "gloo:0:0-1#0", 64);
  log.add_operation("barrier", "gloo:0:0-1#0", 0);
  first->ended_s = clock_s();
  const auto operations = log.stop_logging();
  ASSERT_EQ(operations.size(), 2u);
  EXPECT_EQ(operations[0]->name, "all_reduce");
  EXPECT_EQ(operations[0]->bytes, 64);
  EXPECT_GE(operations[0]->issued_s, before_s);
  EXPECT_GE(operations[0]->ended_s, operations[0]->issued_s);
  EXPECT_EQ(operations[1]->ended_s, 0);
  EXPECT_EQ(log.add_operation("all_reduce", "gloo:0:0-1#0", 64), nullptr);
  EXPECT_TRUE(log.stop_logging().empty());
}

}  // namespace
}  // namespace orrery::live
