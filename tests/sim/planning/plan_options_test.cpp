#include "sim/planning/plan_options.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery::sim {
namespace {

TEST(PlanOptions, NumbersHaveSuffixes) {
  EXPECT_EQ(number_of("--tokens", "2T"), 2e12);
  EXPECT_EQ(number_of("--tokens", "15.6T"), 15.6e12);
  EXPECT_EQ(number_of("--tokens", "300B"), 3e11);
  EXPECT_EQ(number_of("--tokens", "2e12"), 2e12);
  for (const char* wrong : {"", "T", "2 T", "-1", "0", "2X", "inf", "nan", "1e308T"}) {
    EXPECT_THROW(number_of("--tokens", wrong), Error) << wrong;
  }
}

TEST(PlanOptions, DatesAreDaysApart) {
  EXPECT_EQ(seconds_between("--deadline", "2027-01-01", "2027-03-01"), 59 * 86'400.0);
  EXPECT_EQ(seconds_between("--deadline", "2028-02-28", "2028-03-01"), 2 * 86'400.0);
  for (const char* wrong : {"2027-01-01", "2026-12-31", "2027-02-30", "2027-3-1x", "soon", ""}) {
    EXPECT_THROW(seconds_between("--deadline", "2027-01-01", wrong), Error) << wrong;
  }
}

TEST(PlanOptions, RangesBecomeSizes) {
  PlanOptions options;
  options.gpus = "64..512";
  EXPECT_EQ(question_of(options, {}).gpus,
            (std::vector<std::uint32_t>{512, 384, 256, 192, 128, 64}));
  options.gpus = "512..512";
  EXPECT_EQ(question_of(options, {}).gpus, (std::vector<std::uint32_t>{512}));
  options.gpus = "256,512";
  options.clusters = "dgx-h100,dgx-a100";
  const PlanQuestion question = question_of(options, {});
  EXPECT_EQ(question.gpus, (std::vector<std::uint32_t>{256, 512}));
  EXPECT_EQ(question.clusters, (std::vector<std::string>{"dgx-h100", "dgx-a100"}));
  EXPECT_NEAR(question.confidence, 0.8, 1e-12);
}

}  // namespace
}  // namespace orrery::sim
