#include "live/run/account/run_statistics.hpp"

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

TEST(RunStatistics, NothingCommittedGivesNoRates) {
  const Scenario job = scenario();
  Report out;
  RunStatistics(job).fill(out);
  EXPECT_EQ(out.steps_completed(), 0u);
  EXPECT_FALSE(out.has_step_time_s());
  EXPECT_FALSE(out.has_final_loss());
}

TEST(RunStatistics, AddsUpCommittedSteps) {
  const Scenario job = scenario();
  RunStatistics statistics(job);
  const std::vector<StepReport> reports{report(0.2, 90, 30), report(0.1, 10, 10)};
  Nanos now = 0;
  for (const double interval : {0.25, 0.25, 1.0}) {
    now += to_nanos(interval);
    statistics.record_commit(reports, 8, now);
  }
  Report out;
  statistics.fill(out);
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
  const Scenario job = scenario();
  RunStatistics statistics(job);
  std::vector<StepReport> reports{report(0.2, 90, 30), report(0.1, 10, 10)};
  for (StepReport& each : reports) {
    each.set_duration(to_nanos(0.23));
    OpDone& update = *each.add_ops();
    update.set_phase(OPTIMIZER);
    update.set_start(-to_nanos(0.005));
    update.set_duration(to_nanos(0.005));
  }
  for (int step = 1; step <= 3; ++step) statistics.record_commit(reports, 8, step * to_nanos(0.24));
  Report out;
  statistics.fill(out);
  EXPECT_DOUBLE_EQ(out.phases().compute_s(), 0.2);
  EXPECT_NEAR(out.phases().exchange_s(), 0.03, 1e-12);
  EXPECT_NEAR(out.phases().update_s(), 0.005, 1e-12);
  EXPECT_NEAR(out.phases().rest_s(), 0.005, 1e-12);
}

TEST(RunStatistics, FinalLossIsTheMeanOfTheLastFiveSteps) {
  const Scenario job = scenario();
  RunStatistics statistics(job);
  for (int step = 1; step <= 8; ++step) {
    const std::vector<StepReport> reports{report(0.1, step, 1)};
    statistics.record_commit(reports, 8, step * kNanosPerSecond);
  }
  Report out;
  statistics.fill(out);
  EXPECT_DOUBLE_EQ(out.final_loss(), 6);
  EXPECT_EQ(out.losses_size(), 8);
}

}  // namespace
}  // namespace orrery::live
