// The `collective-table` policy over whole runs of real ranks.
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/live/live_run.hpp"
#include "tests/policies/toy_log.hpp"

namespace orrery::live {
namespace {

using Algorithm = CollectiveAlgorithm;

/// What summed gradients in a recorded run of four real ranks, in order, and how decisions ended.
struct Seen {
  std::vector<Algorithm> ran;
  std::map<std::uint32_t, int> outcomes;
  Report report;
};

Seen run_with(const std::string& algorithm) {
  const std::string log = ::testing::TempDir() + "/collectives-" + algorithm + ".log";
  RunRequest asked = request({"policies=[{name: collective-table, parameters: {rules: [{kind: "
                              "all-reduce, algorithm: " + algorithm + "}]}}]"});
  asked.set_record(log);
  Seen seen;
  seen.report = run_in_worker(kProgram, asked);
  for (const LogRecord& record : toy::read_log(log)) {
    for (const CollectiveRecord& each : record.call().observation().collectives()) {
      seen.ran.push_back(static_cast<Algorithm>(each.algorithm()));
    }
    for (const EventRecord& event : record.call().observation().events()) {
      if (event.has_decision_outcome()) ++seen.outcomes[event.decision_outcome().status()];
    }
  }
  std::filesystem::remove(log);
  return seen;
}

TEST(LiveCollectiveTable, ThePolicysTableHoldsFromOneStepOnOnAllRanks) {
  const Seen tree = run_with("tree"), automatic = run_with("automatic");
  const auto first = std::find(tree.ran.begin(), tree.ran.end(), Algorithm::tree);
  ASSERT_NE(first, tree.ran.end());
  EXPECT_EQ(std::count(first, tree.ran.end(), Algorithm::tree), tree.ran.end() - first);
  EXPECT_EQ(tree.outcomes.at(static_cast<std::uint32_t>(Outcome::applied)), 1);
  ASSERT_FALSE(automatic.ran.empty());
  for (const Algorithm each : automatic.ran) {  // it says what ran
    EXPECT_TRUE(each == Algorithm::ring || each == Algorithm::halving_doubling);
  }
  // Whole numbers have one sum, whoever adds first.
  EXPECT_EQ(tree.report.parameters_sha256(), automatic.report.parameters_sha256());
}

TEST(LiveCollectiveTable, ATableThatRanksOnCpusCannotCarryOutIsRejectedAndHarmsNothing) {
  const Seen seen = run_with("nvls");
  EXPECT_EQ(seen.outcomes.at(static_cast<std::uint32_t>(Outcome::rejected)), 1);
  EXPECT_EQ(seen.report.steps_completed(), 6u);
}

}  // namespace
}  // namespace orrery::live
