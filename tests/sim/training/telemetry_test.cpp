#include "sim/training/telemetry.hpp"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "tests/sim/by_hand.hpp"
#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"
#include "topologies/power.hpp"

namespace orrery::sim {
namespace {

constexpr Nanos kMs = 1'000'000;

/// Samples of one instant.
class AllSamples : public ColumnSamples {
 public:
  AllSamples(Telemetry& telemetry, Nanos now) : telemetry_(telemetry), now_(now) {}
  RankSummary summary(JobId, std::uint32_t) override { return {}; }
  std::span<const CollectiveSample> collectives(JobId) override { return {}; }

 private:
  std::shared_ptr<const SampleRows> make_rows(SampleTable table, JobId) override {
    auto rows = std::make_shared<SampleRows>();
    telemetry_.fill_rows(table, now_, *rows);
    return rows;
  }
  std::shared_ptr<const SampleColumn> make_column(SampleField field, JobId) override {
    auto column = std::make_shared<SampleColumn>();
    telemetry_.fill_column(field, now_, *column);
    return column;
  }
  Telemetry& telemetry_;
  Nanos now_;
};

class TelemetryTest : public ::testing::Test {
 protected:
  Telemetry make(double compute_cv, double sample_cv, Nanos staleness, std::uint64_t seed = 1) {
    Noise noise;
    noise.set_compute_cv(compute_cv);
    noise.set_sample_cv(sample_cv);
    noise.set_staleness(staleness);
    return Telemetry(cluster_, graph_, placement_, noise, seed);
  }
  std::vector<RankSample> ranks(Telemetry& telemetry, Nanos now) {
    AllSamples samples(telemetry, now);
    const auto rows = samples.ranks({0});
    return {rows.begin(), rows.end()};
  }
  std::vector<DeviceSample> devices(Telemetry& telemetry, Nanos now) {
    AllSamples samples(telemetry, now);
    const auto rows = samples.devices({0});
    return {rows.begin(), rows.end()};
  }
  LoadedScenario loaded_ = testing::small_scenario(1, 1, 2);
  Cluster cluster_ = build_cluster(loaded_.scenario.cluster(), loaded_.places);
  StepGraph graph_{loaded_.scenario.job()};
  std::vector<GpuId> placement_{{0}, {1}};
};

TEST_F(TelemetryTest, SamplesShowThePast) {
  Telemetry telemetry = make(0, 0, 10 * kMs);
  telemetry.begin_step(estimates::PlayedStep(0, 0, testing::step_by_hand(), {}));
  EXPECT_FALSE(ranks(telemetry, 5 * kMs)[0].micro_batches_done.is_known());
  const auto seen = ranks(telemetry, 160 * kMs);
  EXPECT_NEAR(seen[0].micro_batches_done.value, 1.5, 1e-9);
  EXPECT_EQ(seen[0].micro_batches_done.age, 10 * kMs);
  EXPECT_NEAR(seen[0].micro_batch_time.value, 0.1, 1e-9);
  EXPECT_FALSE(seen[1].micro_batch_time.is_known()) << "its first micro-batch is under way";
  EXPECT_FALSE(seen[0].wait_time.is_known());
  EXPECT_FALSE(seen[0].gradient_variance.is_known());

  telemetry.begin_step(estimates::PlayedStep(1, 850 * kMs, testing::step_by_hand(), {}));
  EXPECT_EQ(ranks(telemetry, 855 * kMs)[0].step, 0u);
  const auto next = ranks(telemetry, 870 * kMs);
  EXPECT_EQ(next[0].step, 1u);
  EXPECT_NEAR(next[0].wait_time.value, 0.4, 1e-9);
  EXPECT_NEAR(next[1].micro_batch_time.value, 0.2, 1e-9) << "of the step before";
}

TEST_F(TelemetryTest, ADeclaredNoiseScaleGivesTheVarianceOfTheBatch) {
  loaded_.scenario.mutable_job()->set_noise_scale(12);
  loaded_.scenario.mutable_job()->set_noise_growth(2);
  graph_ = StepGraph(loaded_.scenario.job());
  Telemetry telemetry = make(0, 0, 0);
  telemetry.begin_step(estimates::PlayedStep(0, 0, testing::step_by_hand(), {}));
  EXPECT_FALSE(ranks(telemetry, 5 * kMs)[0].noise_scale.is_known()) << "no step has ended";
  telemetry.begin_step(estimates::PlayedStep(4, 850 * kMs, testing::step_by_hand(), {}));
  const RankSample seen = ranks(telemetry, 870 * kMs)[0];
  EXPECT_EQ(seen.noise_scale.value, 12) << "of the step before";
  EXPECT_EQ(seen.noise_scale.origin, Origin::modelled);
  const double each = loaded_.scenario.job().micro_batch();  // 4 of 8 micro-batches
  EXPECT_DOUBLE_EQ(seen.gradient_variance.value, (1 + 12 / (4 * each)) / (1 + 12 / (8 * each)) - 1);
}

TEST_F(TelemetryTest, SamplesOlderThanSeveralStepsAreNotMissing) {
  Telemetry telemetry = make(0, 0, 5000 * kMs);
  for (int step = 0; step < 20; ++step) {
    telemetry.begin_step(
        estimates::PlayedStep(Step(step), step * 850 * kMs, testing::step_by_hand(), {}));
  }
  const auto seen = ranks(telemetry, 19 * 850 * kMs);  // 13.1 steps had passed then
  EXPECT_EQ(seen[0].step, 13u);
  EXPECT_TRUE(seen[0].wait_time.is_known());
}

TEST_F(TelemetryTest, NoiseDependsOnSeedInstantAndPlaceAlone) {
  Telemetry one = make(0, 0.01, 0);
  Telemetry two = make(0, 0.01, 0);
  Telemetry other = make(0, 0.01, 0, 2);
  for (Telemetry* each : {&one, &two, &other}) {
    each->begin_step(estimates::PlayedStep(0, 0, testing::step_by_hand(), {}));
  }
  ranks(one, 100 * kMs);  // reading more changes nothing
  devices(one, 150 * kMs);
  const double a = ranks(one, 150 * kMs)[0].micro_batches_done.value;
  EXPECT_EQ(a, ranks(two, 150 * kMs)[0].micro_batches_done.value);
  EXPECT_NE(a, ranks(other, 150 * kMs)[0].micro_batches_done.value);
  EXPECT_NE(a, 1.5);
  EXPECT_NEAR(a, 1.5, 0.1);
}

TEST_F(TelemetryTest, DevicesShowLoadMemoryAndPower) {
  Telemetry telemetry = make(0, 0, 0);
  telemetry.begin_step(estimates::PlayedStep(0, 0, testing::step_by_hand(), {}));
  const std::vector<DeviceSample> devices = this->devices(telemetry, 100 * kMs);
  ASSERT_EQ(devices.size(), 2u);
  const GpuModel& gpu = cluster_.gpu_model();
  EXPECT_NEAR(devices[1].utilization.value, 1, 1e-9);
  EXPECT_NEAR(devices[1].power.value, mean_power(gpu, {0.8, 0, 0.05, 0, 0}).value, 1e-6);
  EXPECT_NEAR(devices[0].power.value, mean_power(gpu, {0.4, 0, 0.05, 0.4, 0}).value, 1e-6);
  EXPECT_NEAR(devices[0].memory_bandwidth.value, 8e9 / 0.85 / gpu.memory_bandwidth.value, 1e-9);
  EXPECT_EQ(devices[0].memory_used.value, graph_.memory(0, 8).total().value);
}

TEST_F(TelemetryTest, EachRankShowsItsOwnComputeTimeAndTheSlowestItsReplicas) {
  const LoadedScenario loaded = testing::small_scenario(4, 1, 2);
  const StepGraph graph(loaded.scenario.job());
  std::vector<GpuId> placement;
  for (std::uint32_t rank = 0; rank < 8; ++rank) placement.push_back({rank});
  Noise noise;
  noise.set_compute_cv(0.05);
  noise.set_sample_cv(0);
  noise.set_staleness(0);
  Telemetry telemetry(cluster_, graph, placement, noise, 1);
  const std::vector<double> stretch = telemetry.stretch(3, 0, 2);
  telemetry.begin_step(estimates::PlayedStep(3, 0, testing::step_by_hand(), stretch));
  const auto seen = ranks(telemetry, 800 * kMs);
  ASSERT_EQ(seen.size(), 8u);
  for (std::uint32_t replica = 0; replica < 2; ++replica) {
    std::set<double> times;
    for (std::uint32_t member = 0; member < 4; ++member) {
      times.insert(seen[graph.rank(replica, 0, member).value].micro_batch_time.value);
    }
    EXPECT_EQ(times.size(), 4u);
    EXPECT_NEAR(*times.rbegin(), (replica == 0 ? 0.1 : 0.2) * stretch[replica], 1e-12);
  }
}

TEST_F(TelemetryTest, OneRankHasTheValuesOfTheColumns) {
  Telemetry telemetry = make(0.05, 0.01, 0);
  for (Step step = 0; step < 2; ++step) {
    const Nanos start = Nanos(step) * 850 * kMs;
    telemetry.begin_step(estimates::PlayedStep(step, start, testing::step_by_hand(),
                                               telemetry.stretch(step, start, 2)));
  }
  for (const Nanos now : {860 * kMs, 1200 * kMs}) {
    const std::vector<RankSample> all = ranks(telemetry, now);
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      RankSample one;
      telemetry.fill_rank(rank, now, one);
      for (const SampleField field : fields_of(SampleTable::ranks)) {
        RankSample other = all[rank];
        EXPECT_EQ(value_of(one, field).is_known(), value_of(other, field).is_known());
        EXPECT_EQ(value_of(one, field).value, value_of(other, field).value) << name_of(field);
      }
    }
  }
}

TEST_F(TelemetryTest, ComputeNoiseHasItsSizeAndItsSeed) {
  const Telemetry telemetry = make(0.05, 0, 0);
  EXPECT_TRUE(make(0, 0, 0).stretch(3, 0, 4).empty());
  EXPECT_EQ(telemetry.stretch(3, 0, 4), make(0.05, 0, 0).stretch(3, 0, 4));
  double sum = 0, squares = 0;
  constexpr int kSteps = 4000;
  for (Step step = 0; step < kSteps; ++step) {
    for (const double factor : telemetry.stretch(step, 0, 4)) {
      sum += factor;
      squares += (factor - 1) * (factor - 1);
    }
  }
  EXPECT_NEAR(sum / (4 * kSteps), 1, 0.002);
  EXPECT_NEAR(std::sqrt(squares / (4 * kSteps)), 0.05, 0.002);
}

}  // namespace
}  // namespace orrery::sim
