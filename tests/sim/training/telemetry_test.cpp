#include "sim/training/telemetry.hpp"

#include <cmath>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sim/training/loss_events.hpp"
#include "tests/sim/by_hand.hpp"
#include "tests/sim/run.hpp"
#include "tests/sim/training/lone_job.hpp"
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
    return telemetry_.rows(table, now_);
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
    return Telemetry(cluster_, graph_, placement_, numbers_, noise, seed);
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
  std::vector<std::uint32_t> numbers_{0, 1};
};

/// Returns the values of a column, as bytes: missing values are equal.
std::string bytes_of(Telemetry& telemetry, SampleField field, Nanos now) {
  SampleColumn column;
  telemetry.fill_column(field, now, column);
  std::string bytes(column.size() * sizeof(double), 0);
  if (!bytes.empty()) std::memcpy(bytes.data(), column.values.data(), bytes.size());
  return bytes;
}

/// Returns the step by hand with another share of the first replica.
std::shared_ptr<const estimates::SimulatedStep> step_with_share(std::uint32_t micro_batches) {
  auto step = std::make_shared<estimates::SimulatedStep>(*testing::step_by_hand());
  step->plan.classes[0].micro_batches = micro_batches;
  return step;
}

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
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    placement.push_back({rank});
    numbers.push_back(rank);
  }
  Noise noise;
  noise.set_compute_cv(0.05);
  noise.set_sample_cv(0);
  noise.set_staleness(0);
  Telemetry telemetry(cluster_, graph, placement, numbers, noise, 1);
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

TEST_F(TelemetryTest, LooksAtOneStepShareTheirRows) {
  Telemetry telemetry = make(0, 0, 10 * kMs);
  telemetry.begin_step(estimates::PlayedStep(0, 0, testing::step_by_hand(), {}));
  const auto first = telemetry.rows(SampleTable::ranks, 100 * kMs);
  const auto gpus = telemetry.rows(SampleTable::devices, 100 * kMs);
  EXPECT_EQ(telemetry.rows(SampleTable::ranks, 200 * kMs), first);
  EXPECT_EQ(gpus->ids, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_TRUE(gpus->steps.empty());
  telemetry.begin_step(estimates::PlayedStep(1, 850 * kMs, testing::step_by_hand(), {}));
  EXPECT_EQ(telemetry.rows(SampleTable::ranks, 855 * kMs), first) << "the step before is shown";
  const auto second = telemetry.rows(SampleTable::ranks, 870 * kMs);
  EXPECT_NE(second, first);
  EXPECT_EQ(second->ids, first->ids);
  EXPECT_EQ(first->steps, (std::vector<Step>{0, 0})) << "a reader may still have them";
  EXPECT_EQ(second->steps, (std::vector<Step>{1, 1}));
  EXPECT_EQ(telemetry.rows(SampleTable::devices, 870 * kMs), gpus);
  EXPECT_EQ(telemetry.rows(SampleTable::links, 870 * kMs), no_rows());
}

TEST_F(TelemetryTest, EachLookShowsTheValuesOfAFirstLook) {
  for (const Nanos staleness : {0 * kMs, 300 * kMs}) {
    Telemetry often = make(0.05, 0.01, staleness);
    const auto begin_step = [](Telemetry& telemetry, Step step) {
      const Nanos start = Nanos(step) * 850 * kMs;
      const auto share = static_cast<std::uint32_t>(step + 1);  // 1, 2, 3
      telemetry.begin_step(estimates::PlayedStep(step, start, step_with_share(share),
                                                 telemetry.stretch(step, start, 2)));
    };
    Step begun = 0;
    for (Nanos now = 5 * kMs; now < 2550 * kMs; now += 35 * kMs) {
      while (Nanos(begun) * 850 * kMs <= now) begin_step(often, begun++);
      for (const SampleTable table : {SampleTable::ranks, SampleTable::devices}) {
        for (const SampleField field : fields_of(table)) {
          Telemetry once = make(0.05, 0.01, staleness);
          for (Step step = 0; step < begun; ++step) begin_step(once, step);
          EXPECT_EQ(bytes_of(often, field, now), bytes_of(once, field, now))
              << name_of(field) << " at " << now << ", staleness " << staleness;
        }
      }
    }
  }
}

TEST_F(TelemetryTest, AStepThatIsOpenedAgainShowsItsNewValues) {
  const estimates::PlayedStep early(0, 0, step_with_share(4), {}),
      late(0, 0, step_with_share(2), {});
  for (const bool forgotten : {false, true}) {
    Telemetry telemetry = make(0, 0, 0);
    telemetry.begin_step(early);
    for (const Nanos now : {300 * kMs, 400 * kMs}) ranks(telemetry, now);
    if (forgotten) telemetry.forget_steps();
    telemetry.begin_step(late);
    const RankSample seen = ranks(telemetry, 700 * kMs)[0];
    EXPECT_NEAR(seen.micro_batch_time.value, 0.2, 1e-9);
    EXPECT_NEAR(seen.micro_batches_done.value, 2, 1e-9);
  }
}

TEST(TelemetryOfAFit, ALossRenumberingAndAMoveHaveRowsOfTheirOwn) {
  testing::LoneJob job("  - {at_time: 1 ms, rank: 2, kill: true}\n");
  job.start();
  TrainingState& state = job.state();
  const auto rows = [&state](SampleTable table) {
    return state.fit().telemetry().rows(table, state.now);
  };
  using Numbers = std::vector<std::uint32_t>;
  job.open_step();
  const auto all = rows(SampleTable::ranks);
  EXPECT_EQ(rows(SampleTable::ranks), all);
  EXPECT_EQ(all->ids, (Numbers{0, 1, 2, 3}));
  job.close_step();
  state.now = state.losses.next_noticed();
  notice_losses(job.here, state);
  const auto part = rows(SampleTable::ranks);
  EXPECT_EQ(part->ids, (Numbers{0, 1, 3}));
  EXPECT_EQ(rows(SampleTable::devices)->ids, (Numbers{0, 1, 3}));

  Standing where = state.fit().where();
  job.here.fits().move_to(state.fits, where, {0, 2, 3});
  EXPECT_EQ(rows(SampleTable::ranks)->ids, (Numbers{0, 2, 3}));
  EXPECT_EQ(part->ids, (Numbers{0, 1, 3})) << "a reader may still have them";
  where.gpus = GpuRuns::range({4}, 3);
  job.here.fits().move_to(state.fits, where, {0, 2, 3});
  EXPECT_EQ(rows(SampleTable::devices)->ids, (Numbers{4, 5, 6}));
}

TEST(TelemetryOfAFit, ASlowLinkChangesItsRateAlone) {
  testing::LoneJob job;
  FittedJob& fit = job.state().fit();
  Telemetry& telemetry = fit.telemetry();
  const auto column = [&](SampleField field) {
    SampleColumn out;
    telemetry.fill_column(field, 0, out);
    return out.values;
  };
  telemetry.update_links(fit.stepper(), {});
  const auto links = telemetry.rows(SampleTable::links, 0);
  const std::vector<double> latency = column(SampleField::latency);
  const std::vector<double> fast = column(SampleField::bandwidth);
  ASSERT_EQ(links->size(), 4u);
  std::vector<LinkId> route;
  job.here.cluster().route({links->ids[1]}, {links->to[1]}, route);
  estimates::HardwareState slow;
  for (const LinkId link : route) slow.link_slow[link.value] = 4;
  telemetry.update_links(fit.stepper(), slow);
  EXPECT_EQ(telemetry.rows(SampleTable::links, 0), links);
  EXPECT_EQ(column(SampleField::latency), latency);
  EXPECT_DOUBLE_EQ(column(SampleField::bandwidth)[1], fast[1] / 4);
  telemetry.update_links(fit.stepper(), {});
  EXPECT_EQ(column(SampleField::bandwidth), fast);
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
