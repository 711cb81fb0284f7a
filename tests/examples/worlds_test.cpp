// Example policies in both worlds: in the simulator and over real processes they see the same kinds
// of events and their decisions are applied.
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "policies/record/encoding.hpp"
#include "tests/examples/by_name.hpp"
#include "tests/live/live_run.hpp"
#include "tests/live/watching.hpp"

namespace orrery::live {
namespace {

const std::string kSimulator = ORRERY_BINARY_DIR "/bin/orrery-sim";
constexpr const char* kKill = "faults=[{at_step: 5, rank: 2, kill: true}]";

/// Run of four ranks under an example policy: its report, the policy's observations, and each
/// decision with its outcome.
struct Ran {
  Report report;
  std::vector<std::string> decided;
  std::vector<JobStarted> started;
  std::vector<SaveDone> saved;
};

Ran run(const std::string& program, const RunRequest& asked, const std::string& name,
        double number) {
  const auto policy = example::by_name(name, number);
  Rng rng(1);
  Context context{rng, {}};
  std::map<DecisionId, std::string> lines;
  Watching watching(policy->needs(), [&](const Observation& seen, DecisionList& decisions) {
    policy->observe(context, seen, decisions);
    for (const Decision& each : decisions.items()) lines[each.id] = trace_line(each);
  });
  Ran ran;
  ran.report = run_in_worker(program, asked, &watching);
  for (const Decided& each : watching.all<Decided>()) {
    const bool applied = each.status == Outcome::applied;
    ran.decided.push_back(lines.at(each.decision) + (applied ? "" : " no: " + each.reason));
  }
  ran.started = watching.all<JobStarted>();
  ran.saved = watching.all<SaveDone>();
  return ran;
}

struct Both {
  Ran live, simulated;
};

Both in_both(const std::string& name, double number, int steps,
             std::vector<std::string> more = {}) {
  more.insert(more.end(), {brisk_pace(), fmt::format("run.steps={}", steps)});
  const RunRequest asked = request(more);
  Both both{run(kProgram, asked, name, number), run(kSimulator, asked, name, number)};
  for (const Ran* each : {&both.live, &both.simulated}) {
    EXPECT_EQ(each->report.steps_completed(), static_cast<unsigned>(steps));
    EXPECT_EQ(each->report.micro_batches_lost(), 0u);
    EXPECT_EQ(each->report.micro_batches_repeated(), 0u);
  }
  expect_nothing_left();
  return both;
}

std::vector<std::size_t> sizes(const Ran& ran) {
  std::vector<std::size_t> found;
  for (const JobStarted& each : ran.started) found.push_back(each.where.gpus.size());
  return found;
}

TEST(ExamplePolicy, RecoversByTheCheapestWayInBothWorlds) {
  const Both waits = in_both("cheapest_recovery", 0.1, 40, {kKill});
  EXPECT_EQ(waits.live.decided, waits.simulated.decided);
  EXPECT_EQ(waits.live.report.decision_trace_sha256(),
            waits.simulated.report.decision_trace_sha256());
  EXPECT_EQ(sizes(waits.live), (std::vector<std::size_t>{4, 4}));
  EXPECT_EQ(sizes(waits.simulated), sizes(waits.live));

  const Both shrinks = in_both("cheapest_recovery", 1000, 20, {kKill});
  EXPECT_EQ(shrinks.live.report.decision_trace_sha256(),
            shrinks.simulated.report.decision_trace_sha256());
  EXPECT_EQ(sizes(shrinks.live), (std::vector<std::size_t>{4, 3}));
  EXPECT_EQ(sizes(shrinks.simulated), sizes(shrinks.live));
}

/// Its second decision is taken after a time, so in another step here than there.
TEST(ExamplePolicy, ShrinksAndGrowsInBothWorlds) {
  const Both both = in_both("elastic", 0.2, 80, {kKill});
  for (const Ran* each : {&both.live, &both.simulated}) {
    EXPECT_EQ(sizes(*each), (std::vector<std::size_t>{4, 3, 4}));
    ASSERT_EQ(each->decided.size(), 2u);
    EXPECT_EQ(each->decided[0], both.simulated.decided[0]);
    EXPECT_EQ(each->decided[1].find(" no: "), std::string::npos) << each->decided[1];
  }
  const Report calm = run_in_worker(kProgram, request({brisk_pace(), "run.steps=80"}));
  EXPECT_EQ(both.live.report.parameters_sha256(), calm.parameters_sha256());
}

TEST(ExamplePolicy, SavesAsOftenAsItPaysInBothWorlds) {
  const std::string folder = ::testing::TempDir() + "orrery_adapts." + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  const Both both = in_both("adaptive_checkpoints", 10, 40,
                            {fmt::format("checkpoints={{folder: {}, every: 1000}}", folder)});
  for (const Ran* each : {&both.live, &both.simulated}) {
    // Ten steps to observe the cost of a checkpoint; then by Young, which depends on a step's time:
    // at most sqrt(2 x 1 ms x 11 s) / 40 ms = 3.7 steps.
    ASSERT_GE(each->decided.size(), 2u);
    EXPECT_EQ(each->decided[0], both.simulated.decided[0]);
    EXPECT_GE(each->saved.size(), 4u);
    for (const SaveDone& saved : each->saved) EXPECT_TRUE(saved.durable);
    EXPECT_EQ(each->saved[0].step, 10u);
    for (const std::string& line : each->decided) EXPECT_EQ(line.find(" no: "), std::string::npos);
  }
  std::filesystem::remove_all(folder);
}

TEST(ExamplePolicy, TriesEachAlgorithmInBothWorlds) {
  const Both both = in_both("collective_tuner", 3, 30);
  for (const Ran* each : {&both.live, &both.simulated}) {
    ASSERT_EQ(each->decided.size(), 4u) << "three to try, and the best of them";
    for (const std::string& line : each->decided) EXPECT_EQ(line.find(" no: "), std::string::npos);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(each->decided[i], both.simulated.decided[i]);
  }
}

}  // namespace
}  // namespace orrery::live
