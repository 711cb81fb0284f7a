#include "live/training/wire_count.hpp"

#include <gtest/gtest.h>

#include "live/training/gradient_exchange.hpp"
#include "live/training/model.hpp"

namespace orrery::live {
namespace {

Model model(const std::string& builtin) {
  Model out;
  out.set_builtin(builtin);
  return out;
}

TEST(WireCount, EveryProcessOfARankCountsAndTheNewestOfEachIsIt) {
  WireCount count(model("transformer"));
  count.record_sent_bytes(0, 0, 100);
  count.record_sent_bytes(0, 0, 80);  // came late
  count.record_sent_bytes(0, 1, 50);  // the replacement begins at nothing
  count.record_sent_bytes(1, 0, 7);
  Report report;
  count.fill(report);
  EXPECT_EQ(report.bytes_on_wire(), 157);
  EXPECT_EQ(report.codecs_size(), 0);
  count.add_step({}, 2);
  count.fill(report);
  EXPECT_EQ(report.codecs_size(), 3) << "one for each class";
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
