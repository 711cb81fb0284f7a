#include "sim/estimates/prices/gradient_codes.hpp"

#include <gtest/gtest.h>

#include "traces/workload/model.hpp"

namespace orrery::estimates {
namespace {

Job builtin() {
  Job job;
  job.mutable_model()->set_builtin("language-model");
  return job;
}

constexpr double kValues = builtin_parameter_count();

GradientCodes codes(const std::vector<CodecRule>& rules, double plain_bytes = 0) {
  GradientCodes out(builtin(), plain_bytes, known_speeds(builtin(), 0));
  out.set_rules(rules);
  return out;
}

TEST(GradientCodes, WithoutRulesGradientsTravelAsTheyAre) {
  EXPECT_EQ(codes({}).coded_all_reduce(4 * kValues, 4).bytes, 4 * kValues);
  EXPECT_EQ(codes({}, 8).coded_all_reduce(4 * kValues, 4).bytes, 8 * kValues) << "whole numbers";
  EXPECT_EQ(codes({}).coded_all_reduce(4 * kValues, 4).coding.value, 0);
  EXPECT_FALSE(codes({}).coded_all_reduce(4 * kValues, 4).in_two_steps);
}

TEST(GradientCodes, OneRuleForAllIsTheFormulaOfTheCodec) {
  for (const Codec codec : {Codec::bf16, Codec::int8, Codec::int4, Codec::top_k}) {
    const CodecRule rule{.codec = codec};
    const Travel travel = codes({rule}, 8).coded_all_reduce(4 * kValues, 4);
    EXPECT_EQ(travel.bytes, double(codec_bytes(rule, builtin_parameter_count())));
    EXPECT_DOUBLE_EQ(travel.coding.value, exchange_codec_seconds(builtin_parameter_count(), 4,
                                                                 cpu_throughput(codec)));
    EXPECT_TRUE(travel.in_two_steps);
  }
}

TEST(GradientCodes, ClassesMayHaveRulesOfTheirOwn) {
  const CodecRule int4{.codec = Codec::int4};
  const CodecRule plain{.bucket_class = kEmbeddings, .codec = Codec::none};
  const Travel travel = codes({int4, plain}).coded_all_reduce(4 * kValues, 2);
  const std::uint64_t table = 256 * 24;
  EXPECT_EQ(travel.bytes, double(codec_bytes(int4, builtin_parameter_count() - table) + 4 * table));
}

TEST(GradientCodes, APartOfTheGradientHasItsShareOfEveryClass) {
  const CodecRule bf16{.codec = Codec::bf16};
  EXPECT_EQ(codes({bf16}).coded_all_reduce(4 * kValues / 2, 2).bytes, kValues);
}

TEST(GradientCodes, AJobInSixteenBitsSendsItsOwnSize) {
  Job job;
  job.mutable_model()->set_layers(2);
  job.mutable_model()->set_hidden(64);
  job.mutable_model()->set_heads(4);
  job.mutable_model()->set_kv_heads(4);
  job.mutable_model()->set_feed_forward(256);
  job.mutable_model()->set_vocabulary(1000);
  job.set_precision("bf16");
  GradientCodes out(job, 0, known_speeds(job, 3e12));
  EXPECT_EQ(out.coded_all_reduce(2e6, 8).bytes, 2e6);
  out.set_rules({{.codec = Codec::bf16}});
  EXPECT_NEAR(out.coded_all_reduce(2e6, 8).bytes, 2e6, 8) << "as many bytes as before";
  EXPECT_GT(out.coded_all_reduce(2e6, 8).coding.value, 0);
}

}  // namespace
}  // namespace orrery::estimates
