// Planned moves over whole runs of real ranks, and in the simulator: their price in steps, and the
// same parameters as a run without them.
#include <algorithm>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/live/slots.hpp"

namespace orrery::live {
namespace {

/// Steps of 0.4 s: long against the time in which ranks link.
const std::string kPace = "job.pace.micro_batch=200 ms";
const std::string kRecover = "policies=[{name: recover}]";

/// Returns the duration of the run beyond its steps, in steps.
double price(const Report& report) {
  std::vector<double> times(report.step_times_s().begin(), report.step_times_s().end());
  std::ranges::sort(times);
  const double step = times.at(times.size() / 2);
  const auto steps = static_cast<double>(report.steps_completed());
  return (report.elapsed_s() - steps * step) / step;
}

/// Runs the fault in both worlds, and expects a price of at most `most` steps, no loss and no
/// difference of the parameters.
void expect_cheap(const std::string& fault, double most, std::vector<std::string> more,
                  int steps = 14) {
  more.insert(more.begin(), {kPace, kRecover});
  const Report calm = run_in_worker(kProgram, eight_slots(steps, more));
  more.push_back(fmt::format("faults=[{}]", fault));
  const RunRequest asked = eight_slots(steps, more);
  const Report live = run_in_worker(kProgram, asked);
  const Report simulated = run_in_worker(kSimulator, asked);
  for (const Report* each : {&live, &simulated}) {
    EXPECT_EQ(each->steps_completed(), static_cast<std::uint64_t>(steps));
    EXPECT_EQ(each->decisions(), 1u);
    EXPECT_EQ(each->failures_size(), 0) << "no rank is lost";
    EXPECT_EQ(each->ranks_missing(), 0u);
    EXPECT_EQ(each->micro_batches_recomputed(), 0u) << "no step is repeated";
    EXPECT_LE(price(*each), most);
  }
  EXPECT_EQ(live.parameters_sha256(), calm.parameters_sha256());
  EXPECT_EQ(live.decision_trace_sha256(), simulated.decision_trace_sha256());
  fmt::print("{}: {:.2f} steps live, {:.2f} simulated, {:.2f} without a move\n", fault, price(live),
             price(simulated), price(calm));
  expect_nothing_left();
}

TEST(Planned, AMoveOfOneRankCostsAtMostOneStep) {
  expect_cheap("{at_step: 10, gpu: 2, down: true, notice_steps: 6}", 1, {"survival.warm=2"});
  expect_cheap("{at_step: 12, gpu: 2, down: true, notice_steps: 8}", 1, {});
}

TEST(Planned, AMoveOfFourRanksCostsAtMostTwoSteps) {
  expect_cheap("{at_step: 12, node: 0, down: true, notice_steps: 8}", 2, {});
}

TEST(Planned, AMoveOfFourRanksThatShardTheirStateCostsAtMostTwoSteps) {
  // They join in one epoch and leave in another one, because the other node holds all copies.
  // The two epochs take a time that does not depend on the step.
  expect_cheap("{at_step: 8, node: 0, down: true, notice_steps: 6}", 2,
               {"job.layout.shard=optimizer", "job.pace.micro_batch=400 ms"}, 10);
}

TEST(Planned, AControllerThatDiesDuringTheMoveOfAllRanksLosesNothing) {
  const std::vector<std::string> more{kRecover, "job.pace.micro_batch=50 ms"};
  const Report calm = run_in_worker(kProgram, eight_slots(30, more));
  RunRequest asked = eight_slots(
      30, {more[0], more[1], "faults=[{at_step: 28, node: 0, down: true, notice_steps: 20}]"});
  std::jthread killer([](const std::stop_token& stop) {
    const auto joins = [&stop] { return stop.stop_requested() || agents().size() > 4; };
    if (!eventually(joins) || stop.stop_requested()) return;
    for (const pid_t controller : controllers()) kill(controller, SIGKILL);
  });
  const Report report = run_in_worker(kProgram, asked);
  killer.request_stop();
  EXPECT_EQ(report.controller_restarts(), 1u);
  EXPECT_EQ(report.steps_completed(), 30u);
  EXPECT_EQ(report.failures_size(), 0);
  EXPECT_EQ(report.ranks_missing(), 0u);
  EXPECT_EQ(report.parameters_sha256(), calm.parameters_sha256());
  expect_nothing_left();
}

}  // namespace
}  // namespace orrery::live
