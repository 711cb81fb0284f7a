#include "sim/chakra/faulted_collective.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tests/sim/run.hpp"

namespace orrery::sim {
namespace {

using namespace testing;

/// One all-reduce of 1,024 ranks after the other, at line rate.
Report reduced(const std::string& faults, const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides{"run.steps=100", "cluster.fabric.line_rate=true",
                                     "collective.algorithm=ring"};
  if (!faults.empty()) overrides.push_back("faults=[" + faults + "]");
  overrides.insert(overrides.end(), more.begin(), more.end());
  return simulate_example("allreduce-ring-1024.yaml", overrides);
}

TEST(FaultedCollective, ASlowNicSlowsTheRingsOverIt) {
  const Report free = reduced("");
  const Report slow = reduced("{at_time: 0 s, nic: 3, rate: 0.5}");
  const double latency = 2 * 1023 * (7 * 0.5e-6 + 2e-6) / 8;
  EXPECT_NEAR(slow.step_time_s(), 2 * (free.step_time_s() - latency) + latency, 1e-6);
  EXPECT_NEAR(slow.elapsed_s(), 100 * slow.step_time_s(), 1e-6);
  EXPECT_NEAR(slow.goodput(), free.step_time_s() / slow.step_time_s(), 1e-6);
  EXPECT_EQ(slow.faults_injected(), 1u);
}

TEST(FaultedCollective, AFaultInTheMiddleCostsItsPartOfThePass) {
  const Report free = reduced("");
  const double each = free.step_time_s();
  // From the begin of the eleventh pass, for two and a half passes of the healthy fabric.
  const std::string fault = "{at_time: " + std::to_string(10 * each) + " s, nic: 3, rate: 0.5, "
                            "until_time: " + std::to_string(12.5 * each) + " s}";
  const Report report = reduced(fault);
  // The transfer of the first pass takes twice as long, and so does the part of the next one that
  // is done until the fault ends; latencies stay.
  const double latency = 2 * 1023 * (7 * 0.5e-6 + 2e-6) / 8, transfer = each - latency;
  const double slow_part = 2.5 * each - 2 * latency - 2 * transfer;
  EXPECT_NEAR(report.elapsed_s(), 100 * each + transfer + slow_part / 2, 1e-5);
  EXPECT_GE(report.iterations_simulated(), 2u);
  EXPECT_EQ(report.steps_completed(), 100u);
}

TEST(FaultedCollective, ALinkThatIsDownHoldsTheCollectiveUp) {
  const Report free = reduced("");
  const double each = free.step_time_s();
  const std::string begin = std::to_string(10.5 * each);
  const Report report = reduced("{at_time: " + begin + " s, nic: 3, down: true, until_time: " +
                                std::to_string(10.5 * each + 3) + " s}");
  EXPECT_NEAR(report.elapsed_s(), 100 * each + 3, 0.01);
  try {
    reduced("{at_time: " + begin + " s, nic: 3, down: true}");
    FAIL() << "the link never returns";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(error.message().find("node0/nic3"), std::string::npos) << error.message();
  }
}

TEST(FaultedCollective, FaultsOfRanksAreRefused) {
  for (const char* const fault : {"{at_time: 1 s, node: 0, down: true}", "{at_step: 1, rank: 0, "
                                                                         "kill: true}"}) {
    try {
      reduced(fault);
      FAIL() << fault;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("a collective has no ranks that are lost"),
                std::string::npos);
    }
  }
}

TEST(FaultedCollective, DrawnFailuresOfCablesAreTheSameInEveryRun) {
  const std::vector<std::string> flaps{
      "failures={kinds: [{cause: flap, part: nic, mtbf: 1 h, down: true, lasts: 2 s}]}",
      "run.steps=2000"};
  const Report one = reduced("", flaps), two = reduced("", flaps);
  EXPECT_GT(one.faults_injected(), 5u);
  EXPECT_EQ(one.elapsed_s(), two.elapsed_s());
  EXPECT_LT(one.goodput(), 1);
}

}  // namespace
}  // namespace orrery::sim
