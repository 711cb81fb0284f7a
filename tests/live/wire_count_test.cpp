#include "live/wire_count.hpp"

#include <gtest/gtest.h>

#include "live/gradient_exchange.hpp"
#include "live/model.hpp"
#include "policies/compression/codec_uses.hpp"

namespace orrery::live {
namespace {

Model model(const std::string& builtin) {
  Model out;
  out.set_builtin(builtin);
  return out;
}

const std::vector<GradientTensor> kTensors = {
    {.offset = 0, .rows = 10, .columns = 20, .bucket_class = kEmbeddings},
    {.offset = 200, .rows = 30, .columns = 1, .bucket_class = kVectors},
    {.offset = 230, .rows = 30, .columns = 10, .bucket_class = kMatrices},
    {.offset = 530, .rows = 10, .columns = 10, .bucket_class = kMatrices}};

TEST(WireCount, EveryProcessOfARankCountsAndTheNewestOfEachIsIt) {
  WireCount count({});
  count.sent(0, 0, 100);
  count.sent(0, 0, 80);  // came late
  count.sent(0, 1, 50);  // the replacement begins at nothing
  count.sent(1, 0, 7);
  Report report;
  count.fill(report);
  EXPECT_EQ(report.bytes_on_wire(), 157);
  EXPECT_EQ(report.codecs_size(), 0);
}

TEST(WireCount, SaysInWhichCodesEachClassTravelled) {
  WireCount count(kTensors);
  count.exchanged({}, 4);
  const std::vector<CodecRule> rules = {{.codec = Codec::power_sgd, .parameter = 2},
                                        {.bucket_class = kEmbeddings, .codec = Codec::bf16}};
  count.exchanged(rules, 3);
  Report report;
  count.fill(report);
  const auto use = [&](std::string_view codec, std::string_view bucket_class) {
    for (const CodecUse& each : report.codecs()) {
      if (each.codec() == codec && each.bucket_class() == bucket_class) {
        return std::pair(each.gradient_bytes(), each.code_bytes());
      }
    }
    return std::pair(-1.0, -1.0);
  };
  using Pair = std::pair<double, double>;
  EXPECT_EQ(report.codecs_size(), 5);
  EXPECT_EQ(use("none", "matrices"), Pair(4 * 1600, 4 * 1600));
  EXPECT_EQ(use("none", "vectors"), Pair(7 * 120, 7 * 120)) << "no vector goes by PowerSGD";
  EXPECT_EQ(use("bf16", "embeddings"), Pair(3 * 800, 3 * 400));
  EXPECT_EQ(use("power_sgd", "matrices"), Pair(3 * 1600, 3 * 4 * 2 * (30 + 10 + 10 + 10)));
}

TEST(WireCount, TheCodesOfAReportAreThoseOfTheModelsTensors) {
  const std::vector<CodecRule> rules = {{.codec = Codec::power_sgd, .parameter = 2},
                                        {.bucket_class = kEmbeddings, .codec = Codec::bf16}};
  for (const char* name : {"language-model", "transformer"}) {
    const auto tensors = gradient_tensors(make_network(name, Rng(0))->tensors());
    const auto parts = gradient_parts(model(name));
    ASSERT_EQ(parts.size(), tensors.size()) << name;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      SCOPED_TRACE(std::string(name) + ", tensor " + std::to_string(i));
      EXPECT_EQ(parts[i].count, tensors[i].size());
      EXPECT_EQ(parts[i].bucket_class, tensors[i].bucket_class);
      const GradientBucket bucket = cut_buckets({&tensors[i], 1}, rules, 0).front();
      EXPECT_EQ(rule_for(rules, parts[i].bucket_class, parts[i].shape.rows > 0), bucket.rule);
      if (bucket.rule.codec != Codec::power_sgd) continue;
      const FactorShape factors(bucket.rule, bucket.columns, bucket.rows);
      EXPECT_EQ(factor_bytes(bucket.rule, parts[i].shape),
                sizeof(float) * (factors.left_size() + factors.right_size()));
    }
  }
}

}  // namespace
}  // namespace orrery::live
