// Compression study in small: the properties on which its tables rest.
#include "tests/bench/compression_study.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

Study small() { return {.ranks = 2, .steps = 60, .warm_up = 5, .sequences = 4, .length = 64}; }

TEST(CompressionStudy, Int4WithFeedbackSendsOver60PercentLessThanBf16AndTrainsAsWell) {
  const StudyRun plain = train(small(), {}, 1);
  const StudyRun bf16 = train(small(), {{.codec = Codec::bf16}}, 1);
  const StudyRun int4 = train(small(), {{.codec = Codec::int4}}, 1);
  EXPECT_TRUE(plain.equal && bf16.equal && int4.equal);
  EXPECT_LT(int4.bytes, 0.4 * bf16.bytes);
  EXPECT_LT(plain.final_loss, 3.5) << "it learns: even bytes would be 5.5 nats";
  EXPECT_NEAR(int4.final_loss, plain.final_loss, 0.05 * plain.final_loss);
}

TEST(CompressionStudy, ACodeThatHarmsIsSeenToHarm) {
  const StudyRun plain = train(small(), {}, 1);
  const CodecRule harm{.codec = Codec::top_k, .parameter = 0.001, .error_feedback = false};
  EXPECT_GT(train(small(), {harm}, 1).final_loss, 1.05 * plain.final_loss);
}

TEST(CompressionStudy, EqualSeedsGiveEqualLossesAndOthersDoNot) {
  const std::vector<CodecRule> rules = {{.codec = Codec::int8}};
  const Study study{.ranks = 2, .steps = 10, .warm_up = 2};
  const double first = train(study, rules, 1).final_loss;
  EXPECT_EQ(train(study, rules, 1).final_loss, first);
  EXPECT_NE(train(study, rules, 2).final_loss, first);
}

}  // namespace
}  // namespace orrery::live
