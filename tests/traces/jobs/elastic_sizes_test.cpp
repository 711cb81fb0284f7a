#include "traces/jobs/elastic_sizes.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

ElasticSizes sizes(const SizeColumns& columns, std::uint32_t gpus) {
  return ElasticSizes(elastic_sizes(columns, gpus));
}

/// "column: reason" of the problem.
std::string problem(const SizeColumns& columns, std::uint32_t gpus) {
  try {
    elastic_sizes(columns, gpus);
  } catch (const SizeProblem& problem) {
    return std::string(problem.column) + ": " + problem.reason;
  }
  return "";
}

TEST(ElasticSizes, AbsentColumnsAreTheRequestedSize) {
  EXPECT_EQ(elastic_sizes({}, 8), "");
  EXPECT_EQ(sizes({"2", "", ""}, 8).least(), 2u);
  EXPECT_EQ(sizes({"2", "", ""}, 8).most(), 8u);
  EXPECT_EQ(sizes({"", "16", ""}, 8).least(), 8u);
  EXPECT_EQ(sizes({"", "16", " 0.9 "}, 8).scaling(), "0.9");
}

TEST(ElasticSizes, WithoutScalingTheSpeedIsProportional) {
  const ElasticSizes job = sizes({"2", "16", ""}, 8);
  EXPECT_EQ(job.relative_speed(2, 8), 0.25);
  EXPECT_EQ(job.relative_speed(8, 8), 1);
  EXPECT_EQ(job.relative_speed(16, 8), 2);
}

TEST(ElasticSizes, AnEfficiencyIsThatOfADoubling) {
  const ElasticSizes job = sizes({"2", "16", "0.9"}, 8);
  EXPECT_DOUBLE_EQ(job.relative_speed(16, 8), 1.8);
  EXPECT_DOUBLE_EQ(job.relative_speed(2, 8), 1 / (1.8 * 1.8));
  EXPECT_DOUBLE_EQ(sizes({"2", "16", "0.5"}, 8).relative_speed(16, 8), 1);
}

TEST(ElasticSizes, ATableIsReadOnStraightLines) {
  const ElasticSizes job = sizes({"1", "8", "1:60  2:110 8:380"}, 4);
  EXPECT_EQ(job.scaling(), "1:60 2:110 8:380");
  EXPECT_DOUBLE_EQ(job.relative_speed(8, 4), 380.0 / 200);
  EXPECT_DOUBLE_EQ(job.relative_speed(1, 4), 60.0 / 200);
  EXPECT_DOUBLE_EQ(job.relative_speed(5, 4), 245.0 / 200);
}

TEST(ElasticSizes, AProblemNamesItsColumn) {
  EXPECT_EQ(problem({"9", "", ""}, 8), "min_gpus: min_gpus is 9, more than the 8 GPUs of the job");
  EXPECT_EQ(problem({"", "7", ""}, 8), "max_gpus: max_gpus is 7, less than the 8 GPUs of the job");
  EXPECT_EQ(problem({"0", "", ""}, 8),
            "min_gpus: min_gpus must be a whole number from 1 to 1048576, not '0'");
  EXPECT_EQ(problem({"", "many", ""}, 8),
            "max_gpus: max_gpus must be a whole number from 1 to 1048576, not 'many'");
  EXPECT_EQ(problem({"2", "16", "4:1 16:2"}, 8),
            "scaling: scaling has the speeds on 4 to 16 GPUs, the job may have 2 to 16");
  for (const char* const text : {"0.4", "1.1", "0.9 0.8", "fast", "nan", "2:1 2:2 16:3", "2:0 16:1",
                                 "2:1 16", "2:x 16:1", "2:1 16:inf", ":"}) {
    EXPECT_EQ(problem({"2", "16", text}, 8),
              "scaling: scaling must be an efficiency from 0.5 to 1, or GPUs and speeds such as "
              "'1:60 2:110 8:380', not '" + std::string(text) + "'");
  }
}

}  // namespace
}  // namespace orrery
