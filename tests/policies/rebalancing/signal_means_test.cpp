#include "policies/rebalancing/signal_means.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "policies/seam/byte_archive.hpp"

namespace orrery {
namespace {

std::vector<double> changes(const StepSignals& before, const StepSignals& current) {
  std::vector<double> out;
  StepSignals::compute_changes(before, current, 1, out);
  return out;
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
