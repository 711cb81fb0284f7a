#include "live/codec/gradient_codes.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

constexpr const char* kGroup = "gloo:0:0-1#0";
constexpr CodecRule kInt8{.codec = Codec::int8};

TEST(GradientCodes, OnlyBackwardPassesHaveBucketsAndTheyKeepTheirMemory) {
  GradientCodes codes;
  codes.set_rule(kInt8);
  EXPECT_EQ(codes.claim_bucket(kGroup, 100), nullptr);
  codes.begin_backward();
  EXPECT_TRUE(codes.is_in_backward());
  const auto first = codes.claim_bucket(kGroup, 100), second = codes.claim_bucket(kGroup, 50);
  EXPECT_NE(first, second);
  codes.end_backward();
  EXPECT_EQ(codes.claim_bucket(kGroup, 100), nullptr);
  codes.begin_backward();
  EXPECT_EQ(codes.claim_bucket(kGroup, 100), first);
  EXPECT_EQ(codes.claim_bucket(kGroup, 50), second);
  EXPECT_NE(codes.claim_bucket("gloo:1:0-1#0", 100), first);
}

TEST(GradientCodes, AnotherSizeOrRuleIsAnotherBucket) {
  GradientCodes codes;
  codes.begin_backward();
  EXPECT_EQ(codes.claim_bucket(kGroup, 100), nullptr);
  codes.set_rule(kInt8);
  const auto bucket = codes.claim_bucket(kGroup, 100);
  codes.begin_backward();
  EXPECT_EQ(codes.claim_bucket(kGroup, 99)->count(), 99u);
  codes.set_rule({.codec = Codec::bf16});
  codes.begin_backward();
  EXPECT_EQ(codes.claim_bucket(kGroup, 99)->rule().codec, Codec::bf16);
  codes.set_rule({});
  codes.begin_backward();
  EXPECT_EQ(codes.claim_bucket(kGroup, 99), nullptr);
}

TEST(GradientCodes, SentBytesAreAddedUp) {
  GradientCodes codes;
  codes.add_sent_bytes(3);
  codes.add_sent_bytes(4);
  EXPECT_EQ(codes.sent_bytes(), 7);
}

}  // namespace
}  // namespace orrery::live
