#include "sim/training/exchange_meter.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "core/units.hpp"
#include "tests/sim/by_hand.hpp"
#include "tests/sim/run.hpp"
#include "traces/workload/model.hpp"

namespace orrery::sim {
namespace {

using testing::step_by_hand;

/// A meter of two replicas whose step takes 0.85 s, of which 0.05 s are the exposed exchange.
class ExchangeMeterTest : public ::testing::Test {
 protected:
  std::vector<CollectiveSample> samples() const {
    std::vector<CollectiveSample> found;
    meter_.read(found);
    return found;
  }

  LoadedScenario loaded_ = testing::small_scenario(1, 1, 2, {}, {"job.global_batch=8"});
  StepGraph graph_{loaded_.scenario.job()};
  ExchangeMeter meter_;
};

TEST_F(ExchangeMeterTest, TheSampleIsThatOfTheNewestStep) {
  EXPECT_TRUE(samples().empty()) << "no step";
  meter_.record_step({0}, 3, *step_by_hand(), to_nanos(0.95), {}, graph_);
  meter_.record_step({1}, 4, *step_by_hand(), to_nanos(0.85), {}, graph_);
  ASSERT_EQ(samples().size(), 1u);
  const CollectiveSample sample = samples().front();
  EXPECT_EQ(sample.job, JobId{1});
  EXPECT_EQ(sample.step, 4u);
  EXPECT_EQ(sample.kind, CollectiveKind::all_reduce);
  EXPECT_EQ(sample.ranks, 2u);
  EXPECT_EQ(sample.bytes, 4 * parameter_count(loaded_.scenario.job().model()));
  EXPECT_NEAR(sample.exposed, 0.05, 1e-9);
}

TEST_F(ExchangeMeterTest, OnlyTheTimeThatComputationDoesNotHideIsExposed) {
  // The slower replica computes until 0.88 s.
  meter_.record_step({0}, 0, *step_by_hand(), to_nanos(0.95), {1, 1.1}, graph_);
  ASSERT_EQ(samples().size(), 1u);
  EXPECT_NEAR(samples().front().exposed, 0.07, 1e-9);
  meter_.record_step({0}, 1, *step_by_hand(), to_nanos(0.79), {}, graph_);
  EXPECT_TRUE(samples().empty()) << "the exchange of the newest step is hidden";
}

TEST_F(ExchangeMeterTest, TheAlgorithmIsTheOneThatMovesTheMostBytesOfGradients) {
  const auto group = [](Communicator communicator) {
    estimates::GroupPlan made;
    made.communicator = communicator;
    return made;
  };
  const auto way = [](double bytes, CollectiveAlgorithm algorithm) {
    estimates::GroupPlan::Way made;
    made.bytes = bytes;
    made.algorithm = algorithm;
    return made;
  };
  estimates::SimulatedStep step = *step_by_hand();
  step.plan.groups = {group(Communicator::gradient), group(Communicator::tensor)};
  step.plan.groups[0].ways = {way(1, CollectiveAlgorithm::tree),
                              way(3, CollectiveAlgorithm::hierarchical),
                              way(2, CollectiveAlgorithm::nvls)};
  step.plan.groups[1].ways = {way(9, CollectiveAlgorithm::direct)};
  meter_.record_step({0}, 0, step, to_nanos(0.85), {}, graph_);
  ASSERT_EQ(samples().size(), 1u);
  EXPECT_EQ(samples().front().algorithm, CollectiveAlgorithm::hierarchical);
}

}  // namespace
}  // namespace orrery::sim
