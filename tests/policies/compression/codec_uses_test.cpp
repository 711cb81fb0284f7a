#include "policies/compression/codec_uses.hpp"

#include <gtest/gtest.h>

#include "traces/workload/model.hpp"

namespace orrery {
namespace {

const std::vector<GradientPart> kParts = {
    {.count = 200, .bucket_class = kEmbeddings, .shape = {10, 20}},
    {.count = 30, .bucket_class = kVectors},
    {.count = 300, .shape = {30, 10}},
    {.count = 100, .shape = {10, 10}}};
const std::vector<CodecRule> kRules = {{.codec = Codec::power_sgd, .parameter = 2},
                                       {.bucket_class = kEmbeddings, .codec = Codec::bf16}};

using Pair = std::pair<double, double>;

/// Bytes of the gradients and of their codes; -1: not in the report.
Pair use(const Report& report, std::string_view codec, std::string_view bucket_class) {
  for (const CodecUse& each : report.codecs()) {
    if (each.codec() == codec && each.bucket_class() == bucket_class) {
      return {each.gradient_bytes(), each.code_bytes()};
    }
  }
  return {-1, -1};
}

TEST(CodecUses, SaysInWhichCodesEachClassTravelled) {
  CodecUses uses(kParts);
  uses.add_steps({}, 4);
  uses.add_steps(kRules, 3);
  Report report;
  uses.fill(report);
  EXPECT_EQ(report.codecs_size(), 5);
  EXPECT_EQ(use(report, "none", "matrices"), Pair(4 * 1600, 4 * 1600));
  EXPECT_EQ(use(report, "none", "vectors"), Pair(7 * 120, 7 * 120)) << "no vector goes by PowerSGD";
  EXPECT_EQ(use(report, "bf16", "embeddings"), Pair(3 * 800, 3 * 400));
  EXPECT_EQ(use(report, "power_sgd", "matrices"), Pair(3 * 1600, 3 * 4 * 2 * (30 + 10 + 10 + 10)));
}

TEST(CodecUses, EqualStepsCountTogether) {
  CodecUses one_by_one(kParts), together(kParts);
  for (int i = 0; i < 5; ++i) one_by_one.add_steps(kRules, 3);
  together.add_steps(kRules, 3, 5);
  Report a, b;
  one_by_one.fill(a);
  together.fill(b);
  EXPECT_EQ(a.SerializeAsString(), b.SerializeAsString());
}

TEST(CodecUses, OneReplicaAloneSendsNothing) {
  CodecUses uses(kParts);
  uses.add_steps(kRules, 1);
  Report report;
  uses.fill(report);
  EXPECT_EQ(report.codecs_size(), 0);
}

TEST(CodecUses, WithoutCodesAValueHasTheJobsBytes) {
  CodecUses uses(kParts, 2);
  uses.add_steps({}, 2);
  Report report;
  uses.fill(report);
  EXPECT_EQ(use(report, "none", "matrices"), Pair(2 * 1600, 2 * 800));
}

TEST(CodecUses, ThePartsOfAModelAreItsParametersByClass) {
  for (const char* name : {"language-model", "transformer", ""}) {
    Model model;
    model.set_builtin(name);
    if (model.builtin().empty()) {
      model.set_preset("llama3-8b");
      resolve(model, {}, "model");
    }
    double counts[kBucketClasses] = {};
    for (const GradientPart& part : gradient_parts(model)) {
      counts[part.bucket_class] += static_cast<double>(part.count);
      EXPECT_EQ(part.shape.rows == 0, part.bucket_class == kVectors);
    }
    const GradientClasses expected = gradient_classes(model);
    EXPECT_EQ(counts[kMatrices], expected.matrices) << name;
    EXPECT_EQ(counts[kVectors], expected.vectors) << name;
    EXPECT_EQ(counts[kEmbeddings], expected.embeddings) << name;
  }
}

}  // namespace
}  // namespace orrery
