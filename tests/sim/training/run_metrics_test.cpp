#include "sim/training/run_metrics.hpp"

#include <gtest/gtest.h>

#include "tests/sim/by_hand.hpp"
#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"
#include "topologies/power.hpp"

namespace orrery::sim {
namespace {

class RunMetricsTest : public ::testing::Test {
 protected:
  LoadedScenario loaded_ = testing::small_scenario(1, 1, 2, {}, {"job.global_batch=8"});
  Cluster cluster_ = build_cluster(loaded_.scenario.cluster(), loaded_.places);
  std::shared_ptr<const StepGraph> graph_ =
      std::make_shared<const StepGraph>(loaded_.scenario.job());
  RunMetrics run_{cluster_, graph_};
};

TEST_F(RunMetricsTest, TimeIsWhatItWentInto) {
  run_.commit_steps(*testing::step_by_hand(), to_nanos(0.85), 10, {4, 4}, 8);
  Report report;
  run_.fill(report, to_nanos(8.5), 0.45);
  EXPECT_EQ(report.steps_completed(), 10u);
  EXPECT_DOUBLE_EQ(report.step_time_s(), 0.85);
  EXPECT_NEAR(report.breakdown().compute(), (0.4 + 0.8) / 2 / 0.85, 1e-9);
  EXPECT_NEAR(report.breakdown().waiting(), 0.4 / 2 / 0.85, 1e-9);
  EXPECT_NEAR(report.breakdown().exposed_communication(), 0.05 / 0.85, 1e-9);
  EXPECT_EQ(report.breakdown().bubble(), 0);
  EXPECT_NEAR(report.goodput(), 4.5 / 8.5, 1e-12);
  EXPECT_NEAR(report.tokens_per_s(), graph_->tokens() * 10 / 8.5, 1e-6);
  const GpuModel& gpu = cluster_.gpu_model();
  const auto watts = [&gpu](Activity activity) { return power_of(gpu, activity).value; };
  const double joules = 10 * ((0.4 + 0.8) * watts(Activity::products) +
                              2 * 0.05 * watts(Activity::communication) +
                              0.4 * watts(Activity::waiting)) +
                        8.5 * cluster_.shape().host_power.value * 2 / 8;
  EXPECT_NEAR(report.energy_j() / (joules * cluster_.price().pue), 1, 1e-9);
  EXPECT_NEAR(report.node_power_w(), joules / 8.5 * 8 / 2, 1e-6);
  EXPECT_FALSE(report.has_cost_usd()) << "this cluster has no price";
}

TEST_F(RunMetricsTest, PhasesArePartsOfTheStep) {
  RunMetrics metrics(cluster_, graph_, 0.01);
  auto step = std::make_shared<estimates::SimulatedStep>(*testing::step_by_hand());
  for (estimates::WorkerRun& worker : step->run.workers) worker.tail = 0.03;
  step->wire_bytes = 1000;
  metrics.commit_steps(*step, to_nanos(0.85), 10, {4, 4}, 8);
  Report report;
  metrics.fill(report, to_nanos(8.5), 0.85);
  EXPECT_NEAR(report.phases().compute_s(), 0.8, 1e-12);
  EXPECT_NEAR(report.phases().exchange_s(), 0.02, 1e-12);
  EXPECT_NEAR(report.phases().update_s(), 0.02, 1e-12);
  EXPECT_NEAR(report.phases().rest_s(), 0.01, 1e-12);
  EXPECT_EQ(report.bytes_on_wire(), 10'000);
}

TEST_F(RunMetricsTest, TheMedianCountsEveryStep) {
  const auto step = testing::step_by_hand();
  run_.commit_steps(*step, to_nanos(3), 1, {4, 4}, 8);
  run_.commit_steps(*step, to_nanos(0.85), 1, {4, 4}, 8);
  Report report;
  run_.fill(report, to_nanos(3.85), 0.85);
  EXPECT_DOUBLE_EQ(report.step_time_s(), (3 + 0.85) / 2);
  run_.commit_steps(*step, to_nanos(0.85), 100'000, {4, 4}, 8);
  Report later;
  run_.fill(later, to_nanos(85'003.85), 0.85);
  EXPECT_DOUBLE_EQ(later.step_time_s(), 0.85);
  EXPECT_EQ(later.step_times_s_size(), 10'000);
}

TEST_F(RunMetricsTest, TheLedgerFindsLostAndRepeatedMicroBatches) {
  const auto step = testing::step_by_hand();
  run_.commit_steps(*step, 1, 1, {4, 4}, 8);
  Report good;
  run_.fill(good, 1, 0);
  EXPECT_EQ(good.micro_batches_lost(), 0u);
  EXPECT_EQ(good.micro_batches_repeated(), 0u);
  // Replica 0 was given five and did four; replica 1 was given three and did four.
  run_.commit_steps(*step, 1, 1, {5, 3}, 8);
  Report lost;
  run_.fill(lost, 2, 0);
  EXPECT_EQ(lost.micro_batches_lost(), 1u);
  // The other way round one is done by both.
  run_.commit_steps(*step, 1, 3, {3, 5}, 8);
  Report twice;
  run_.fill(twice, 5, 0);
  EXPECT_EQ(twice.micro_batches_repeated(), 3u);
}

TEST_F(RunMetricsTest, NothingCommittedIsNothingKnown) {
  run_.time().advance_to(to_nanos(1));
  Report report;
  run_.fill(report, 0, 0);
  EXPECT_EQ(report.steps_completed(), 0u);
  EXPECT_FALSE(report.has_step_time_s());
  EXPECT_FALSE(report.has_mfu());
}

}  // namespace
}  // namespace orrery::sim
