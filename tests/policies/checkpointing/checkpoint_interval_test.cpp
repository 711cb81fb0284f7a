#include "policies/checkpointing/checkpoint_interval.hpp"

#include <gtest/gtest.h>

#include "policies/checkpointing/interval.hpp"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

constexpr Nanos kSecond = kNanosPerSecond;

/// A job of steps of two seconds under the policy.
class CheckpointIntervalTest : public ::testing::Test {
 protected:
  void start(const char* method, const JobSpec& job = toy::job()) {
    CheckpointIntervalParameters parameters;
    parameters.set_method(method);
    parameters.set_interval(100 * kSecond);
    parameters.set_mtbf(3600 * kSecond);
    parameters.set_cost(8 * kSecond);
    policy_.start(context_, cluster_, &parameters);
    toy::run_on(world_, job);
    see({JobStarted{{0}, {1}, 0, toy::standing(0, 4)}}, 1);
  }
  /// Steps between two checkpoints that are decided; 0: nothing is.
  std::uint64_t see(const std::vector<Event>& events, Nanos now) {
    DecisionList decisions;
    policy_.observe(context_, toy::seen_of(world_, events, samples_, now), decisions);
    EXPECT_TRUE(decisions.is_resting());
    EXPECT_LE(decisions.items().size(), 1u);
    if (decisions.items().empty()) return 0;
    const auto& setting = std::get<Configure>(decisions.items()[0].what).what;
    return std::get<CheckpointPlan>(setting).every_steps;
  }
  static StepsDone steps() { return {{0}, 9, 10, 20 * kSecond}; }

  Cluster cluster_ = toy::cluster();
  World world_{cluster_};
  Rng rng_{1};
  Context context_{rng_, {}};
  NoSamples samples_;
  CheckpointInterval policy_;
};

TEST_F(CheckpointIntervalTest, AnIntervalIsWholeStepsOfWhatAStepTakes) {
  start("fixed");
  EXPECT_EQ(see({steps()}, 20 * kSecond), 50u);
  EXPECT_EQ(see({steps()}, 40 * kSecond), 0u) << "that is so already";
}

TEST_F(CheckpointIntervalTest, AJobThatCannotChangeItsIntervalIsLeftAlone) {
  JobSpec job = toy::job();
  job.can = Kinds<Setting>::of<Shares>();
  start("fixed", job);
  EXPECT_EQ(see({steps()}, 20 * kSecond), 0u);
}

TEST_F(CheckpointIntervalTest, YoungAndDalyTakeTheCostThatACheckpointHasShown) {
  start("young");
  EXPECT_EQ(see({steps()}, 20 * kSecond), 120u) << "sqrt(2 x 8 x 3600) = 240 s";
  EXPECT_EQ(see({SaveDone{{0}, 10, Tier::local_disk, 2 * kSecond, 0}}, 30 * kSecond), 60u);
  EXPECT_EQ(see({SaveDone{{0}, 20, Tier::local_disk, 9 * kSecond, 0, false}}, 40 * kSecond), 0u)
      << "one that failed shows nothing";
}

TEST_F(CheckpointIntervalTest, DalysIsItsFormula) {
  start("daly");
  EXPECT_EQ(see({steps()}, 20 * kSecond),
            static_cast<std::uint64_t>(std::nearbyint(daly_interval(8, 3600) / 2)));
}

TEST_F(CheckpointIntervalTest, AdaptiveGoesByTheFailuresThatCame) {
  start("adaptive");
  const auto calm = see({steps()}, 20 * kSecond);
  EXPECT_NEAR(static_cast<double>(calm), daly_interval(8, 3620) / 2, 1);
  std::uint64_t newest = 0;
  for (int i = 0; i < 9; ++i) {
    const auto asked = see({RanksLost{{0}, {{2}}, {2}}}, 400 * kSecond);
    if (asked > 0) newest = asked;
  }
  EXPECT_LT(newest, calm / 2) << "a failure every 400 s";
}

/// Without an end of its wakes, a job that nobody assigns again would be simulated for ever.
TEST_F(CheckpointIntervalTest, AdaptiveAsksForNoCallWhileTheJobIsOnHold) {
  start("adaptive");
  const auto wakes = [this](const std::vector<Event>& events, Nanos now) {
    DecisionList decisions;
    policy_.observe(context_, toy::seen_of(world_, events, samples_, now), decisions);
    return decisions.wake_times();
  };
  const std::vector<Nanos> first = wakes({steps()}, 20 * kSecond);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(wakes({Tick{}}, first[0]).size(), 1u) << "while the job runs, the mean grows on";
  world_.apply(Event(RanksLost{{0}, {{2}}, {2}}), first[0]);
  world_.apply(Event(JobHeld{{0}}), first[0]);
  EXPECT_TRUE(wakes({RanksLost{{0}, {{2}}, {2}}, JobHeld{{0}}}, first[0]).empty());
  EXPECT_TRUE(wakes({Tick{}}, 100 * first[0]).empty());
}

TEST_F(CheckpointIntervalTest, ASavedStateGoesOnAlike) {
  start("adaptive");
  see({steps()}, 20 * kSecond);
  see({RanksLost{{0}, {{2}}, {2}}}, 30 * kSecond);
  Archive saved, again;
  policy_.save(saved);
  CheckpointInterval other;
  other.load(saved);
  other.save(again);
  EXPECT_EQ(saved, again);
  EXPECT_FALSE(saved.empty());
}

}  // namespace
}  // namespace orrery
