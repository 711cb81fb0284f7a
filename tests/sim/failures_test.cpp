// Whole runs in which things go wrong at their rates: goodput against the closed forms, GPU time
// that adds up, faults counted where they are injected and felt, folded against full.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "core/random.hpp"
#include "policies/checkpointing/interval.hpp"
#include "policies/record/log_reader.hpp"
#include "tests/policies/temp_dir.hpp"
#include "tests/sim/run.hpp"

namespace orrery::sim {
namespace {

using testing::simulate;
using testing::small_scenario;

double parts_of(const GpuTime& time) {
  return time.computing() + time.exposed_communication() + time.bubble() + time.waiting() +
         time.checkpoint() + time.lost_work() + time.detection() + time.recovery() + time.idle();
}

/// Elapsed time times GPUs, each GPU-second once.
void expect_closed(const Report& report) {
  const GpuTime& time = report.gpu_time();
  EXPECT_NEAR(parts_of(time) / time.total(), 1, 1e-12);
  EXPECT_NEAR(time.total() / (report.elapsed_s() * static_cast<double>(report.ranks())), 1, 1e-12);
  EXPECT_EQ(report.micro_batches_lost(), 0u);
  EXPECT_EQ(report.micro_batches_repeated(), 0u);
}

// ---- closed forms -------------------------------------------------------------------------

constexpr double kDetection = 2, kRestart = 10, kRegroup = 1;
constexpr double kDown = kDetection + kRestart + kRegroup;

/// Kills at exponential gaps. Of every 25 in a row one lies in each 25th of the distribution: so
/// every stretch has nearly its mean, and the order is as random as without.
std::string memoryless_kills(double mtbf, int count) {
  constexpr std::size_t strata = 25;
  Rng rng(1);
  std::vector<std::string> faults;
  std::vector<std::size_t> order(strata);
  std::iota(order.begin(), order.end(), 0u);
  double at = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    for (std::size_t k = strata; i % strata == 0 && k > 1; --k) {
      std::swap(order[k - 1], order[rng.below(k)]);
    }
    const double share = static_cast<double>(order[i % strata]) + rng.uniform();
    at -= mtbf * std::log1p(-share / strata);
    const std::size_t rank = i % 8;  // not the one that is dead already
    faults.push_back(fmt::format("{{at_time: {:.9f} s, rank: {}, kill: true}}", at, rank));
  }
  return fmt::format("[{}]", fmt::join(faults, ","));
}

struct Point {
  double interval, cost, mtbf;
};

/// Simulated goodput of steps of `step_s`. Where few gaps leave anything, more of them are needed.
double simulated(const Point& point, double step_s) {
  const double expected = expected_goodput(point.interval, point.cost, kDown, point.mtbf);
  const int kills = expected < 0.7 ? 3000 : 500;
  const double span = 0.97 * kills * point.mtbf;  // the kills last until the end
  const auto steps = static_cast<long>(std::max(1.0, span * expected / step_s));
  const auto every = static_cast<long>(std::max(1.0, std::nearbyint(point.interval / step_s)));
  const Report report = simulate(small_scenario(
      1, 1, 8, {},
      {"faults=" + memoryless_kills(point.mtbf, kills), fmt::format("run.steps={}", steps),
       fmt::format("checkpoints={{folder: here, every: {}, stall: {} s}}", every, point.cost),
       fmt::format("survival={{on_loss: hold, detection: {} s, restart: {} s, regroup: {} s}}",
                   kDetection, kRestart, kRegroup),
       "policies=[{name: recover, parameters: {how: restart}}]"}));
  expect_closed(report);
  EXPECT_EQ(report.steps_completed(), static_cast<std::uint64_t>(steps));
  EXPECT_GT(report.failures_size(), kills / 2) << "the faults were really injected";
  return report.goodput();
}

TEST(Failures, GoodputIsThatOfTheClosedFormAtSixtyPoints) {
  const double step = simulate(small_scenario(1, 1, 8)).step_time_s();
  int points = 0;
  double worst = 0;
  for (const double mtbf : {200.0, 1000.0, 5000.0, 40'000.0}) {
    for (const double cost : {0.5, 4.0, 20.0}) {
      const double best = daly_interval(cost, mtbf);
      for (const double share : {0.4, 0.7, 1.0, 1.6, 2.5}) {
        const double every = std::max(1.0, std::nearbyint(share * best / step)) * step;
        const double expected = expected_goodput(every, cost, kDown, mtbf);
        const double found = simulated({every, cost, mtbf}, step);
        EXPECT_NEAR(found / expected, 1, 0.01) << "M " << mtbf << " C " << cost << " x " << share;
        worst = std::max(worst, std::abs(found / expected - 1));
        ++points;
      }
    }
  }
  EXPECT_EQ(points, 60);
  RecordProperty("worst", fmt::format("{:.4f}", worst));
}

TEST(Failures, DalysIntervalIsTheSimulatedOptimum) {
  const double step = simulate(small_scenario(1, 1, 8)).step_time_s();
  for (const double mtbf : {300.0, 4000.0}) {
    const double best = daly_interval(5, mtbf);
    const double at_best = simulated({best, 5, mtbf}, step);
    for (const double share : {0.25, 0.5, 2.0, 4.0}) {
      EXPECT_GT(at_best, simulated({share * best, 5, mtbf}, step)) << mtbf << " x " << share;
    }
    for (const double share : {0.8, 1.25}) {
      EXPECT_GT(at_best, 0.998 * simulated({share * best, 5, mtbf}, step)) << "within noise";
    }
  }
}

// ---- runs of months -----------------------------------------------------------------------

/// A run of about `days`, with a kill every `mtbf` on average.
Report long_run(double days, const std::string& mtbf, const std::string& more = "",
                int every = 10'000) {
  static const double step = simulate(small_scenario(1, 1, 8)).step_time_s();
  return simulate(small_scenario(
      1, 1, 8, {},
      {"failures={kinds: [{cause: crash, part: job, mtbf: " + mtbf + ", kill: true}" + more + "]}",
       fmt::format("run.steps={:.0f}", days * 86400 / step),
       fmt::format("checkpoints={{folder: here, every: {}, stall: 1 s}}", every),
       "survival={on_loss: hold, detection: 10 s, restart: 60 s, regroup: 30 s}",
       "policies=[{name: recover, parameters: {how: restart}}]"}));
}

TEST(Failures, TheyHappenUntilTheEndOfTheRun) {
  const Report report = long_run(150, "6 h", ", {cause: old, part: gpu, mtbf: 40 d, shape: 2, "
                                             "rate: 0.9, lasts: 1 min}");
  EXPECT_GT(report.elapsed_s(), 150 * 86400.0);
  int by_month[5] = {};
  for (const FailureReport& each : report.failures()) {
    ++by_month[std::min(4, static_cast<int>(each.time_s() / 86400 / 30))];
  }
  for (const int count : by_month) EXPECT_NEAR(count, 120, 45) << "Poisson, 30 days of 6 h";
  expect_closed(report);
}

TEST(Failures, AKindsOwnTimesReplaceThoseOfSurvival) {
  const Report report = long_run(20, "1 d",
                                 ", {cause: people, part: job, mtbf: 1 d, kill: true, "
                                 "detection: {fixed: 300 s}, restart: {values: [1 h, 9 h]}}");
  std::map<double, int> own;
  int usual = 0;
  double before = 0;
  for (const FailureReport& each : report.failures()) {
    const bool alone = each.time_s() > before;
    before = each.resumed_s();
    if (!alone) continue;
    const double detection = each.detected_s() - each.time_s();
    const double restart = each.resumed_s() - each.detected_s();
    if (each.cause().starts_with("people")) {
      EXPECT_NEAR(detection, 300, 1e-6);
      if (restart < 0.99 * 3600) ADD_FAILURE() << restart;
      ++own[restart < 9 * 3600 ? 1 : 9];
    } else {
      EXPECT_NEAR(detection, 10, 1e-6);
      if (restart < 100) ++usual;
    }
  }
  EXPECT_GT(own[1], 2);
  EXPECT_GT(own[9], 2);
  EXPECT_GT(usual, 5);
  expect_closed(report);
}

/// Elapsed time of a run in which a rank is killed at 100 s, with 60 s until the detection and a
/// restart of 600 s, and a rank of the restarting job is killed at `again` seconds.
double killed_again(double again, int rank) {
  static const double step = simulate(small_scenario(1, 1, 8)).step_time_s();
  const Report report = simulate(small_scenario(
      1, 1, 8, {},
      {fmt::format("faults=[{{at_time: 100 s, rank: 0, kill: true}}, "
                   "{{at_time: {} s, rank: {}, kill: true}}]",
                   again, rank),
       fmt::format("run.steps={:.0f}", 200 / step), "checkpoints={folder: here, every: 10}",
       "survival={on_loss: hold, detection: 60 s, restart: 600 s, regroup: 1 s}",
       "policies=[{name: recover, parameters: {how: restart}}]"}));
  expect_closed(report);
  EXPECT_EQ(report.failures_size(), 1) << "the second kill costs time, but no further rank";
  return report.elapsed_s();
}

TEST(Failures, AKillOfARestartingRankDelaysTheRestartAsThatOfAnyOther) {
  for (const double again : {161.0, 300.0, 700.0}) {
    EXPECT_NEAR(killed_again(again, 0), killed_again(again, 3), 1e-6) << again;
    EXPECT_NEAR(killed_again(again, 0) - killed_again(161, 0), again - 161, 1e-6) << again;
  }
}

/// Instant at which the ranks are complete again after these faults, in seconds; the others go on,
/// the detection takes 60 s and a replacement 600 s.
double complete_again(const std::string& faults, const std::string& survival = "",
                      const testing::SimOptions& options = {}) {
  static const double step = simulate(small_scenario(1, 1, 8)).step_time_s();
  const Report report = simulate(
      small_scenario(
          1, 1, 8, {},
          {"faults=[" + faults + "]", "cluster.nodes=3",
           fmt::format("run.steps={:.0f}", 3000 / step), "checkpoints={folder: here, every: 10}",
           "survival={on_loss: go-on, detection: 60 s, replacement: 600 s, regroup: 1 s" +
               survival + "}",
           "policies=[{name: recover, parameters: {how: replace}}]"}),
      options);
  expect_closed(report);
  EXPECT_EQ(report.failures_size(), 1) << "a further kill costs time, but no further rank";
  return report.failures(0).replaced_s();
}

TEST(Failures, AKillOfAStartingReplacementDelaysIt) {
  const std::string first = "{at_time: 100 s, rank: 0, kill: true}";
  const double once = complete_again(first);
  EXPECT_NEAR(once, 700, 5);
  for (const double again : {200.0, 400.0, 650.0}) {
    const std::string second = fmt::format(", {{at_time: {} s, rank: 0, kill: true}}", again);
    const double twice = complete_again(first + second);
    EXPECT_NEAR(twice, again + 60 + 600, 5) << again;
    EXPECT_NEAR(complete_again(first + second, "", {.full_detail = true}), twice, 1e-6);
  }
  EXPECT_NEAR(complete_again(first + ", {at_time: 130 s, rank: 0, kill: true}"), once, 1e-6)
      << "its loss is not detected yet";
  EXPECT_NEAR(complete_again(first + ", {at_time: 400 s, gpu: 0, down: true, for: 1 s}"),
              400 + 600 - 60, 5)
      << "the place of the replacement is lost, and another one is decided";
}

TEST(Failures, ALossMayHaveAReplacementTimeOfItsOwn) {
  EXPECT_NEAR(complete_again("{at_time: 100 s, rank: 0, kill: true, replacement: 1500 s}"), 1600,
              5);
  EXPECT_NEAR(complete_again("{at_time: 100 s, rank: 0, kill: true, replacement: 80 s}"), 180, 5);
  EXPECT_NEAR(complete_again("{at_time: 100 s, rank: 0, kill: true, restart: 2 h}"), 700, 5);
}

/// Report of four replicas of which one is lost in a step near the middle; the others go on.
Report without_one(const std::string& lost_work, const std::string& policies = "[]",
                   const testing::SimOptions& options = {}) {
  return simulate(small_scenario(2, 1, 4, {},
                                 {"faults=[{at_step: 50, rank: 2, kill: true}]", "run.steps=100",
                                  "survival={on_loss: go-on, detection: 0 s, regroup: 0 s, "
                                  "lost_work: " + lost_work + "}",
                                  "policies=" + policies}),
                  options);
}

TEST(Failures, TheWorkOfALostReplicaIsDealtOrDropped) {
  const double alone = simulate(small_scenario(2, 1, 4)).step_time_s();
  const Report dealt = without_one("dealt"), dropped = without_one("dropped");
  EXPECT_NEAR(dealt.samples(), 100 * 32, 1e-6);
  EXPECT_NEAR(dropped.samples(), 50 * 32 + 50 * 24, 24) << "24 samples of a step are left";
  EXPECT_GT(dealt.elapsed_s(), 110 * alone);
  EXPECT_LT(dropped.elapsed_s(), 102 * alone);
  expect_closed(dropped);
  EXPECT_NEAR(without_one("dropped", "[]", {.full_detail = true}).elapsed_s(),
              dropped.elapsed_s(), 1e-6);
  const std::string shares = "[{name: predictive-rebalance}]";
  EXPECT_NEAR(without_one("dropped", shares).samples(), without_one("dealt", shares).samples(),
              1e-6)
      << "shares of a policy are dealt";
}

/// Elapsed time, in seconds, of a run on two nodes of which one is away from 2 h to 2 h 40 min.
/// `pipeline` 1: the replicas of the other node can continue; 2: each replica needs both nodes.
double with_maintenance(int pipeline, const std::string& notice,
                        const testing::SimOptions& options = {}) {
  static const double step =
      simulate(small_scenario(8, 2, 1, {}, {"job.model.hidden=32768", "run.memory=warn"}))
          .step_time_s();
  const Report report = simulate(
      small_scenario(8, pipeline, 2 / pipeline, {},
                     {"faults=[{at_time: 2 h, node: 0, down: true, for: 40 min" + notice + "}]",
                      "job.model.hidden=32768", "run.memory=warn",
                      fmt::format("run.steps={:.0f}", 4 * 3600 / step),
                      "checkpoints={folder: here, every: 150, stall: 1 s, write: 20 s}",
                      "survival={on_loss: hold, detection: 60 s, restart: 120 s, regroup: 1 s}",
                      "policies=[{name: recover, parameters: {how: restart}}]"}),
      options);
  expect_closed(report);
  return report.elapsed_s();
}

TEST(Failures, ALongNoticeOfMaintenanceCostsNoMoreThanAShortOne) {
  for (const int pipeline : {1, 2}) {
    const double unannounced = with_maintenance(pipeline, "");
    const double soon = with_maintenance(pipeline, ", notice: 5 min");
    EXPECT_LT(soon, unannounced) << pipeline;
    for (const std::string notice : {", notice: 20 min", ", notice: 1 h"}) {
      EXPECT_NEAR(with_maintenance(pipeline, notice), soon, 30) << pipeline << notice;
    }
    EXPECT_NEAR(with_maintenance(pipeline, ", notice: 1 h", {.full_detail = true}),
                with_maintenance(pipeline, ", notice: 1 h"), 1e-3);
  }
}

TEST(Failures, AJobThatNeverGetsFurtherIsGivenUp) {
  const Report report = long_run(100, "5 min", "", 1'000'000);
  ASSERT_FALSE(report.failures().empty());
  const FailureReport& last = report.failures(report.failures_size() - 1);
  EXPECT_NE(last.cause().find("no new step in 30 days"), std::string::npos);
  EXPECT_GE(report.elapsed_s() / 86400, 30);
  EXPECT_LT(report.elapsed_s() / 86400, 300);
}

TEST(Failures, AJobThatNobodyAssignsAgainEndsItsRun) {
  const Report report = simulate(small_scenario(
      1, 1, 8, {}, {"failures={kinds: [{cause: crash, part: gpu, mtbf: 20 d, down: true}]}",
                    "run.steps=100000000", "survival={on_loss: hold}"}));
  EXPECT_LT(report.steps_completed(), 100'000'000u);
  EXPECT_LE(report.elapsed_s(), 95 * 86400.0);
}

// ---- silent corruption ----------------------------------------------------------------------

/// A run with a checkpoint every 10 steps, in which a kill in step 105 reveals that the state has
/// been corrupted for 33 steps.
Report corrupted_run(int keep, const std::string& survival, const std::string& policies,
                     const testing::SimOptions& options = {}) {
  static const double step = simulate(small_scenario(1, 1, 8)).step_time_s();
  return simulate(
      small_scenario(
          1, 1, 8, {},
          {fmt::format("faults=[{{at_time: {:.9f} s, rank: 2, kill: true, corrupted: {:.9f} s}}]",
                       105.5 * step, 33 * step),
           "run.steps=200", "policies=" + policies,
           fmt::format("checkpoints={{folder: here, every: 10, keep: {}}}", keep),
           "survival={on_loss: " + survival + ", detection: 10 ms, restart: 3 s}"}),
      options);
}

TEST(Failures, CorruptionFallsBackToACheckpointThatIsOlder) {
  const std::string restart = "[{name: recover, parameters: {how: restart}}]";
  const std::string cheapest = "[{name: cheapest-goodput}]";
  for (const auto& [survival, policies] : std::vector<std::pair<std::string, std::string>>{
           {"hold", restart},
           {"go-on", "[{name: recover}]"},
           {"go-on", cheapest},
           {"hold", cheapest},
           {"replace", "[{name: static}]"},
           {"go-on", "[{name: recover, parameters: {how: shrink}}]"}}) {
    const Report report = corrupted_run(20, survival, policies);
    ASSERT_EQ(report.failures_size(), 1) << survival << policies;
    EXPECT_EQ(report.failures(0).lost_steps(), 35u) << survival << policies << ": from step 70";
    EXPECT_EQ(report.steps_completed(), 200u) << survival << policies;
    expect_closed(report);
    const Report deleted = corrupted_run(2, survival, policies);
    EXPECT_EQ(deleted.failures(0).lost_steps(), 105u) << "the two newest ones are corrupted";
    EXPECT_EQ(deleted.steps_completed(), 200u) << survival << policies;
    expect_closed(deleted);
  }
  const Report folded = corrupted_run(20, "hold", restart);
  const Report full = corrupted_run(20, "hold", restart, {.full_detail = true});
  EXPECT_EQ(folded.decision_trace_sha256(), full.decision_trace_sha256());
  EXPECT_NEAR(folded.elapsed_s() / full.elapsed_s(), 1, 1e-9);
}

TEST(Failures, CorruptionCostsTheTimeUntilItsDiscoveryAndHalfAnInterval) {
  const double step = simulate(small_scenario(1, 1, 8)).step_time_s();
  const auto every = static_cast<int>(1200 / step);
  const Report report = simulate(small_scenario(
      1, 1, 8, {},
      {"failures={kinds: [{cause: corruption, part: job, mtbf: 1 d, kill: true, "
       "corrupted: {fixed: 1 h}}]}",
       fmt::format("run.steps={:.0f}", 100 * 86400 / step),
       fmt::format("checkpoints={{folder: here, every: {}, keep: 12}}", every),
       "survival={on_loss: hold, detection: 10 s, restart: 60 s, regroup: 30 s}",
       "policies=[{name: recover, parameters: {how: restart}}]"}));
  expect_closed(report);
  ASSERT_GT(report.failures_size(), 70);
  double lost = 0;
  for (const FailureReport& each : report.failures()) {
    lost += static_cast<double>(each.lost_steps()) * step / report.failures_size();
    EXPECT_LT(static_cast<double>(each.lost_steps()) * step, 4810);
  }
  EXPECT_NEAR(lost, 3600 + 600, 200) << "less where another failure follows soon";
}

// ---- kinds --------------------------------------------------------------------------------

/// One kind each, as often as twenty times in the run.
const std::string kEveryKind =
    "failures={until: 2 h, nodes_per_rack: 1, racks_per_row: 2, repair: 5 s, kinds: ["
    "{cause: gpu, part: gpu, mtbf: 2 h, down: true},"
    "{cause: node, part: node, mtbf: 20 min, down: true},"
    "{cause: rack, part: rack, mtbf: 20 min, down: true, lasts: 8 s},"
    "{cause: row, part: row, mtbf: 30 min, down: true, lasts: 9 s},"
    "{cause: software, part: job, mtbf: 10 min, kill: true},"
    "{cause: hang, part: job, mtbf: 15 min, stop: true},"
    "{cause: hot, part: gpu, mtbf: 2 h, rate: 0.6, lasts: 90 s},"
    "{cause: flap, part: nic, mtbf: 2 h, down: true, lasts: 10 us, lasts_up_to: 20 s},"
    "{cause: cable, part: nic, mtbf: 2 h, rate: 0.5, lasts: 60 s},"
    "{cause: link, part: link, mtbf: 20 h, rate: 0.25, lasts: 60 s},"
    "{cause: leaf, part: leaf, mtbf: 2 h, down: true, lasts: 2 s},"
    "{cause: spine, part: spine, mtbf: 1 h, rate: 0.5, lasts: 60 s},"
    "{cause: plane, part: plane, mtbf: 2 h, rate: 0.5, lasts: 60 s},"
    "{cause: cable between switches, part: cable, mtbf: 10 h, down: true, lasts: 2 s},"
    "{cause: port, part: port, mtbf: 10 h, rate: 0.5, lasts: 60 s},"
    "{cause: storage is slow, part: storage, mtbf: 20 min, rate: 0.2, lasts: 60 s},"
    "{cause: storage is full, part: storage, mtbf: 20 min, down: true, lasts: 60 s},"
    "{cause: garbage collection, part: job, mtbf: 10 min, slow: 3, lasts: 2 s},"
    "{cause: planned, part: job, mtbf: 20 min, regular: true, kill: true}]}";

std::vector<std::string> restarts(const std::vector<std::string>& more) {
  std::vector<std::string> all{
      "checkpoints={folder: here, every: 50, stall: 1 s, write: 2 s}",
      "survival={on_loss: hold, detection: 500 ms, restart: 3 s, regroup: 200 ms}",
      "policies=[{name: recover, parameters: {how: restart}}]"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(Failures, EveryKindIsInjectedAndFelt) {
  const double step = simulate(small_scenario(1, 1, 16)).step_time_s();
  const Report report = simulate(small_scenario(
      1, 1, 16, {}, restarts({kEveryKind, fmt::format("run.steps={}", long(3000 / step))})));
  expect_closed(report);
  EXPECT_EQ(report.fault_counts_size(), 19);
  std::uint64_t injected = 0;
  for (const FaultCount& count : report.fault_counts()) {
    EXPECT_GT(count.injected(), 0u) << count.cause();
    EXPECT_GT(count.felt(), 0u) << count.cause();
    EXPECT_LE(count.felt(), count.injected()) << count.cause();
    injected += count.injected();
  }
  EXPECT_EQ(injected, report.faults_injected());
}

/// A checkpoint that begins while the storage is slow takes that much longer; while it takes
/// nothing, none becomes durable.
TEST(Failures, ASlowStorageLengthensCheckpointsAndAFullOneKeepsNone) {
  const auto saved = [](const std::string& storage) {
    const toy::TempDir folder;
    const std::string log = folder / "run.log";
    simulate(small_scenario(1, 1, 16, {},
                            {"run.steps=250", "faults=[" + storage + "]",
                             "checkpoints={folder: here, every: 100, stall: 1 s, "
                             "write: 2 s}"}),
             {.full_detail = false, .record = log, .timeline = {}});
    LogReader reader(log);
    LogRecord record;
    std::vector<std::pair<bool, double>> found;
    while (reader.next(record)) {
      for (const EventRecord& event : record.call().observation().events()) {
        if (!event.has_save_done()) continue;
        const SaveDoneRecord& done = event.save_done();
        found.emplace_back(done.durable(), static_cast<double>(done.took_ns()) * 1e-9);
      }
    }
    return found;
  };
  using Saves = std::vector<std::pair<bool, double>>;
  EXPECT_EQ(saved(""), (Saves{{true, 3}, {true, 3}}));
  EXPECT_EQ(saved("{at_time: 0 s, storage: 0, rate: 0.5}"), (Saves{{true, 5}, {true, 5}}));
  EXPECT_EQ(saved("{at_time: 0 s, storage: 0, down: true}"), (Saves{{false, 1}, {false, 1}}));
}

TEST(Failures, WhoWatchesTheRunCountsWhatTheInjectorCounts) {
  const toy::TempDir folder;
  const std::string log = folder / "run.log";
  const double step = simulate(small_scenario(1, 1, 16)).step_time_s();
  const std::string kinds =  // far enough apart that none strikes while another is mended
      "failures={until: 1 d, repair: 5 s, kinds: ["
      "{cause: node, part: node, mtbf: 5 h, regular: true, down: true},"
      "{cause: leaf, part: leaf, mtbf: 20 h, regular: true, down: true, lasts: 7 s},"
      "{cause: software, part: job, mtbf: 3 h, regular: true, kill: true}]}";
  const Report report = simulate(
      small_scenario(1, 1, 16, {},
                     restarts({kinds, fmt::format("run.steps={}", long(60'000 / step))})),
      {.full_detail = false, .record = log, .timeline = {}});
  std::map<std::string, std::uint64_t> seen;
  LogReader reader(log);
  LogRecord record;
  while (reader.next(record)) {
    for (const EventRecord& event : record.call().observation().events()) {
      const PartChangedRecord& change = event.part_changed();
      if (event.has_part_changed() && change.health() == HEALTH_LOST) {
        ++seen[change.kind() == PART_NODE ? "node" : "leaf"];
      }
      if (event.has_ranks_lost() && event.ranks_lost().ranks_size() == 1) ++seen["software"];
    }
  }
  ASSERT_EQ(report.fault_counts_size(), 3);
  for (const FaultCount& count : report.fault_counts()) {
    EXPECT_GT(count.injected(), 4u) << count.cause();
    EXPECT_EQ(count.injected(), count.felt()) << count.cause();
    EXPECT_EQ(count.injected(), seen[count.cause()]) << count.cause();
  }
}

// ---- folded and full ----------------------------------------------------------------------

/// A day of 64 GPUs.
TEST(Failures, FoldedAndFullAgreeOnEveryTerm) {
  const std::string twenty =
      "failures={until: 2 d, repair: 3 min, kinds: ["
      "{cause: gpu, part: gpu, mtbf: 7 d, down: true},"
      "{cause: software, part: job, mtbf: 100 min, kill: true},"
      "{cause: hot, part: gpu, mtbf: 8 d, rate: 0.7, lasts: 20 min},"
      "{cause: cable, part: nic, mtbf: 8 d, rate: 0.5, lasts: 20 min}]}";
  const LoadedScenario loaded = small_scenario(
      8, 1, 8, {}, restarts({twenty, "job.model={preset: llama3-70b}", "run.memory=warn",
                             "job.sequence_length=32768", "run.steps=2600"}));
  const Report folded = simulate(loaded);
  const Report full = simulate(loaded, {.full_detail = true, .record = {}, .timeline = {}});
  expect_closed(folded);
  expect_closed(full);
  EXPECT_GE(full.failures_size(), 20);
  EXPECT_GT(full.elapsed_s(), 86'400);
  EXPECT_EQ(full.decision_trace_sha256(), folded.decision_trace_sha256());
  EXPECT_EQ(full.failures_size(), folded.failures_size());
  EXPECT_GT(full.iterations_simulated(), 10 * folded.iterations_simulated());
  const auto fields = GpuTime::descriptor();
  for (int i = 0; i < fields->field_count(); ++i) {
    const auto* field = fields->field(i);
    const double a = GpuTime::GetReflection()->GetDouble(folded.gpu_time(), field);
    const double b = GpuTime::GetReflection()->GetDouble(full.gpu_time(), field);
    EXPECT_NEAR(a, b, 0.005 * std::max(a, b) + 1e-6) << field->name();
  }
}

// ---- same seed, same bytes ----------------------------------------------------------------

std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoull(text);
}

/// Returns the report of a day of 64 GPUs without values that may differ, and the log.
std::string bytes_of_a_day(std::uint64_t seed, const std::string& log) {
  const std::string often =
      "failures={until: 2 d, repair: 3 min, lemons: {share: 20%, times: 5}, kinds: ["
      "{cause: gpu, part: gpu, mtbf: 9 d, shape: 0.7, down: true},"
      "{cause: software, part: job, mtbf: 2 h, kill: true},"
      "{cause: hang, part: job, mtbf: 9 h, stop: true},"
      "{cause: hot, part: gpu, mtbf: 8 d, rate: 0.7, lasts: 20 min},"
      "{cause: flap, part: nic, mtbf: 8 d, down: true, lasts: 10 us, lasts_up_to: 2 min}]}";
  Report report = simulate(
      small_scenario(8, 1, 8, {},
                     restarts({often, "job.model={preset: llama3-70b}", "run.memory=warn",
                               "job.sequence_length=32768", "run.steps=2600",
                               fmt::format("run.seed={}", seed)})),
      {.full_detail = false, .record = log, .timeline = {}});
  expect_closed(report);
  EXPECT_GT(report.faults_injected(), 10u);
  report.clear_host();
  std::ifstream file(log, std::ios::binary);
  return report.SerializeAsString() + std::string(std::istreambuf_iterator<char>(file), {});
}

/// ORRERY_SEED is the first seed, ORRERY_SEQUENCES how many of them.
TEST(Failures, ADayOf64GpusIsItsSeed) {
  const std::uint64_t first = number_of("ORRERY_SEED", 1);
  const std::uint64_t count = number_of("ORRERY_SEQUENCES", 10);
  const toy::TempDir folder;
  std::set<std::string> different;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(fmt::format("ORRERY_SEED={} ORRERY_SEQUENCES=1", seed));
    const std::string bytes = bytes_of_a_day(seed, folder / "run.log");
    EXPECT_TRUE(bytes == bytes_of_a_day(seed, folder / "run.log")) << "it is not what it was";
    different.insert(bytes);
  }
  EXPECT_EQ(different.size(), count) << "another seed is another day";
}

// ---- swarm --------------------------------------------------------------------------------

std::string random_kind(Rng& rng, int number) {
  const auto one_of = [&rng](std::initializer_list<const char*> names) {
    return std::string(names.begin()[rng.below(names.size())]);
  };
  const std::string part = one_of({"gpu", "node", "rack", "nic", "leaf", "job", "job"});
  std::string effect = one_of({"down: true", "rate: 0.5"});
  if (part == "job") effect = one_of({"kill: true", "kill: true", "stop: true"});
  const double mtbf = part == "job" ? 40 : part == "gpu" || part == "nic" ? 900 : 150;
  return fmt::format("{{cause: kind {}, part: {}, mtbf: {} s, {}, shape: {}{}}}", number, part,
                     mtbf, effect, one_of({"1", "0.7", "2"}),
                     part == "job" ? "" : ", lasts: 1 ms, lasts_up_to: 20 s");
}

/// First faults come, then none. `step`: seconds of a step without them.
LoadedScenario of_the_swarm(std::uint64_t seed, double step) {
  const std::vector<std::string> policies{
      "{name: recover, parameters: {how: restart}}", "{name: recover, parameters: {how: replace}}",
      "{name: cheapest-goodput, parameters: {replacement: 3 s, restart: 5 s, repair: 20 s}}",
      "{name: cheapest-goodput, parameters: {replacement: 60 s, restart: 2 s, repair: 4 s}}"};
  Rng rng = Rng(seed).split_stream("swarm");
  std::string kinds = "{cause: software, part: job, mtbf: 20 s, kill: true}";
  for (int i = 0; i < 4; ++i) kinds += "," + random_kind(rng, i);
  std::string chosen = policies[rng.below(policies.size())];
  if (rng.below(2) == 0) chosen += ",{name: checkpoint-interval, parameters: {mtbf: 60 s}}";
  const bool spares = rng.below(2) == 0;
  const auto hold = rng.below(2) == 0 ? "hold" : "go-on";
  return small_scenario(
      1, 1, 16, {},
      {fmt::format("run.seed={}", seed), fmt::format("run.steps={}", long(700 / step)),
       fmt::format("cluster.nodes={}", spares ? 4 : 2), "elastic=true",
       fmt::format("failures={{until: 600 s, repair: 10 s, kinds: [{}]}}", kinds),
       "checkpoints={folder: here, every: 100, stall: 200 ms, write: 1 s}",
       fmt::format("survival={{on_loss: {}, detection: 300 ms, restart: 2 s, regroup: 100 ms, "
                   "replacement: 1 s}}", hold),
       "policies=[" + chosen + "]"});
}

/// Time goes on, and who is dead dies no second time.
void expect_sane(const std::string& log) {
  LogReader reader(log);
  LogRecord record;
  Nanos now = 0;
  std::set<std::uint32_t> dead;
  while (reader.next(record)) {
    EXPECT_GE(record.call().observation().now(), record.has_call() ? now : 0);
    if (record.has_call()) now = record.call().observation().now();
    for (const EventRecord& event : record.call().observation().events()) {
      if (event.has_job_started()) dead.clear();
      for (const std::uint32_t rank : event.ranks_lost().ranks()) {
        EXPECT_TRUE(dead.insert(rank).second) << "rank " << rank << " at " << now;
      }
    }
  }
}

/// ORRERY_SEED is the first seed, ORRERY_SEQUENCES how many of them.
TEST(Failures, InASwarmOfScenariosNothingIsLostAndEveryJobEnds) {
  const std::uint64_t first = number_of("ORRERY_SEED", 1);
  const std::uint64_t count = number_of("ORRERY_SEQUENCES", 200);
  const toy::TempDir folder;
  const std::string log = folder / "run.log";
  const double step = simulate(small_scenario(1, 1, 16)).step_time_s();
  std::uint64_t faults = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(fmt::format("ORRERY_SEED={} ORRERY_SEQUENCES=1", seed));
    const LoadedScenario loaded = of_the_swarm(seed, step);
    const Report report =
        simulate(loaded, {.full_detail = false, .record = log, .timeline = {}});
    expect_closed(report);
    expect_sane(log);
    EXPECT_EQ(report.steps_completed(), static_cast<std::uint64_t>(loaded.scenario.run().steps()));
    EXPECT_GE(report.faults_injected(), 20u);
    EXPECT_GT(report.elapsed_s(), 600) << "there is a time without faults";
    faults += report.faults_injected();
  }
  EXPECT_GT(faults, count * 20);
}

}  // namespace
}  // namespace orrery::sim
