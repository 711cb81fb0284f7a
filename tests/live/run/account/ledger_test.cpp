#include "live/run/account/ledger.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

TEST(Ledger, AWholeStepCountsNothing) {
  Ledger ledger(3);
  for (const std::uint64_t id : {2, 0, 1}) ledger.executed(7, id);
  ledger.committed(7);
  EXPECT_EQ(ledger.lost(), 0u);
  EXPECT_EQ(ledger.repeated(), 0u);
  EXPECT_EQ(ledger.recomputed(), 0u);
}

TEST(Ledger, ACommitWithoutAMicroBatchLosesIt) {
  Ledger ledger(3);
  ledger.executed(0, 0);
  ledger.executed(0, 2);
  ledger.committed(0);
  EXPECT_EQ(ledger.lost(), 1u);
  EXPECT_EQ(ledger.repeated(), 0u);
}

TEST(Ledger, AMicroBatchThatTwoRanksHoldIsRepeated) {
  Ledger ledger(2);
  for (const std::uint64_t id : {0, 1, 1}) ledger.executed(0, id);
  ledger.committed(0);
  EXPECT_EQ(ledger.lost(), 0u);
  EXPECT_EQ(ledger.repeated(), 1u);
}

TEST(Ledger, AnIdBeyondTheStepIsNotTakenForOneOfIts) {
  Ledger ledger(2);
  for (const std::uint64_t id : {0, 2}) ledger.executed(0, id);
  ledger.committed(0);
  EXPECT_EQ(ledger.lost(), 1u);
  EXPECT_EQ(ledger.repeated(), 1u);
}

TEST(Ledger, WorkThatWasThrownAwayAndDoneAgainIsRecomputed) {
  Ledger ledger(2);
  ledger.executed(4, 0);
  ledger.discarded(4);
  EXPECT_EQ(ledger.recomputed(), 0u);  // not yet done again
  ledger.executed(4, 0);
  ledger.executed(4, 1);
  ledger.committed(4);
  EXPECT_EQ(ledger.recomputed(), 1u);
  EXPECT_EQ(ledger.lost() + ledger.repeated(), 0u);
}

}  // namespace
}  // namespace orrery::live
