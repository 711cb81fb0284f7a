#include "live/codec/coded_bucket.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/random.hpp"

namespace orrery::live {
namespace {

constexpr std::size_t kCount = 1000;

std::vector<float> random_values(std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(kCount);
  for (float& value : values) value = static_cast<float>(rng.uniform() - 0.5);
  return values;
}

/// Buckets of some members, by member.
using Buckets = std::deque<CodedBucket>;

Buckets buckets_of(const CodecRule& rule, std::size_t members) {
  Buckets buckets;
  for (std::size_t i = 0; i < members; ++i) buckets.emplace_back(rule, kCount);
  return buckets;
}

/// Sums the values of the members in codes, and returns the result of each of them.
std::vector<std::vector<float>> exchange(Buckets& buckets, const std::vector<std::size_t>& members,
                                         const std::vector<std::vector<float>>& values,
                                         bool commits = true) {
  std::vector<std::vector<std::byte>> sent;
  for (std::size_t at = 0; at < members.size(); ++at) {
    sent.push_back(buckets[members[at]].encode_parts(values[members[at]], members, at));
  }
  const std::size_t size = sent.front().size() / members.size();
  std::vector<std::byte> gathered;
  for (std::size_t to = 0; to < members.size(); ++to) {
    std::vector<std::byte> received;
    for (const auto& codes : sent) {
      received.insert(received.end(), codes.begin() + static_cast<std::ptrdiff_t>(to * size),
                      codes.begin() + static_cast<std::ptrdiff_t>((to + 1) * size));
    }
    const auto sum = buckets[members[to]].encode_sum(received);
    gathered.insert(gathered.end(), sum.begin(), sum.end());
  }
  std::vector<std::vector<float>> results;
  for (const std::size_t member : members) {
    results.emplace_back(kCount);
    buckets[member].decode_sums(gathered, results.back());
    if (commits) buckets[member].commit_exchange();
  }
  return results;
}

double largest_error(const std::vector<float>& found, const std::vector<double>& expected) {
  double error = 0;
  for (std::size_t i = 0; i < kCount; ++i)
    error = std::max(error, std::abs(found[i] - expected[i]));
  return error;
}

std::vector<double> sum_of(const std::vector<std::vector<float>>& values,
                           const std::vector<std::size_t>& members) {
  std::vector<double> sum(kCount);
  for (const std::size_t member : members) {
    for (std::size_t i = 0; i < kCount; ++i) sum[i] += values[member][i];
  }
  return sum;
}

TEST(CodedBucket, AllMembersGetOneResultNearTheSum) {
  for (const Codec codec : {Codec::bf16, Codec::fp16, Codec::int8, Codec::int4}) {
    Buckets buckets = buckets_of({.codec = codec}, 3);
    const std::vector<std::vector<float>> values{random_values(1), random_values(2),
                                                 random_values(3)};
    const auto results = exchange(buckets, {0, 1, 2}, values);
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
    EXPECT_LT(largest_error(results[0], sum_of(values, {0, 1, 2})), 0.3) << codec_name(codec);
  }
}

TEST(CodedBucket, ErrorFeedbackMakesTheSumOfManyStepsExactUpToOneCode) {
  Buckets buckets = buckets_of({.codec = Codec::int4}, 2);
  const std::vector<std::vector<float>> values{random_values(4), random_values(5)};
  std::vector<double> found(kCount), expected = sum_of(values, {0, 1});
  constexpr int kSteps = 50;
  for (int step = 0; step < kSteps; ++step) {
    const auto results = exchange(buckets, {0, 1}, values);
    for (std::size_t i = 0; i < kCount; ++i) found[i] += results[0][i];
  }
  for (std::size_t i = 0; i < kCount; ++i) EXPECT_NEAR(found[i], kSteps * expected[i], 0.5);
}

TEST(CodedBucket, AnExchangeWithoutACommitCanBeRepeated) {
  Buckets buckets = buckets_of({.codec = Codec::int8}, 2),
          other = buckets_of({.codec = Codec::int8}, 2);
  const std::vector<std::vector<float>> values{random_values(6), random_values(7)};
  exchange(buckets, {0, 1}, values);
  exchange(other, {0, 1}, values);
  exchange(buckets, {0, 1}, values, false);
  EXPECT_EQ(exchange(buckets, {0, 1}, values), exchange(other, {0, 1}, values));
}

TEST(CodedBucket, SurvivorsKeepTheValuesThatTheirCodesHaveLeftOut) {
  Buckets buckets = buckets_of({.codec = Codec::top_k, .parameter = 0.1}, 3);
  const std::vector<std::vector<float>> values{random_values(8), random_values(9),
                                               random_values(10)};
  const std::vector<std::vector<float>> zeros(3, std::vector<float>(kCount));
  exchange(buckets, {0, 1, 2}, values);
  const auto results = exchange(buckets, {0, 2}, zeros);
  EXPECT_EQ(results[0], results[1]);
  EXPECT_TRUE(std::any_of(results[0].begin(), results[0].end(), [](float v) { return v != 0; }));
}

TEST(CodedBucket, BytesAreThoseOfTheSimulator) {
  const CodecRule rule{.codec = Codec::int8, .parameter = 8};
  Buckets buckets = buckets_of(rule, 4);
  exchange(buckets, {0, 1, 2, 3}, std::vector<std::vector<float>>(4, random_values(11)));
  // Parts of 250 values: 32 blocks of 8, the last one not full.
  EXPECT_EQ(buckets[0].sent_bytes(), 2 * 3 * (250 + 32 * 4));
  EXPECT_NEAR(buckets[0].sent_bytes(), exchange_bytes(rule, kCount, 4), 2 * 3 * 4);
}

TEST(CodedBucket, ImpossibleCodesAndRulesAreRefused) {
  EXPECT_THROW(CodedBucket({.codec = Codec::int4, .parameter = 7}, kCount), Error);
  Buckets buckets = buckets_of({.codec = Codec::int8}, 2);
  std::vector<std::byte> codes = buckets[0].encode_parts(random_values(12), {0, 1}, 0);
  std::fill(codes.begin(), codes.end(), std::byte{0x80});
  EXPECT_THROW(buckets[0].encode_sum(codes), Error);
}

}  // namespace
}  // namespace orrery::live
