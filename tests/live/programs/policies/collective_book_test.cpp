#include "live/programs/policies/collective_book.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

CollectiveReport report_of(std::uint64_t sequence, std::uint32_t rank, std::uint64_t duration_ns,
                           std::uint64_t bytes = 1000) {
  return {.communicator = 7,
          .sequence = sequence,
          .rank = rank,
          .ranks = 2,
          .kind = CollectiveKind::all_reduce,
          .bytes = bytes,
          .algorithm = CollectiveAlgorithm::tree,
          .duration_ns = duration_ns};
}

TEST(CollectiveBook, ACallTakesAsLongAsAtTheRankThatCameLast) {
  CollectiveBook book;
  book.add_report(report_of(1, 0, 50'000'000));
  EXPECT_TRUE(book.drain_samples(4).empty()) << "a rank has not reported it";
  book.add_report(report_of(1, 1, 12'000'000));
  const auto samples = book.drain_samples(4);
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].step, 4u);
  EXPECT_EQ(samples[0].algorithm, CollectiveAlgorithm::tree);
  EXPECT_DOUBLE_EQ(samples[0].bytes, 1000);
  EXPECT_EQ(samples[0].ranks, 2u);
  EXPECT_DOUBLE_EQ(samples[0].exposed, 0.012);
  EXPECT_TRUE(book.drain_samples(5).empty());
}

TEST(CollectiveBook, TheNewestCallOfEachSizeIsShown) {
  CollectiveBook book;
  for (std::uint64_t call = 0; call < 3; ++call) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      book.add_report(report_of(2 * call, rank, 1000 * (call + 1)));
      book.add_report(report_of(2 * call + 1, rank, 5000, 2000));
    }
  }
  const auto samples = book.drain_samples(0);
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_DOUBLE_EQ(samples[0].exposed, 3e-6);
  EXPECT_DOUBLE_EQ(samples[1].bytes, 2000);
}

TEST(CollectiveBook, CallsThatOneRankNeverReportsAreForgotten) {
  CollectiveBook book;
  for (std::uint64_t call = 0; call < 10'000; ++call) book.add_report(report_of(call, 0, 1));
  book.add_report(report_of(0, 1, 1));
  EXPECT_TRUE(book.drain_samples(0).empty());
  book.add_report(report_of(9'999, 1, 1));
  EXPECT_EQ(book.drain_samples(0).size(), 1u);
}

}  // namespace
}  // namespace orrery::live
