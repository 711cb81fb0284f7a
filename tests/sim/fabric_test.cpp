// Jobs after the loss of cables, ports and planes of a fabric, with traffic on one path or on all
// paths.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/sim/run.hpp"

namespace orrery::sim {
namespace {

using testing::simulate;
using testing::small_scenario;

/// 16 nodes of 8 GPUs, a replica of the model each: the exchange of the replicas uses NICs, and no
/// part of it is hidden. Eight planes of switches with 16 ports: rings cross between two leaves a
/// rail.
Report on_planes(const std::string& faults, const std::vector<std::string>& more = {}) {
  std::vector<std::string> all{
      "cluster.node.nic_bandwidth=800 Gbps",
      "cluster.fabric={kind: multi-plane, planes: 8, switch_ports: 16, reroute: 1 ms}",
      "job.overlap=false", "run.steps=40"};
  all.insert(all.end(), more.begin(), more.end());
  return simulate(small_scenario(8, 1, 16, faults, all));
}

double exchanging(const Report& report) { return report.phases().exchange_s(); }

TEST(Fabric, ALostPortCostsAtMostASeventhOfWhatIsExchanged) {
  const double whole = exchanging(on_planes(""));
  for (int lost = 1; lost <= 7; ++lost) {
    std::string faults = "faults:\n";
    for (int port = 0; port < lost; ++port) {
      faults += fmt::format("  - {{at_step: 0, port: {}, down: true}}\n", 3 * 64 + port);
    }
    const double slower = exchanging(on_planes(faults)) / whole;
    const double most = 8.0 / (8 - lost);
    EXPECT_LE(slower, most + 1e-9) << lost << " of 8 ports of NIC 24";
    EXPECT_GT(slower, 1 + 0.9 * (most - 1)) << "hardly anything else takes time";
  }
}

TEST(Fabric, ALostCableIsTheLeafsAndCostsNothingThere) {
  const double whole = on_planes("").elapsed_s();
  const Report one = on_planes("faults:\n  - {at_time: 0 s, cable: 0, down: true}\n");
  EXPECT_EQ(one.step_time_s() * 40, on_planes("").step_time_s() * 40);
  EXPECT_NEAR(one.elapsed_s(), whole, 1.5e-3) << "packets under way are sent again";
  EXPECT_EQ(one.faults_injected(), 1u);
}

TEST(Fabric, ALostPlaneIsAnEighthOfEveryNic) {
  const Report whole = on_planes("");
  const Report seven = on_planes("faults:\n  - {at_step: 0, plane: 5, down: true}\n");
  const Report none = on_planes("faults:\n  - {at_step: 0, planes: 100%, rate: 0.5}\n");
  EXPECT_NEAR(exchanging(seven) / exchanging(whole), 8.0 / 7, 0.02);
  EXPECT_NEAR(exchanging(none) / exchanging(whole), 2, 0.1);
}

/// 8 nodes in two units: rings cross between them. A cable that they need is away for a minute.
double stands_still(const std::string& fabric, const std::string& cables) {
  const Report report = simulate(small_scenario(
      8, 1, 8, "", {"cluster.fabric." + fabric, "run.steps=400", "faults=" + cables}));
  const GpuTime& time = report.gpu_time();
  EXPECT_EQ(report.steps_completed(), 400u);
  return (time.recovery() + time.lost_work()) / time.total() * report.elapsed_s();
}

TEST(Fabric, HowLongALostCableStopsAJobIsHowLongTrafficTakesToAvoidIt) {
  std::string all = "[";  // every cable of both leaves of a rail
  for (int cable = 0; cable < 8; ++cable) {
    all += fmt::format("{{at_time: 1 s, cable: {}, down: true, for: 60 s}},", cable);
  }
  all += "]";
  EXPECT_NEAR(stands_still("transport=destination", all), 60, 2) << "it waits for the cable";
  EXPECT_NEAR(stands_still("reroute=10 s", all), 10, 2) << "routing has converged";
  const std::string one = "[{at_time: 1 s, cable: 3, down: true, for: 60 s}]";
  EXPECT_NEAR(stands_still("transport=adaptive", one), 1e-3, 1e-9);
  EXPECT_NEAR(stands_still("transport=spray", one), 1e-3, 1e-9) << "128 paths are all there are";
}

TEST(Fabric, FoldedAndFullAgreeUnderFlaps) {
  const std::string flaps =
      "failures={until: 60 s, kinds: ["
      "{cause: cable, part: cable, mtbf: 20 s, down: true, lasts: 10 ms, lasts_up_to: 1 s},"
      "{cause: NIC, part: nic, mtbf: 60 s, rate: 0.875, lasts: 10 ms, lasts_up_to: 1 s}]}";
  const LoadedScenario loaded = small_scenario(
      8, 1, 8, "",
      {flaps, "run.steps=300", "cluster.fabric.transport=spray", "cluster.fabric.reroute=3 ms"});
  const Report folded = simulate(loaded);
  const Report full = simulate(loaded, {.full_detail = true, .record = {}, .timeline = {}});
  EXPECT_GT(folded.faults_injected(), 20u);
  EXPECT_EQ(folded.faults_injected(), full.faults_injected());
  EXPECT_NEAR(folded.elapsed_s() / full.elapsed_s(), 1, 0.002);
  EXPECT_NEAR(folded.gpu_time().recovery(), full.gpu_time().recovery(),
              0.01 * full.gpu_time().recovery());
}

}  // namespace
}  // namespace orrery::sim
