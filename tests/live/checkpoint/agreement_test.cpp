// Checksums of the training state, and the comparison of replicas by them.
#include "live/checkpoint/agreement.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace orrery::live {
namespace {

std::vector<float> values(std::size_t count, std::uint64_t seed = 1) {
  Rng rng(seed);
  std::vector<float> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(static_cast<float>(rng.normal()));
  return all;
}

Checksum sum_of(std::span<const float> all, std::uint64_t first = 0) {
  Checksum sum;
  sum.add(all, first);
  return sum;
}

TEST(Checksum, IsTheSumOfTheWordsAndTheirSumWeightedByIndex) {
  for (const std::size_t count : {0u, 1u, 7u, 8u, 9u, 100u}) {
    const std::vector<float> all = values(count);
    std::uint64_t sum = 0, weighted = 0;
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t word = 0;
      std::memcpy(&word, &all[i], sizeof word);
      sum += word;
      weighted += (5 + i + 1) * word;
    }
    EXPECT_EQ(sum_of(all, 5), Checksum(sum, weighted)) << count;
  }
}

TEST(Checksum, PartsAddUpHoweverTheVectorIsCut) {
  const std::vector<float> all = values(100);
  for (std::size_t cut = 0; cut <= 100; cut += 9) {
    Checksum sum = sum_of(std::span(all).first(cut));
    sum += sum_of(std::span(all).subspan(cut), cut);
    EXPECT_EQ(sum, sum_of(all));
  }
}

TEST(Checksum, EachFlippedBitAndEachSwapChangesIt) {
  std::vector<float> all = values(40);
  const Checksum whole = sum_of(all);
  for (float& value : all) {
    for (std::uint32_t bit = 0; bit < 32; ++bit) {
      const float before = value;
      std::uint32_t word = 0;
      std::memcpy(&word, &value, sizeof word);
      word ^= 1u << bit;
      std::memcpy(&value, &word, sizeof word);
      ASSERT_NE(sum_of(all), whole);
      value = before;
    }
  }
  std::swap(all[3], all[30]);
  EXPECT_NE(sum_of(all), whole);
}

const Checksum kGood(1, 2), kBad(3, 4), kThird(5, 6);
using Ranks = std::vector<std::uint32_t>;

TEST(Replicas, AMajorityOfThreeAndMoreNamesTheOthers) {
  const auto verdict = compare_replicas({{0, {{0, kGood}}}, {4, {{0, kBad}}}, {7, {{0, kGood}}}});
  EXPECT_EQ(verdict.outvoted, Ranks{4});
  EXPECT_TRUE(verdict.undecided.empty());
  EXPECT_TRUE(compare_replicas({{0, {{0, kGood}}}, {1, {{0, kGood}}}}).is_agreed());
  EXPECT_TRUE(compare_replicas({}).is_agreed());
}

TEST(Replicas, TwoAloneNameNobody) {
  const auto two = compare_replicas({{0, {{0, kGood}}}, {1, {{0, kBad}}}});
  EXPECT_TRUE(two.outvoted.empty());
  EXPECT_EQ(two.undecided, (Ranks{0, 1}));
  const auto three = compare_replicas({{0, {{0, kGood}}}, {1, {{0, kBad}}}, {2, {{0, kThird}}}});
  EXPECT_EQ(three.undecided, (Ranks{0, 1, 2}));
}

TEST(Replicas, ARankNamedByOnePartDecidesTheOthers) {
  // All hold the parameters; part 1 is with ranks 0 and 1, part 2 with ranks 1 and 2.
  const auto verdict = compare_replicas({{0, {{0, kBad}, {1, kBad}}},
                                         {1, {{0, kGood}, {1, kGood}, {2, kThird}}},
                                         {2, {{0, kGood}, {2, kThird}}}});
  EXPECT_EQ(verdict.outvoted, Ranks{0});
  EXPECT_TRUE(verdict.undecided.empty());
  const auto moments = compare_replicas(
      {{0, {{0, kGood}, {1, kBad}}}, {1, {{0, kGood}, {1, kGood}}}, {2, {{0, kGood}}}});
  EXPECT_EQ(moments.undecided, (Ranks{0, 1})) << "part 1 has two holders";
}

Checksum sum(Checksum a, const Checksum& b) { return a += b; }

TEST(Replicas, ShardsAreAStateIfTheyAddUpToTheStateOfAllWriters) {
  const Checksum whole = sum(kGood, kThird);
  EXPECT_EQ(find_disagreement({{{{0, whole}}, kGood}, {{{0, whole}}, kThird}}), "");
  EXPECT_NE(find_disagreement({{{{0, whole}}, kGood}, {{{0, whole}}, kBad}}), "");
  const std::string differ =
      find_disagreement({{{{0, whole}}, kGood}, {{{0, kBad}}, kThird}, {{{0, whole}}, {}}});
  EXPECT_NE(differ.find("rank 1"), std::string::npos) << differ;
  EXPECT_EQ(find_disagreement({{{}, kGood}, {{}, kBad}}), "") << "nothing is known";
  EXPECT_EQ(find_disagreement({}), "");
}

TEST(Replicas, AShardOfAShardedStateIsThePartOfItsWriterAndOfTheHolderOfItsCopy) {
  const PartChecksums first{{1, kGood}, {2, kThird}}, second{{1, kGood}, {2, kThird}};
  EXPECT_EQ(find_disagreement({{first, kGood}, {second, kThird}}), "");
  EXPECT_NE(find_disagreement({{first, kBad}, {second, kThird}}), "");
  EXPECT_NE(find_disagreement({{{{1, kBad}, {2, kThird}}, kBad}, {second, kThird}}), "");
  EXPECT_NE(find_disagreement({{{{2, kThird}}, kGood}, {second, kThird}}), "") << "part 1 missing";
}

}  // namespace
}  // namespace orrery::live
