// The `collective-table` policy over whole runs of real ranks.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/live/live_run.hpp"
#include "tests/live/watching.hpp"

namespace orrery::live {
namespace {

using Algorithm = CollectiveAlgorithm;

/// Algorithms that summed gradients in a run of four real ranks, in order, and the outcomes of
/// decisions.
struct Seen {
  std::vector<Algorithm> ran;
  std::vector<Decided> outcomes;
  Report report;
};

Seen run_with(const std::string& algorithm) {
  const RunRequest asked = request({"policies=[{name: collective-table, parameters: {rules: [{kind:"
                                    " all-reduce, algorithm: " + algorithm + "}]}}]"});
  Watching policy(asked.scenario());
  Seen seen;
  seen.report = run_in_worker(kProgram, asked, &policy);
  for (const CollectiveSample& each : policy.collectives()) seen.ran.push_back(each.algorithm);
  seen.outcomes = policy.all<Decided>();
  return seen;
}

TEST(LiveCollectiveTable, ThePolicysTableHoldsFromOneStepOnOnAllRanks) {
  const Seen tree = run_with("tree"), automatic = run_with("automatic");
  const auto first = std::find(tree.ran.begin(), tree.ran.end(), Algorithm::tree);
  ASSERT_NE(first, tree.ran.end());
  EXPECT_EQ(std::count(first, tree.ran.end(), Algorithm::tree), tree.ran.end() - first);
  ASSERT_EQ(tree.outcomes.size(), 1u);
  EXPECT_EQ(tree.outcomes[0].status, Outcome::applied) << tree.outcomes[0].reason;
  ASSERT_FALSE(automatic.ran.empty());
  for (const Algorithm each : automatic.ran) {  // the sample names the used algorithm
    EXPECT_TRUE(each == Algorithm::ring || each == Algorithm::halving_doubling);
  }
  // Whole numbers have one sum, whoever adds first.
  EXPECT_EQ(tree.report.parameters_sha256(), automatic.report.parameters_sha256());
}

TEST(LiveCollectiveTable, ATableThatRanksOnCpusCannotCarryOutIsRejectedAndHarmsNothing) {
  const Seen seen = run_with("nvls");
  ASSERT_EQ(seen.outcomes.size(), 1u);
  EXPECT_EQ(seen.outcomes[0].status, Outcome::rejected);
  EXPECT_EQ(seen.outcomes[0].reason, "ranks on CPUs sum by ring, tree or halving-doubling");
  EXPECT_EQ(seen.report.steps_completed(), 6u);
}

}  // namespace
}  // namespace orrery::live
