// Whole runs that read data: the stall against its formula, and the policy that raises the readers.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/sim/run.hpp"

namespace orrery::testing {
namespace {

constexpr double kMicroBatches = 8;  // micro-batches of a replica in a step

LoadedScenario job(const std::string& input, const std::string& policies = {}) {
  std::vector<std::string> overrides{"run.steps=60"};
  if (!policies.empty()) overrides.push_back("policies=" + policies);
  if (!input.empty()) overrides.push_back("job.input=" + input);
  return small_scenario(1, 1, 4, {}, overrides);
}

std::string input(double read_s, std::uint32_t workers, std::uint32_t depth,
                  const std::string& more = {}) {
  return fmt::format("{{read: {:.0f} us, workers: {}, prefetch: {}{}}}", read_s * 1e6, workers,
                     depth, more);
}

TEST(Prefetch, AStepIsAsLongAsTheLongerOfItsWorkAndItsReads) {
  const double work = simulate(job("")).step_time_s();
  const double read = 3 * work / kMicroBatches;  // one reader takes three steps for a step's data
  const struct {
    std::uint32_t workers, depth;
  } cases[] = {{1, 2}, {2, 4}, {2, 8}, {4, 8}, {4, 2}, {8, 16}};
  for (const auto& [workers, depth] : cases) {
    const Report report = simulate(job(input(read, workers, depth)));
    const double reads = kMicroBatches * read / std::min(workers, depth);
    const double stall = std::max(0.0, reads - work);
    const std::string which = fmt::format("{} workers, {} ahead", workers, depth);
    EXPECT_NEAR(report.step_time_s(), work + stall, 1e-3 * work) << which;
    EXPECT_NEAR(report.gpu_time().input() / report.ranks() / 60, stall, 1e-3 * work) << which;
  }
}

TEST(Prefetch, PartsOfTheTimeStillSumToTheWhole) {
  const double work = simulate(job("")).step_time_s();
  const Report report = simulate(job(input(work, 2, 4)));
  const Breakdown& parts = report.breakdown();
  EXPECT_GT(parts.input(), 0.5);
  EXPECT_NEAR(parts.compute() + parts.exposed_communication() + parts.bubble() + parts.waiting() +
                  parts.input() + parts.lost(),
              1, 1e-9);
  const GpuTime& time = report.gpu_time();
  EXPECT_NEAR(parts.input(), time.input() / time.total(), 1e-9);
}

TEST(Prefetch, ThePolicyRaisesUntilTheStepIsAsLongAsItsWork) {
  const double work = simulate(job("")).step_time_s();
  const std::string late = input(3 * work / kMicroBatches, 1, 2);
  const Report fixed = simulate(job(late));
  const Report raised = simulate(job(late, "[{name: prefetch}]"));
  EXPECT_NEAR(fixed.step_time_s(), 3 * work, 0.01 * work);
  EXPECT_NEAR(raised.step_time_s(), work, 0.01 * work) << "the median step";
  EXPECT_LT(raised.elapsed_s(), 0.6 * fixed.elapsed_s());
  EXPECT_EQ(raised.decisions(), 2u) << "two readers, then four";
}

TEST(Prefetch, MemoryStopsThePolicy) {
  const double work = simulate(job("")).step_time_s();
  const std::string late =
      input(3 * work / kMicroBatches, 1, 2, ", bytes: 1 GB, memory: 2 GB");
  const Report report = simulate(job(late, "[{name: prefetch}]"));
  EXPECT_NEAR(report.step_time_s(), 1.5 * work, 0.01 * work) << "two micro-batches ahead";
  EXPECT_EQ(report.decisions(), 1u);
}

TEST(Prefetch, FoldedAndFullSimulationAgree) {
  const double work = simulate(job("")).step_time_s();
  const std::string late = input(3 * work / kMicroBatches, 1, 2);
  const Report folded = simulate(job(late, "[{name: prefetch}]"));
  const Report full = simulate(job(late, "[{name: prefetch}]"), {.full_detail = true});
  EXPECT_NEAR(folded.elapsed_s() / full.elapsed_s(), 1, 1e-9);
  EXPECT_NEAR(folded.gpu_time().input() / full.gpu_time().input(), 1, 1e-6);
  EXPECT_EQ(folded.decisions(), full.decisions());
}

}  // namespace
}  // namespace orrery::testing
