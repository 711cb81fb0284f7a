#include "sim/training/next_step.hpp"

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/by_hand.hpp"
#include "tests/sim/training/lone_job.hpp"

namespace orrery::sim {
namespace {

using ::testing::HasSubstr;
using testing::LoneJob;
using Simulated = std::shared_ptr<const estimates::SimulatedStep>;

/// Starts the job and enters its first step.
void enter_first_step(LoneJob& job) {
  job.start();
  EXPECT_TRUE(enter_step(job.here, job.state()));
  update_contention(job.here, job.state());
}

/// Returns the duration of the first step of a job without faults.
Nanos plain_duration() {
  LoneJob job;
  enter_first_step(job);
  return to_nanos(undisturbed_step(job.here, job.state())->run.duration);
}

/// Returns the first step of a job with a fault of rank 2 at an instant.
Simulated step_with(Nanos at, const std::string& fault, const std::vector<double>& stretch = {}) {
  LoneJob job(fmt::format("  - {{at_time: {} ns, rank: 2, {}}}\n", at, fault));
  enter_first_step(job);
  return step_with_changes(job.here, job.state(), stretch);
}

TEST(NextStep, ConditionsDifferOnlyIfSomethingHasChanged) {
  LoneJob job("  - {at_step: 2, rank: 1, slow: 2}\n");
  enter_first_step(job);
  EXPECT_FALSE(enter_step(job.here, job.state()));
  job.state().step = 1;
  EXPECT_FALSE(enter_step(job.here, job.state()));
  job.state().step = 2;
  EXPECT_TRUE(enter_step(job.here, job.state())) << "rank 1 is slow";
  EXPECT_EQ(job.state().conditions->state.slow.size(), 1u);
  const CollectiveTable table{{.kind = CollectiveKind::all_reduce,
                               .from_bytes = 0,
                               .from_ranks = 0,
                               .algorithm = CollectiveAlgorithm::tree,
                               .from_nodes = 0}};
  job.decide_in_world(Configure{{0}, table});
  EXPECT_TRUE(enter_step(job.here, job.state())) << "another table";
  EXPECT_EQ(job.state().conditions->collectives, table);
}

TEST(NextStep, AFaultWithinTheStepChangesItAndOneAfterItDoesNot) {
  const Nanos plain = plain_duration();
  const Simulated slowed = step_with(plain / 2, "slow: 3");
  EXPECT_GT(to_nanos(slowed->run.duration), plain);
  EXPECT_FALSE(slowed->run.cut_short);
  EXPECT_EQ(to_nanos(step_with(2 * plain, "slow: 3")->run.duration), plain);
}

TEST(NextStep, AKillCutsTheStepAtItsInstant) {
  const Nanos plain = plain_duration();
  const Simulated cut = step_with(plain / 2, "kill: true");
  EXPECT_TRUE(cut->run.cut_short);
  EXPECT_NEAR(static_cast<double>(to_nanos(cut->run.duration)), static_cast<double>(plain / 2), 1);
  EXPECT_FALSE(step_with(2 * plain, "kill: true")->run.cut_short);
}

TEST(NextStep, AKillInTheTimeThatNoiseAddsCutsTheStepToo) {
  const Nanos plain = plain_duration();
  const Nanos at = plain + plain / 20;
  EXPECT_FALSE(step_with(at, "kill: true")->run.cut_short) << "without noise";
  const Simulated cut = step_with(at, "kill: true", {1.5, 1.5, 1.5, 1.5});
  EXPECT_TRUE(cut->run.cut_short);
  EXPECT_EQ(to_nanos(cut->run.duration), at);
}

TEST(NextStep, TheLengthIsThatOfTheSlowestReplicaUnlessTheStepIsCutShort) {
  estimates::SimulatedStep step = *testing::step_by_hand();
  EXPECT_EQ(length_of(step, 7, 0, {}), to_nanos(0.85));
  EXPECT_EQ(length_of(step, 7, 0, {1, 1.5}), to_nanos(1.25));
  step.run.cut_short = true;
  EXPECT_EQ(length_of(step, 7, 0, {1, 1.5}), to_nanos(0.85));
  step.run.duration = 1e10;
  try {
    length_of(step, 7, 0, {});
    FAIL() << "the policy clock would overflow";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_THAT(error.message(), HasSubstr("step 7 would end after more than 285"));
  }
}

TEST(NextStep, TheIdealStepGivesASlowRankFewerMicroBatches) {
  LoneJob job("  - {at_step: 0, rank: 1, slow: 2}\n", {"job.pace.micro_batch=40 ms"});
  job.start();
  EXPECT_FALSE(ideal_step_time(job.here.setup(), job.state())) << "no conditions are fixed";
  enter_step(job.here, job.state());
  // 32 micro-batches: ten for each fast rank at most, so at least two for the slow one.
  const std::optional<double> ideal = ideal_step_time(job.here.setup(), job.state());
  ASSERT_TRUE(ideal);
  EXPECT_NEAR(*ideal, 10 * 0.040, 1e-9);
  LoneJob unpaced;
  enter_first_step(unpaced);
  EXPECT_FALSE(ideal_step_time(unpaced.here.setup(), unpaced.state()));
}

TEST(NextStep, TheClockFollowsTheLimitOfPowerOfThePolicy) {
  LoneJob job;
  enter_first_step(job);
  EXPECT_EQ(clock_of(job.here, job.state()), 1);
  job.decide_in_world(Configure{{0}, PowerCap{400}});
  const double clock = clock_of(job.here, job.state());
  EXPECT_GT(clock, 0);
  EXPECT_LT(clock, 1);
  EXPECT_TRUE(enter_step(job.here, job.state()));
  EXPECT_EQ(job.state().conditions->state.clock, clock);
  job.decide_in_world(Configure{{0}, PowerCap{1}});
  EXPECT_EQ(clock_of(job.here, job.state()), 0) << "the job pauses";
}

}  // namespace
}  // namespace orrery::sim
