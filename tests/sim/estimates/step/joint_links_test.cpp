#include "sim/estimates/step/joint_links.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/sim/estimates/step/jobs_of_units.hpp"

namespace orrery::estimates {
namespace {

JointLinks links_of(JobsOfUnits& jobs) { return joint_links(jobs.planned_jobs()); }

/// Returns the numbers of a job's links, ascending.
std::vector<std::uint32_t> numbers_of(const JointLinks& links, std::size_t job) {
  std::vector<std::uint32_t> used;
  for (const std::uint32_t number : links.numbers[job]) {
    if (number != JointLinks::kNone) used.push_back(number);
  }
  std::sort(used.begin(), used.end());
  EXPECT_TRUE(std::adjacent_find(used.begin(), used.end()) == used.end());
  return used;
}

TEST(JointLinks, LinksThatBothJobsCrossHaveOneNumberAndCoverTheOthers) {
  JobsOfUnits group;
  group.add(0, 4);  // units 0, 1
  group.add(4, 4);  // units 1, 2
  group.add(8, 4);  // units 2, 3
  const JointLinks links = links_of(group);
  ASSERT_EQ(links.numbers.size(), 3u);
  ASSERT_EQ(links.count, 2u) << "the uplinks of units 1 and 2; each job's own links never fill";
  const std::vector<std::uint32_t> first = numbers_of(links, 0), last = numbers_of(links, 2);
  ASSERT_EQ(first.size(), 1u);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_NE(first, last);
  EXPECT_EQ(numbers_of(links, 1), (std::vector<std::uint32_t>{0, 1}));
}

TEST(JointLinks, ALinkOfOneJobStaysIfItIsNarrower) {
  JobsOfUnits group("20 Gbps");
  group.add(0, 4);
  group.add(4, 4);
  const JointLinks links = links_of(group);
  ASSERT_EQ(links.numbers.size(), 2u);
  EXPECT_EQ(links.count, 3u) << "the uplinks of unit 1, and narrow links of each job";
  EXPECT_EQ(numbers_of(links, 0).size(), 2u);
  EXPECT_EQ(numbers_of(links, 1).size(), 2u);
}

}  // namespace
}  // namespace orrery::estimates
