#include "traces/jobs/gpu_kinds.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

GpuKinds kinds(const KindColumns& columns) { return GpuKinds(gpu_kinds(columns)); }

/// "column: reason" of the problem.
std::string problem(const KindColumns& columns) {
  try {
    gpu_kinds(columns);
  } catch (const KindProblem& problem) {
    return std::string(problem.column) + ": " + problem.reason;
  }
  return "";
}

TEST(GpuKinds, AbsentColumnsAreAnyKind) { EXPECT_EQ(gpu_kinds({}), ""); }

TEST(GpuKinds, WithoutSpeedsKindsAreEqualAndKeepTheirOrder) {
  const GpuKinds job = kinds({"V100|A100", ""});
  EXPECT_FALSE(job.has_speeds());
  EXPECT_EQ(job.by_speed()[0].kind, "V100");
  EXPECT_EQ(job.by_speed()[1].kind, "A100");
  EXPECT_EQ(*job.speed_on("A100"), 1);
  EXPECT_EQ(job.speed_on("H100"), nullptr);
}

TEST(GpuKinds, SpeedsAreRelativeToTheFirstKind) {
  const GpuKinds job = kinds({"V100|T4|A100", " A100:90  T4:45 V100:45 H100:200"});
  EXPECT_TRUE(job.has_speeds());
  EXPECT_EQ(job.by_speed()[0].kind, "A100");
  EXPECT_EQ(job.by_speed()[0].speed, 2);
  EXPECT_EQ(job.by_speed()[1].kind, "V100");
  EXPECT_EQ(job.by_speed()[2].kind, "T4");
  EXPECT_EQ(job.speed_on("H100"), nullptr);
  EXPECT_EQ(job.gpu_kind(), "V100|T4|A100");
  EXPECT_EQ(job.speeds(), "A100:90 T4:45 V100:45 H100:200");
}

TEST(GpuKinds, SpeedsAloneNameTheKinds) {
  const GpuKinds job = kinds({"", "V100:1 A100:4"});
  EXPECT_EQ(job.gpu_kind(), "V100|A100");
  EXPECT_EQ(*job.speed_on("A100"), 4);
}

TEST(GpuKinds, ProblemsNameTheirColumn) {
  EXPECT_EQ(problem({"A100|V100", "A100:1"}),
            "speeds: speeds lacks the kind 'V100' of gpu_kind 'A100|V100'");
  EXPECT_EQ(problem({"", "A100:1 V100:1001"}).substr(0, 28), "speeds: speeds must be at mo");
  EXPECT_EQ(problem({"", "A100:1000 V100:1"}), "");
  for (const char* const text : {"A100|", "|A100", "A100|A100", "A 100"}) {
    EXPECT_EQ(problem({text, ""}).substr(0, 9), "gpu_kind:") << text;
  }
  for (const char* const text : {"A100", "A100:", ":1", "A100:0", "A100:-1", "A100:1 A100:2"}) {
    EXPECT_EQ(problem({"", text}).substr(0, 7), "speeds:") << text;
  }
}

}  // namespace
}  // namespace orrery
