// Whole runs whose checkpoints and training data share the storage of the cluster: their durations
// against a fluid computation by phases, and when steps wait for data.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/random.hpp"
#include "policies/record/log_reader.hpp"
#include "tests/policies/temp_dir.hpp"
#include "tests/sim/run.hpp"

namespace orrery::testing {
namespace {

constexpr double kMicroBatches = 8;  // micro-batches of a rank in a step

/// Checkpoint of a run, in seconds.
struct Save {
  bool durable;
  double took;
};

/// Report and checkpoints of a run.
struct Told {
  Report report;
  std::vector<Save> saves = {};
  std::size_t decisions = 0;

  double step(int number) const { return report.step_times_s(number); }
};

Told run(const LoadedScenario& loaded, bool full_detail = false) {
  const toy::TempDir folder;
  const std::string log = folder / "run.log";
  Told told{
      .report = simulate(loaded, {.full_detail = full_detail, .record = log, .timeline = {}})};
  LogReader reader(log);
  LogRecord record;
  while (reader.next(record)) {
    for (const EventRecord& event : record.call().observation().events()) {
      if (!event.has_save_done()) continue;
      const SaveDoneRecord& done = event.save_done();
      told.saves.push_back({done.durable(), static_cast<double>(done.took_ns()) * 1e-9});
    }
    told.decisions += static_cast<std::size_t>(record.call().decisions_size());
  }
  return told;
}

/// Description of a run; bytes, and bytes per second. 0: the key is absent.
struct Traffic {
  int ranks = 8;
  double bandwidth = 0, node_bandwidth = 0;
  double stored = 0, read_s = 0;
  double checkpoint = 0;
  int steps = 400, every = 100;
  std::string stall = "0 s";
  std::vector<std::string> more = {};
};

LoadedScenario scenario(const Traffic& of) {
  std::vector<std::string> keys{fmt::format("run.steps={}", of.steps)};
  if (of.bandwidth > 0) {
    const std::string node =
        of.node_bandwidth > 0 ? fmt::format(", node_bandwidth: {:.17g} B/s", of.node_bandwidth)
                              : std::string();
    keys.push_back(
        fmt::format("cluster.storage={{bandwidth: {:.17g} B/s{}}}", of.bandwidth, node));
  }
  if (of.read_s > 0) {
    const std::string stored =
        of.stored > 0 ? fmt::format(", stored: {:.17g} B", of.stored) : std::string();
    keys.push_back(fmt::format("job.input={{read: {:.0f} ns, workers: 4, prefetch: 8{}}}",
                               of.read_s * 1e9, stored));
  }
  if (of.checkpoint > 0) {
    keys.push_back(fmt::format("checkpoints={{folder: here, every: {}, stall: {}, "
                               "bytes: {:.17g} B}}", of.every, of.stall, of.checkpoint));
  }
  keys.insert(keys.end(), of.more.begin(), of.more.end());
  return small_scenario(1, 1, of.ranks, {}, keys);
}

/// Returns the step time without input.
double work_of(int ranks) { return simulate(scenario({.ranks = ranks})).step_time_s(); }

/// Fluid computation of one checkpoint that begins with a step: within each step, all ranks read
/// until the data of the step are there, and then do not. All nodes are full, so that all ranks
/// have the same rates. Seconds; per rank.
struct Fluid {
  double work, capacity, peak, step_bytes, shard;

  double rate_beside() const { return std::min(peak, capacity / 2); }
  double slow_step() const { return std::max(work, step_bytes / rate_beside()); }
  double fast_step() const { return std::max(work, step_bytes / std::min(peak, capacity)); }
  /// Returns the duration of the write, and the delay of all steps by the write.
  std::pair<double, double> write() const {
    const double rate = rate_beside(), rest = capacity - rate;
    double left = shard, at = 0, delay = 0;
    for (;;) {
      if (left / rest < step_bytes / rate) {  // ends while data are read
        const double end = left / rest;
        const double reading = end + (step_bytes - rate * end) / std::min(peak, capacity);
        return {at + end, delay + std::max(work, reading) - fast_step()};
      }
      const double reading = step_bytes / rate;
      left -= reading * rest;
      const double after = (slow_step() - reading) * capacity;
      delay += slow_step() - fast_step();
      if (left <= after) return {at + reading + left / capacity, delay};
      left -= after;
      at += slow_step();
    }
  }
};

/// Where reads do not fill a step, the rate of the write is the mean over a step: the end of the
/// write within its last step is wrong by at most the time in which the step's data are written.
TEST(Storage, DurationsAreThoseOfTheFluidComputation) {
  Rng rng(2911);
  double worst_write = 0, worst_step = 0, worst_all = 0;
  int stalled = 0;
  for (int i = 0; i < 40; ++i) {
    const int ranks = 8 * static_cast<int>(1 + rng.below(3));
    const double work = work_of(ranks);
    const double stored = 1e6 * std::exp(4 * rng.uniform());
    const double demand = kMicroBatches * stored / work;  // rate of a rank that keeps up
    const double read = work / kMicroBatches * 4 * (0.2 + 0.7 * rng.uniform());
    const double capacity = demand * (1.1 + 1.8 * rng.uniform());
    const bool at_node = rng.uniform() < 0.5;
    const Fluid fluid{.work = work, .capacity = capacity, .peak = 4 * stored / read,
                      .step_bytes = kMicroBatches * stored,
                      .shard = capacity * work * (5 + 40 * rng.uniform()) / 2};
    const Told found = run(scenario({.ranks = ranks,
                                    .bandwidth = capacity * ranks * (at_node ? 3 : 1),
                                    .node_bandwidth = capacity * 8 * (at_node ? 1 : 3),
                                    .stored = stored,
                                    .read_s = read,
                                    .checkpoint = fluid.shard * ranks,
                                    .steps = 250}));
    const std::string which = fmt::format("case {}: {} ranks, capacity {:.3g} and peak {:.3g} of "
                                          "the demand", i, ranks, capacity / demand,
                                          fluid.peak / demand);
    ASSERT_EQ(found.saves.size(), 2u) << which;
    const auto [expected, delay] = fluid.write();
    const bool waits = fluid.slow_step() > 1.001 * fluid.fast_step();
    const double phase = waits ? 0 : fluid.step_bytes / capacity;
    for (const Save& save : found.saves) {
      EXPECT_TRUE(save.durable);
      EXPECT_NEAR(save.took, expected, 1e-3 * expected + phase) << which;
      if (waits) worst_write = std::max(worst_write, std::abs(save.took / expected - 1));
    }
    EXPECT_NEAR(found.step(50), fluid.fast_step(), 1e-3 * work) << which;
    EXPECT_NEAR(found.step(101), fluid.slow_step(), 1e-3 * fluid.slow_step()) << which;
    worst_step = std::max(worst_step, std::abs(found.step(101) / fluid.slow_step() - 1));
    const double all = 250 * fluid.fast_step() + 2 * delay;
    EXPECT_NEAR(found.report.elapsed_s(), all, 1e-3 * all) << which;
    worst_all = std::max(worst_all, std::abs(found.report.elapsed_s() / all - 1));
    stalled += waits ? 1 : 0;
  }
  EXPECT_GT(stalled, 10);
  EXPECT_LT(stalled, 35);
  fmt::print("largest differences: write {:.5f}%, step {:.5f}%, run {:.5f}%; {} of 40 wait\n",
             100 * worst_write, 100 * worst_step, 100 * worst_all, stalled);
}

/// A job whose reads take half of the storage beside a checkpoint, where they want 0.8 of it.
Traffic contended(double work) {
  Traffic setup{.bandwidth = 10e9, .read_s = work / kMicroBatches * 3.9, .steps = 250};
  setup.stored = 0.8 * 10e9 / 8 * work / kMicroBatches;
  setup.checkpoint = 5e9 * 30 * work;  // 30 steps of undisturbed work
  return setup;
}

TEST(Storage, StepsWaitForDataWhileACheckpointIsWrittenAndNotBeforeOrAfter) {
  const double work = work_of(8);
  const Traffic setup = contended(work);
  const Told both = run(scenario(setup));
  ASSERT_EQ(both.saves.size(), 2u);
  const int during = 18;                        // steps beside a checkpoint, 18.75 of them
  const double last = 1.2 + 0.25 * 3.9 / 4;     // the last quarter of its data has all it wants
  EXPECT_NEAR(both.saves[0].took, 30 * work, 1e-3 * 30 * work) << "half of the storage";
  for (int step = 0; step < 250; ++step) {
    const int since = step < 100 ? 100 : step % 100;
    const double expected = since < during ? 1.6 : since == during ? last : 1;
    EXPECT_NEAR(both.step(step), expected * work, 6e-3 * work) << step;
  }
  const double input = both.report.gpu_time().input() / 8;
  EXPECT_NEAR(input, 2 * (during * 0.6 + last - 1) * work, 0.01 * input);
  // The checkpoint has the whole storage without input; no step waits without checkpoints.
  Traffic alone = setup;
  alone.read_s = 0;
  const Told saves = run(scenario(alone));
  ASSERT_EQ(saves.saves.size(), 2u);
  EXPECT_NEAR(saves.saves[0].took, 15 * work, 1e-8);
  EXPECT_EQ(saves.report.gpu_time().input(), 0);
  Traffic reads = setup;
  reads.checkpoint = 0;
  EXPECT_LT(run(scenario(reads)).report.gpu_time().input() / 8, 2e-3 * 250 * work);
}

TEST(Storage, AStallDelaysTheWriteAndTheTimesOfOtherTiersStay) {
  const double work = work_of(8);
  Traffic setup = contended(work);
  setup.read_s = 0;
  setup.stall = "2 s";
  const Told stalled = run(scenario(setup));
  EXPECT_NEAR(stalled.saves.at(0).took, 2 + 15 * work, 1e-8);
  EXPECT_NEAR(stalled.report.gpu_time().checkpoint() / 8, 4, 1e-8);
  // The folder is a local disk if the run has the tier storage.
  setup.more = {"checkpoints.storage=there", "checkpoints.write=3 s"};
  const Told local = run(scenario(setup));
  EXPECT_NEAR(local.saves.at(0).took, 5, 1e-8);
}

TEST(Storage, AFaultOfTheStorageLengthensTheWriteAndTheSteps) {
  const double work = work_of(8);
  Traffic setup = contended(work);
  setup.more = {"faults=[{at_time: 0 s, storage: 0, rate: 0.5}]"};
  const Told slow = run(scenario(setup));
  EXPECT_NEAR(slow.saves.at(0).took, 60 * work, 1e-3 * 60 * work);
  EXPECT_NEAR(slow.step(50), 1.6 * work, 2e-3 * work) << "reads alone want more than is left";
  EXPECT_NEAR(slow.step(110), 3.2 * work, 4e-3 * work);
  // A fault that begins while the checkpoint is written: half of it has the whole rate.
  setup.read_s = 0;
  setup.more = {fmt::format("faults=[{{at_time: {:.9f} s, storage: 0, rate: 0.5, for: {:.9f} s}}]",
                            107.5 * work, 50 * work)};
  const Told later = run(scenario(setup));
  EXPECT_NEAR(later.saves.at(0).took, 22.5 * work, 1e-4 * work);
  EXPECT_NEAR(later.saves.at(1).took, 15 * work, 1e-4 * work);
  EXPECT_NEAR(run(scenario(setup), true).saves.at(0).took, later.saves[0].took, 1e-7);
}

TEST(Storage, AJobWaitsForStorageThatAcceptsNothing) {
  const double work = work_of(8);
  Traffic setup = contended(work);
  setup.steps = 60;
  setup.checkpoint = 0;
  setup.more = {fmt::format("faults=[{{at_time: {:.9f} s, storage: 0, down: true, for: 100 s}}]",
                            20.5 * work)};
  const Told waits = run(scenario(setup));
  EXPECT_EQ(waits.report.steps_completed(), 60u);
  EXPECT_NEAR(waits.report.elapsed_s(), 59.5 * work + 100, 0.1 * work + 0.5 * work);
  EXPECT_GT(waits.report.gpu_time().input() / 8, 99);
  setup.more = {fmt::format("faults=[{{at_time: {:.9f} s, storage: 0, down: true}}]", 20.5 * work)};
  const Told ends = run(scenario(setup));
  EXPECT_EQ(ends.report.steps_completed(), 21u);
  // A checkpoint waits too, and is durable later.
  Traffic saves = contended(work);
  saves.read_s = 0;
  saves.steps += static_cast<int>(100 / work);
  saves.more = {fmt::format("faults=[{{at_time: {:.9f} s, storage: 0, down: true, for: 100 s}}]",
                            103 * work)};
  const Told delayed = run(scenario(saves));
  EXPECT_NEAR(delayed.saves.at(0).took, 15 * work + 100, 1e-4);
  EXPECT_TRUE(delayed.saves[0].durable);
}

TEST(Storage, FoldedAndFullSimulationAgree) {
  const double work = work_of(16);
  for (const char* const noise : {"noise.compute_cv=0", "noise.compute_cv=0.05"}) {
    Traffic setup = contended(work);
    setup.ranks = 16;
    setup.stored /= 2;
    setup.more = {noise, "policies=[{name: checkpoint-interval, parameters: {method: fixed, "
                         "interval: 3 s}}]"};
    const Told folded = run(scenario(setup)), full = run(scenario(setup), true);
    EXPECT_NEAR(folded.report.elapsed_s() / full.report.elapsed_s(), 1, 1e-6) << noise;
    EXPECT_EQ(folded.decisions, full.decisions) << noise;
    ASSERT_EQ(folded.saves.size(), full.saves.size()) << noise;
    for (std::size_t i = 0; i < full.saves.size(); ++i) {
      EXPECT_NEAR(folded.saves[i].took / full.saves[i].took, 1, 1e-6) << noise;
    }
  }
}

TEST(Storage, APolicyOfCheckpointsSeesTheLongerWrite) {
  const double work = work_of(8);
  Traffic setup = contended(work);
  setup.more = {fmt::format("policies=[{{name: checkpoint-interval, parameters: {{method: fixed, "
                            "interval: {:.9f} s}}}}]",
                            20 * work)};
  const Told both = run(scenario(setup));
  setup.read_s = 0;
  const Told alone = run(scenario(setup));
  ASSERT_FALSE(both.saves.empty());
  EXPECT_NEAR(both.saves[0].took / alone.saves.at(0).took, 2, 2e-3);
  EXPECT_LT(both.saves.size(), alone.saves.size()) << "one at a time";
}

TEST(Storage, KeysThatDoNotFitAreRefusedByName) {
  const auto refusal = [](std::vector<std::string> keys) -> std::string {
    try {
      small_scenario(1, 1, 8, {}, keys);
    } catch (const Error& error) {
      return error.message();
    }
    return {};
  };
  const std::string storage = "cluster.storage={bandwidth: 10 GB/s}";
  const std::string saves = "checkpoints={folder: here, bytes: 1 GB}";
  const std::string input = "job.input={read: 1 ms, stored: 1 MB}";
  using ::testing::HasSubstr;
  EXPECT_EQ(refusal({storage, saves, input}), "");
  EXPECT_THAT(refusal({storage}), HasSubstr("expected traffic with the file system, found none"));
  EXPECT_THAT(refusal({saves}), HasSubstr("expected a file system that the bytes go to"));
  EXPECT_THAT(refusal({input}), HasSubstr("expected a file system that the bytes go to"));
  EXPECT_THAT(refusal({storage, saves, "checkpoints.write=2 s"}),
              HasSubstr("remove checkpoints.bytes or checkpoints.write"));
  EXPECT_THAT(refusal({storage, saves, "checkpoints.storage=there",
                       "checkpoints.write_storage=2 s"}),
              HasSubstr("remove checkpoints.bytes or checkpoints.write_storage"));
  EXPECT_EQ(refusal({storage, saves, "checkpoints.storage=there", "checkpoints.write=2 s"}), "");
}

}  // namespace
}  // namespace orrery::testing
