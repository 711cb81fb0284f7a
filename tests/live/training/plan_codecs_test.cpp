#include "live/training/plan_codecs.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

TEST(PlanCodecs, APlanCarriesEveryRuleWhole) {
  const std::vector<CodecRule> rules = {
      {.codec = Codec::int4, .parameter = 64},
      {.bucket_class = kVectors},
      {.bucket_class = kEmbeddings, .codec = Codec::top_k, .parameter = 0.1,
       .error_feedback = false}};
  StepPlan plan;
  set_codecs(rules, plan);
  EXPECT_EQ(codecs_of(plan), rules);
  set_codecs({}, plan);
  EXPECT_TRUE(codecs_of(plan).empty());
  plan.add_codecs()->set_codec(static_cast<CodecNameRecord>(99));
  EXPECT_THROW(codecs_of(plan), Error);
}

TEST(PlanCodecs, EveryCodeButNoneIsLossy) {
  EXPECT_FALSE(lossy({}));
  EXPECT_FALSE(lossy(std::vector<CodecRule>{{}, {.bucket_class = kVectors}}));
  EXPECT_TRUE(lossy(std::vector<CodecRule>{{}, {.bucket_class = kVectors, .codec = Codec::bf16}}));
}

}  // namespace
}  // namespace orrery::live
