#include "live/run/files/run_statistics.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

Scenario scenario() {
  Scenario out;
  out.mutable_job()->set_sequence_length(10);
  out.mutable_job()->set_micro_batch(2);
  out.mutable_job()->set_global_batch(8);
  out.mutable_job()->mutable_layout()->set_data(2);
  out.mutable_job()->mutable_pace()->set_micro_batch(100'000'000);
  return out;
}

StepReport report(double compute_s, double loss, std::uint64_t predictions) {
  StepReport out;
  out.set_compute(to_nanos(compute_s));
  out.set_loss_sum(loss);
  out.set_predictions(predictions);
  out.set_gather_used(500);
  out.set_gather_read(100);
  return out;
}

/// Commits a step of eight sequences.
void commit(KeptStatistics& kept, const std::vector<StepReport>& reports, Nanos now,
            std::uint64_t samples = 8) {
  JournalCommit commit;
  commit.mutable_reports()->Add(reports.begin(), reports.end());
  commit.set_samples(samples);
  commit.set_at(now);
  add_commit(kept, commit, scenario().job().layout().data());
}

Report told(const KeptStatistics& kept) {
  Report out;
  fill_report(kept, scenario(), out);
  return out;
}

TEST(RunStatistics, NothingCommittedGivesNoRates) {
  const Report out = told({});
  EXPECT_EQ(out.steps_completed(), 0u);
  EXPECT_FALSE(out.has_step_time_s());
  EXPECT_FALSE(out.has_final_loss());
}

TEST(RunStatistics, AddsUpCommittedSteps) {
  KeptStatistics statistics;
  const std::vector<StepReport> reports{report(0.2, 90, 30), report(0.1, 10, 10)};
  Nanos now = 0;
  for (const double interval : {0.25, 0.25, 1.0}) {
    now += to_nanos(interval);
    commit(statistics, reports, now);
  }
  const Report out = told(statistics);
  EXPECT_EQ(out.steps_completed(), 3u);
  EXPECT_DOUBLE_EQ(out.elapsed_s(), 1.5);
  EXPECT_DOUBLE_EQ(out.step_time_s(), 0.25);  // the median
  EXPECT_DOUBLE_EQ(out.final_loss(), 2.5);    // weighted by predictions, not by ranks
  EXPECT_DOUBLE_EQ(out.tokens_per_s(), 3 * 8 * 10 / 1.5);
  EXPECT_DOUBLE_EQ(out.goodput(), 3 * 0.2 / 1.5);  // two micro-batches a rank
  EXPECT_DOUBLE_EQ(out.breakdown().compute(), 0.9 / 3);
  EXPECT_DOUBLE_EQ(out.breakdown().waiting(), 0.3 / 3);
  EXPECT_NEAR(out.breakdown().exposed_communication(), 1.8 / 3, 1e-12);
  EXPECT_NEAR(out.gpu_utilization(), 2.7 / 3, 1e-12);
  EXPECT_EQ(out.embedding_gather_bytes(), 3 * 2 * 100);
  EXPECT_EQ(out.embedding_gather_saved_bytes(), 3 * 2 * 400);
}

TEST(RunStatistics, PhasesAreThePartsOfTheMedianStep) {
  KeptStatistics statistics;
  std::vector<StepReport> reports{report(0.2, 90, 30), report(0.1, 10, 10)};
  for (StepReport& each : reports) {
    each.set_duration(to_nanos(0.23));
    OpDone& update = *each.add_ops();
    update.set_phase(OPTIMIZER);
    update.set_start(-to_nanos(0.005));
    update.set_duration(to_nanos(0.005));
  }
  for (int step = 1; step <= 3; ++step) commit(statistics, reports, step * to_nanos(0.24));
  const Report out = told(statistics);
  EXPECT_DOUBLE_EQ(out.phases().compute_s(), 0.2);
  EXPECT_NEAR(out.phases().exchange_s(), 0.03, 1e-12);
  EXPECT_NEAR(out.phases().update_s(), 0.005, 1e-12);
  EXPECT_NEAR(out.phases().rest_s(), 0.005, 1e-12);
}

TEST(RunStatistics, FinalLossIsTheMeanOfTheLastFiveSteps) {
  KeptStatistics statistics;
  for (int step = 1; step <= 8; ++step) {
    const std::vector<StepReport> reports{report(0.1, step, 1)};
    commit(statistics, reports, step * kNanosPerSecond);
  }
  const Report out = told(statistics);
  EXPECT_DOUBLE_EQ(out.final_loss(), 6);
  EXPECT_EQ(out.losses_size(), 8);
}

TEST(RunStatistics, ALostRankWaitsAndASlotWithoutARankDoesNot) {
  KeptStatistics lost, empty;
  commit(lost, {report(0.2, 1, 1), {}, {}}, kNanosPerSecond);
  commit(empty, {report(0.2, 1, 1), report(0.2, 1, 1), {}}, kNanosPerSecond);
  EXPECT_DOUBLE_EQ(told(lost).breakdown().waiting(), 0.2 / 2) << "one of two ranks";
  EXPECT_DOUBLE_EQ(told(empty).breakdown().waiting(), 0);
}

TEST(RunStatistics, StepsThatAreGivenUpCountNoLongerAndAreNamed) {
  KeptStatistics statistics;
  for (int step = 1; step <= 3; ++step) {
    commit(statistics, {report(0.1, step, 1)}, step * kNanosPerSecond, step < 3 ? 8 : 4);
  }
  EXPECT_EQ(sample_total(statistics), 20u);
  roll_back_steps(statistics, 2);
  EXPECT_EQ(statistics.steps(), 1u);
  EXPECT_EQ(sample_total(statistics), 8u);
  roll_back_steps(statistics, 5);
  EXPECT_EQ(told(statistics).steps_rolled_back(), 3u) << "there are no more";
  EXPECT_EQ(newest_loss(statistics), 3) << "the time was spent";
}

TEST(RunStatistics, ALongRunIsThinnedEvenly) {
  KeptStatistics statistics;
  Nanos now = 0;
  const int steps = 3 * kMostSampled;
  for (int step = 0; step < steps; ++step) commit(statistics, {}, now += step);
  const KeptSample& intervals = statistics.intervals();
  EXPECT_EQ(intervals.stride(), 4u);
  EXPECT_EQ(intervals.seen(), static_cast<std::uint64_t>(steps));
  ASSERT_EQ(intervals.values_size(), steps / 4);
  for (int i = 0; i < intervals.values_size(); ++i) {
    ASSERT_DOUBLE_EQ(intervals.values(i), to_seconds(4 * i)) << i;
  }
}

TEST(RunStatistics, NumbersOfADamagedFileDoNoHarm) {
  KeptStatistics statistics;
  statistics.mutable_intervals()->set_stride(std::uint64_t{1} << 63);
  for (int i = 0; i < kMostSampled; ++i) statistics.mutable_intervals()->add_values(1);
  StepReport odd = report(1, 1, 1);
  odd.set_compute(std::numeric_limits<std::int64_t>::min());
  odd.set_duration(std::numeric_limits<std::int64_t>::max());
  commit(statistics, {odd, odd}, std::numeric_limits<std::int64_t>::min());
  commit(statistics, {odd, odd}, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(statistics.steps(), 2u);
  EXPECT_TRUE(std::isfinite(statistics.waiting()));
}

}  // namespace
}  // namespace orrery::live
