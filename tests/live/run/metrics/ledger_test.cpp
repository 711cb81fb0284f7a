#include "live/run/metrics/ledger.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

TEST(Ledger, AWholeStepCountsNothing) {
  Ledger ledger;
  for (const std::uint64_t id : {2, 0, 1}) ledger.record_execution(7, id);
  ledger.record_commit(7, 3);
  EXPECT_EQ(ledger.lost_count(), 0u);
  EXPECT_EQ(ledger.repeated_count(), 0u);
  EXPECT_EQ(ledger.recomputed(), 0u);
}

TEST(Ledger, ACommitWithoutAMicroBatchLosesIt) {
  Ledger ledger;
  ledger.record_execution(0, 0);
  ledger.record_execution(0, 2);
  ledger.record_commit(0, 3);
  EXPECT_EQ(ledger.lost_count(), 1u);
  EXPECT_EQ(ledger.repeated_count(), 0u);
}

TEST(Ledger, AMicroBatchThatTwoRanksHoldIsRepeated) {
  Ledger ledger;
  for (const std::uint64_t id : {0, 1, 1}) ledger.record_execution(0, id);
  ledger.record_commit(0, 2);
  EXPECT_EQ(ledger.lost_count(), 0u);
  EXPECT_EQ(ledger.repeated_count(), 1u);
}

TEST(Ledger, AnIdBeyondTheStepIsNotTakenForOneOfIts) {
  Ledger ledger;
  for (const std::uint64_t id : {0, 2}) ledger.record_execution(0, id);
  ledger.record_commit(0, 2);
  EXPECT_EQ(ledger.lost_count(), 1u);
  EXPECT_EQ(ledger.repeated_count(), 1u);
}

TEST(Ledger, WorkThatWasThrownAwayAndDoneAgainIsRecomputed) {
  Ledger ledger;
  ledger.record_execution(4, 0);
  ledger.record_discard(4);
  EXPECT_EQ(ledger.recomputed(), 0u);  // not yet done again
  ledger.record_execution(4, 0);
  ledger.record_execution(4, 1);
  ledger.record_commit(4, 2);
  EXPECT_EQ(ledger.recomputed(), 1u);
  EXPECT_EQ(ledger.lost_count() + ledger.repeated_count(), 0u);
}

TEST(Ledger, WorkThatIsReportedAfterItWasThrownAwayIsRecomputedAndNotRepeated) {
  Ledger ledger;
  ledger.record_execution(4, 0);
  ledger.record_discard(4);
  ledger.record_late_execution(4);
  for (const std::uint64_t id : {0, 1}) ledger.record_execution(4, id);
  ledger.record_commit(4, 2);
  EXPECT_EQ(ledger.recomputed(), 2u);
  EXPECT_EQ(ledger.lost_count() + ledger.repeated_count(), 0u);
}

TEST(Ledger, GoesOnFromTheCountersOfAnEarlierController) {
  Ledger ledger(3, 2, 1);
  ledger.record_commit(7, 2);
  EXPECT_EQ(ledger.lost_count(), 5u);
  EXPECT_EQ(ledger.repeated_count(), 2u);
  EXPECT_EQ(ledger.recomputed(), 1u);
}

}  // namespace
}  // namespace orrery::live
