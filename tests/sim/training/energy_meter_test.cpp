#include "sim/training/energy_meter.hpp"

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "tests/sim/run.hpp"
#include "topologies/builder.hpp"

namespace orrery::sim {
namespace {

constexpr Nanos kSecond = kNanosPerSecond, kHour = 3600 * kSecond;
constexpr EnergyMeter::Mix kProducts{.time = {1, 0, 0, 0, 0}};
constexpr EnergyMeter::Mix kIdle{.time = {0, 0, 0, 0, 1}};

Cluster cluster_of(const std::string& price) {
  Topology topology;
  const SourceMap places =
      load_yaml("preset: dgx-h100\nnodes: 2\nprice: {" + price + "}\n", "t.yaml", topology);
  resolve(topology, places);
  return build_cluster(topology, places);
}

Report filled(const EnergyMeter& meter, double scale = 1, double elapsed = 3600) {
  Report report;
  meter.fill(report, scale, elapsed, 16);
  return report;
}

TEST(EnergyMeter, GpusAndTheirShareOfTheHostAddUp) {
  const Cluster cluster = cluster_of("pue: 1.5");
  EnergyMeter meter(cluster);
  meter.add(0, kSecond, 8, kProducts);
  meter.add(0, kSecond, 8, kIdle);
  EXPECT_DOUBLE_EQ(meter.joules(), 8 * 700 + 8 * 75 + 2 * 2800.0);
  const Report report = filled(meter, 1, 1);
  EXPECT_DOUBLE_EQ(report.energy_j(), 1.5 * meter.joules());
  EXPECT_DOUBLE_EQ(report.energy_use().products_j(), 5600);
  EXPECT_DOUBLE_EQ(report.energy_use().idle_j(), 600);
  EXPECT_DOUBLE_EQ(report.energy_use().host_j(), 5600);
  EXPECT_DOUBLE_EQ(report.energy_use().site_j(), 0.5 * meter.joules());
  EXPECT_DOUBLE_EQ(report.node_power_w(), meter.joules() / 2);
  EXPECT_FALSE(report.has_carbon_kg()) << "no figure is given";
}

TEST(EnergyMeter, ADefaultMeterMeasuresNothing) {
  EnergyMeter meter;
  meter.add(0, kHour, 8, kProducts);
  EXPECT_EQ(meter.joules(), 0);
}

TEST(EnergyMeter, TimeBeforeTheBeginCountsNothing) {
  const Cluster cluster = cluster_of("pue: 1");
  EnergyMeter meter(cluster);
  meter.begin_at(kHour);
  meter.add(0, 2 * kHour, 8, kProducts);
  EXPECT_DOUBLE_EQ(meter.joules(), 3600 * 8400.0);
  EXPECT_DOUBLE_EQ(filled(meter, 2).energy_j(), 2 * meter.joules()) << "scaled to the whole run";
}

TEST(EnergyMeter, HoursHaveTheirOwnPriceAndCarbon) {
  const Cluster cluster = cluster_of(
      "pue: 1, electricity_by_hour: [0.1, 0.3], carbon_by_hour: [100, 200, 600], "
      "begins_at: 30 min");
  EnergyMeter meter(cluster);
  meter.add(0, kHour, 8, kProducts);  // half of hour 0, half of hour 1
  const double kwh = 8.4;
  EXPECT_NEAR(filled(meter).electricity_usd(), kwh * 0.2, 1e-9);
  EXPECT_NEAR(filled(meter).carbon_kg(), kwh * 0.15, 1e-9);
  meter.add(kHour, 2 * kHour, 8, kProducts);  // half of hour 1, half of hour 2
  EXPECT_NEAR(filled(meter).electricity_usd(), kwh * 0.4, 1e-9) << "the table repeats";
  EXPECT_NEAR(filled(meter).carbon_kg(), kwh * (0.15 + 0.4), 1e-9);
}

TEST(EnergyMeter, OnePieceAndManyPiecesHaveTheSameHours) {
  const Cluster cluster = cluster_of(
      "electricity_by_hour: [0.1, 0.2, 0.3, 0.4, 0.9], carbon_by_hour: [1, 7, 3], begins_at: 7 h");
  Rng rng(3);
  EnergyMeter whole(cluster), pieces(cluster);
  const Nanos end = 1000 * kHour + 77;
  whole.add(0, end, 8, kProducts);
  for (Nanos at = 0; at < end;) {
    const Nanos next = std::min(end, at + static_cast<Nanos>(1 + rng.below(9 * kHour)));
    pieces.add(at, next, 8, kProducts);
    at = next;
  }
  EXPECT_NEAR(filled(pieces).electricity_usd() / filled(whole).electricity_usd(), 1, 1e-9);
  EXPECT_NEAR(filled(pieces).carbon_kg() / filled(whole).carbon_kg(), 1, 1e-9);
  EXPECT_GT(filled(whole).electricity_usd(), 0);
}

}  // namespace
}  // namespace orrery::sim
