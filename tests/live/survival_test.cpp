// Kill -9 at random moments: runs of four ranks in which one after the other is killed and replaced
// must lose nothing, repeat nothing and end with the bits of an undisturbed run. The same with
// ranks that stand still and a controller that is killed. Prints how long it took until all
// survivors knew, worked again, and a replacement worked with them.
//   ORRERY_SURVIVAL="RUNS KILLS"  more of it (./dev soak --kills: 50 20)
//   ORRERY_STEADY=MINUTES         instead: eight ranks, one of them killed every 29 s
//   ORRERY_SEED=N                 another schedule
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/process.hpp"
#include "core/random.hpp"
#include "tests/live/live_run.hpp"

namespace orrery::live {
namespace {

constexpr double kFirst = 0.3, kBetween = 0.35, kSpread = 0.3, kAfter = 1.0;  // seconds
constexpr double kPatience = 3;                // kills come no faster than this times a replacement
constexpr double kStep = 2e-3 * kBriskPaceMs;  // shortest

std::string fault(std::uint64_t rank, double at_s, const char* kind) {
  return fmt::format("{{rank: {}, at_time: {} ns, {}: true}}", rank,
                     static_cast<std::int64_t>(at_s * 1e9), kind);
}

/// Four ranks, two micro-batches each, with these faults.
RunRequest four_ranks(const std::vector<std::string>& faults, int steps) {
  RunRequest request;
  *request.mutable_scenario() =
      load_scenario(ORRERY_SOURCE_DIR "/examples/kill-one-rank.yaml",
                    lighter({"job.global_batch=8", brisk_pace(), fmt::format("run.steps={}", steps),
                             fmt::format("faults=[{}]", fmt::join(faults, ", "))}))
          .scenario;
  request.set_mode("drive");
  request.set_fabric("grpc");
  return request;
}

/// `kills` ranks, each at a moment of its own, at least `between` seconds apart; the run lasts at
/// least until all are replaced.
Report run(int kills, Rng rng, int steps, double between = kBetween) {
  std::vector<std::string> faults;
  double at = kFirst;
  for (int i = 0; i < kills; ++i, at += between + kSpread * rng.uniform()) {
    faults.push_back(fault(rng.below(4), at, "kill"));
  }
  return run_in_worker(kProgram, four_ranks(faults, steps));
}

void print(const char* what, std::vector<double> seconds) {
  if (seconds.empty()) return;
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&](double share) {
    return 1e3 * seconds[static_cast<std::size_t>(share * static_cast<double>(seconds.size() - 1))];
  };
  fmt::print("{:<32} p50 {:7.1f} ms   p99 {:7.1f} ms   of {}\n", what, at(0.5), at(0.99),
             seconds.size());
}

std::uint64_t first_seed() {
  const char* seed = std::getenv("ORRERY_SEED");
  return seed ? std::strtoull(seed, nullptr, 10) : 1;
}

/// Everything was done once, with the bits of the undisturbed run.
void expect_whole(const Report& report, const Report& calm) {
  EXPECT_EQ(report.steps_completed(), calm.steps_completed());
  EXPECT_EQ(report.micro_batches_lost(), 0u);
  EXPECT_EQ(report.micro_batches_repeated(), 0u);
  EXPECT_EQ(report.parameters_sha256(), calm.parameters_sha256());
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

/// Seconds between kills on this machine: where replacements are slow, ranks would be killed faster
/// than they come back until nobody holds the parameters.
double spacing() {
  const Report one = run(1, Rng(0), static_cast<int>(3 / kStep));
  if (one.failures_size() != 1 || !one.failures(0).has_replaced_s()) return 1;
  const FailureReport& failure = one.failures(0);
  return std::max(kBetween, kPatience * (failure.replaced_s() - failure.time_s()));
}

TEST(Survival, KillsAtRandomMomentsLoseNothing) {
  if (std::getenv("ORRERY_STEADY")) GTEST_SKIP() << "ORRERY_STEADY asks for the other one";
  int runs = 2, kills = kSanitized ? 5 : 25;
  if (const char* given = std::getenv("ORRERY_SURVIVAL")) {
    std::istringstream(given) >> runs >> kills;
  }
  const std::uint64_t first = first_seed();
  const double between = spacing();
  const int steps = static_cast<int>((kFirst + kills * (between + kSpread) + kAfter) / kStep);
  // Beside the others: it mostly waits.
  const std::shared_future<Report> calm =
      std::async(std::launch::async, [steps] { return run(0, Rng(0), steps); });
  std::vector<double> known, working, replaced;
  int happened = 0;
  for (int i = 0; i < runs; ++i) {
    const std::uint64_t schedule = first + static_cast<std::uint64_t>(i);
    SCOPED_TRACE(fmt::format("ORRERY_SEED={}", schedule));
    const Report report = run(kills, Rng(schedule), steps, between);
    expect_whole(report, calm.get());
    EXPECT_EQ(report.failures_size(), kills);
    happened += report.failures_size();
    for (const FailureReport& failure : report.failures()) {
      EXPECT_EQ(failure.lost_steps(), 0u);
      known.push_back(failure.known_s() - failure.time_s());
      working.push_back(failure.working_s() - failure.time_s());
      if (failure.has_replaced_s()) replaced.push_back(failure.replaced_s() - failure.time_s());
    }
  }
  fmt::print("{} kills in {} runs, from the kill on:\n", happened, runs);
  print("until all survivors know", known);
  print("until they train again", working);
  print("until a replacement is in step", replaced);
}

/// Kills the run's controller once, a moment after it has started.
void kill_controller(double after_s) {
  if (!eventually([] { return agents().size() == 4; })) return;
  std::this_thread::sleep_for(std::chrono::duration<double>(after_s));
  for (const pid_t controller : controllers()) kill(controller, SIGKILL);
}

TEST(Survival, StoppedRanksAndAKilledControllerLoseNothing) {
  if (std::getenv("ORRERY_STEADY")) GTEST_SKIP() << "ORRERY_STEADY asks for the other one";
  int runs = 2;
  if (const char* given = std::getenv("ORRERY_SURVIVAL")) std::istringstream(given) >> runs;
  runs = std::min(runs, 5);  // each takes as long as a run of twenty kills
  constexpr int kSteps = static_cast<int>(6 / kStep);
  constexpr double kSilence = 1;  // default heartbeat timeout, seconds
  const std::shared_future<Report> calm =
      std::async(std::launch::async, [] { return run(0, Rng(0), kSteps); });
  std::vector<double> noticed, working, pause;
  for (int i = 0; i < runs; ++i) {
    const std::uint64_t schedule = first_seed() + static_cast<std::uint64_t>(i);
    SCOPED_TRACE(fmt::format("ORRERY_SEED={}", schedule));
    Rng rng(schedule);
    const Report stopped = run_in_worker(
        kProgram, four_ranks({fault(rng.below(4), 0.5 + rng.uniform(), "stop")}, kSteps));
    expect_whole(stopped, calm.get());
    ASSERT_EQ(stopped.failures_size(), 1);
    const FailureReport& failure = stopped.failures(0);
    EXPECT_GE(failure.detected_s() - failure.time_s(), 0.9 * kSilence);
    noticed.push_back(failure.detected_s() - failure.time_s() - kSilence);
    working.push_back(failure.working_s() - failure.time_s());
    std::jthread killer([after = 0.5 + 2 * rng.uniform()] { kill_controller(after); });
    const Report orphaned = run_in_worker(kProgram, four_ranks({}, kSteps));
    expect_whole(orphaned, calm.get());
    EXPECT_EQ(orphaned.controller_restarts(), 1u);
    const std::vector<double> times(orphaned.step_times_s().begin(), orphaned.step_times_s().end());
    pause.push_back(*std::max_element(times.begin(), times.end()) - median(times));
  }
  fmt::print("{} ranks stopped, {} controllers killed:\n", runs, runs);
  print("a silence beyond the timeout", noticed);
  print("from the stop until they train", working);
  print("pause without a controller", pause);
}

/// Eight ranks, 56 micro-batches a step: seven have as much to do as eight, and a lost one costs an
/// eighth of the speed while it is away. Short sequences: two such runs share a small machine.
RunRequest steady(const std::vector<std::string>& faults, int steps) {
  RunRequest request;
  *request.mutable_scenario() =
      load_scenario(
          ORRERY_SOURCE_DIR "/examples/kill-one-rank.yaml",
          {"cluster.node.gpus_per_node=8", "job.layout.data=8", "job.global_batch=56",
           "job.sequence_length=8", "job.pace.micro_batch=40 ms",
           fmt::format("run.steps={}", steps), fmt::format("faults=[{}]", fmt::join(faults, ", "))})
          .scenario;
  request.set_mode("drive");
  request.set_fabric("grpc");
  return request;
}

TEST(Survival, AFaultEvery29SecondsCostsLittle) {
  const char* minutes = std::getenv("ORRERY_STEADY");
  if (!minutes) GTEST_SKIP() << "set ORRERY_STEADY=MINUTES";
  constexpr double kEvery = 29, kStepOfEight = 7 * 0.040;
  const double length = 60 * std::strtod(minutes, nullptr);
  const int steps = static_cast<int>(length / kStepOfEight);
  Rng rng(first_seed());
  std::vector<std::string> faults;
  for (double at = kEvery / 2; at < length - 3; at += kEvery) {
    faults.push_back(fault(rng.below(8), at, "kill"));
  }
  // Runs both at the same time, so that other load of the machine affects both.
  auto undisturbed =
      std::async(std::launch::async, [&] { return run_in_worker(kProgram, steady({}, steps)); });
  const Report report = run_in_worker(kProgram, steady(faults, steps));
  const Report calm = undisturbed.get();
  expect_whole(report, calm);
  EXPECT_EQ(report.failures_size(), static_cast<int>(faults.size()));
  fmt::print("{} kills in {:.1f} minutes, 8 ranks, {} steps, seed {}\n", report.failures_size(),
             report.elapsed_s() / 60, steps, first_seed());
  fmt::print("undisturbed at the same time {:.1f} minutes; throughput kept {:.2f} %\n",
             calm.elapsed_s() / 60, 100 * calm.elapsed_s() / report.elapsed_s());
  fmt::print("parameters of the undisturbed run, bit for bit: {}\n",
             report.parameters_sha256() == calm.parameters_sha256() ? "yes" : "NO");
}

}  // namespace
}  // namespace orrery::live
