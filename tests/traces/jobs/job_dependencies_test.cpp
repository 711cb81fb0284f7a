#include "traces/jobs/job_dependencies.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace orrery {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TraceJob job(const char* id, const char* after) {
  TraceJob job;
  job.id = id;
  job.after = after;
  return job;
}

TEST(JobDependencies, NameRowsOnceAndCountUnknownIds) {
  const JobDependencies found = job_dependencies(
      {job("7", ""), job("9", "7"), job("x", " 9  7 9 nobody"), job("y", "nobody")});
  EXPECT_THAT(found.after, ElementsAre(Pair(1, ElementsAre(0)), Pair(2, ElementsAre(0, 1))));
  EXPECT_EQ(found.unknown, 2u);
  EXPECT_FALSE(first_circular(found));
}

TEST(JobDependencies, TheFirstJobWithAnIdCounts) {
  const JobDependencies found = job_dependencies({job("7", ""), job("7", ""), job("9", "7")});
  EXPECT_THAT(found.after, ElementsAre(Pair(2, ElementsAre(0))));
}

TEST(JobDependencies, JobsThatWaitForThemselvesAreFound) {
  EXPECT_EQ(first_circular(job_dependencies({job("1", ""), job("2", "2")})), 1u);
  EXPECT_EQ(first_circular(job_dependencies(
                {job("1", ""), job("2", "1"), job("3", "2 4"), job("4", "3"), job("5", "4")})),
            2u);
}

}  // namespace
}  // namespace orrery
