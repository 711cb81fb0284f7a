#include "policies/rebalancing/signal_means.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "policies/seam/byte_archive.hpp"

namespace orrery {
namespace {

std::vector<double> changes(const StepSignals& before, const StepSignals& current) {
  ChangeColumn out;
  StepSignals::compute_changes(before, current, 1, out);
  return out.values;
}

TEST(StepSignals, ChangesAreThoseOfTheMeansMinusTheChangeOfTheMedianRank) {
  StepSignals before, current;
  before.clear(4);
  current.clear(4);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    before.add(1, rank, 0.5);
    before.add(1, rank, 0.7);  // mean 0.6
    current.add(1, rank, rank == 2 ? 0.2 : 0.5);
  }
  const std::vector<double> out = changes(before, current);
  EXPECT_DOUBLE_EQ(out[2], -0.3);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[3], 0);
}

TEST(StepSignals, ARankWithoutAValueInOneOfTheStepsHasNoChange) {
  StepSignals before, current;
  before.clear(3);
  current.clear(3);
  for (const std::size_t rank : {0u, 1u}) before.add(1, rank, 1);
  for (const std::size_t rank : {1u, 2u}) current.add(1, rank, 9);
  EXPECT_EQ(changes(before, current), (std::vector<double>{0, 0, 0})) << "the only known rank";
  EXPECT_EQ(changes(current, current), (std::vector<double>{0, 0, 0}));
}

TEST(StepSignals, ChangesAreLimitedToOne) {
  StepSignals before, current;
  before.clear(3);
  current.clear(3);
  for (const std::size_t rank : {0u, 1u, 2u}) {
    before.add(1, rank, 5);
    current.add(1, rank, 5 + 10 * (static_cast<double>(rank) - 1));
  }
  EXPECT_EQ(changes(before, current), (std::vector<double>{-1, 0, 1}));
}

TEST(StepSignals, ChangesThatAreCalledSmallAreSmallAndOthersAreThoseOfAllRanks) {
  constexpr std::size_t kRanks = 300;
  Rng rng(5);
  ChangeColumn column;
  int small = 0, large = 0;
  for (int i = 0; i < 2000; ++i) {
    StepSignals before, current;
    before.clear(kRanks), current.clear(kRanks);
    const double common = 0.1 * static_cast<double>(i / 50), noise = 0.02 * rng.uniform();
    const bool all_known = rng.below(2) == 0;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      before.add(1, rank, 0.5);
      if (!all_known && rng.below(4) == 0) continue;
      current.add(1, rank, 0.5 + common + noise * (rng.uniform() - 0.5));
    }
    const double late = rng.below(2) == 0 ? 0 : 0.05 * rng.uniform();
    current.add(1, rng.below(kRanks), 0.5 + common - late);
    const double limit = 0.01 * 0.01;
    StepSignals::compute_large_changes(before, current, 1, limit, column);
    const std::vector<double> all = changes(before, current);
    double most = 0;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      most = std::max(most, all[rank] * all[rank]);
      ASSERT_EQ(column.change_of(rank), column.small ? 0 : all[rank]) << i << ", rank " << rank;
    }
    ASSERT_TRUE(!column.small || most <= limit) << i;
    (column.small ? small : large) += 1;
  }
  EXPECT_GT(small, 300) << "most small changes need no median";
  EXPECT_GT(large, 300);
}

TEST(StepSignals, ASquareEqualToTheLimitIsSmall) {
  StepSignals before, current;
  before.clear(3), current.clear(3);
  for (const std::size_t rank : {0u, 1u, 2u}) {
    before.add(1, rank, 1);
    current.add(1, rank, rank == 2 ? 1.5 : 1);
  }
  ChangeColumn column;
  StepSignals::compute_large_changes(before, current, 1, 0.25, column);
  for (const std::size_t rank : {0u, 1u}) EXPECT_EQ(column.change_of(rank), 0);
  EXPECT_TRUE(column.small ? column.change_of(2) == 0 : column.change_of(2) == 0.5);
  StepSignals::compute_large_changes(before, current, 1, 0.24, column);
  EXPECT_FALSE(column.small);
  EXPECT_EQ(column.change_of(2), 0.5);
}

TEST(StepSignals, SumsAndCountsAreSavedByRank) {
  StepSignals before, saved, loaded;
  for (StepSignals* each : {&before, &saved, &loaded}) each->clear(2);
  before.add(1, 0, 1), before.add(1, 1, 1);
  saved.add(1, 0, 3), saved.add(1, 1, 4);
  std::string bytes;
  ByteWriter write(bytes);
  for (const std::size_t rank : {0u, 1u}) StepSignals::fields(std::as_const(saved), rank, write);
  ByteReader read(bytes);
  for (const std::size_t rank : {0u, 1u}) StepSignals::fields(loaded, rank, read);
  EXPECT_TRUE(read.is_at_end());
  EXPECT_EQ(changes(before, loaded), (std::vector<double>{0, 1}));
}

}  // namespace
}  // namespace orrery
