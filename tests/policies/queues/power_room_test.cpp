#include "policies/queues/power_room.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "policies/parameters.pb.h"
#include "tests/policies/node_of_eight.hpp"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

constexpr Nanos kHour = 3600 * kNanosPerSecond;

JobSpec job_of(std::uint32_t id, std::uint32_t gpus, Nanos estimate) {
  JobSpec job = toy::plain(id, gpus);
  job.estimate = estimate;
  return job;
}

/// Eight H100, of which five may work from 8 to 20 o'clock.
class PowerRoomTest : public ::testing::Test {
 protected:
  PowerRoomTest() : cluster_(node_of_eight()), world_(cluster_) {
    set_limits("limits: [{share: 80%, from: 8 h, until: 20 h, every: 24 h}]\n");
  }

  void set_limits(const std::string& text) {
    EasyParameters parameters;
    load_yaml(text, "p.yaml", parameters);
    room_ = PowerRoom(parameters.limits(), cluster_);
  }
  /// Begins a pass at so many hours.
  void begin_pass(Nanos hours) {
    const std::vector<Event> events{Tick{}};
    room_.begin_pass(toy::seen_of(world_, events, samples_, hours * kHour));
  }
  void run_job(std::uint32_t gpus, Nanos estimate, Nanos since) {
    const std::uint32_t first = 8 - world_.state().free;
    toy::run_on(world_, job_of(next_++, gpus, estimate), first, since);
  }
  /// Submits a job and returns whether it may start in the current pass.
  bool admits(std::uint32_t gpus, Nanos estimate) {
    const JobSpec job = job_of(next_++, gpus, estimate);
    world_.apply(JobSubmitted{job}, 0);
    return room_.admit_job(job);
  }

  Cluster cluster_;
  World world_;
  NoSamples samples_;
  PowerRoom room_;
  std::uint32_t next_ = 0;
};

TEST_F(PowerRoomTest, AJobEndsBeforeALimitOrLeavesPowerUnderIt) {
  run_job(4, 10 * kHour, 0);
  begin_pass(7);
  EXPECT_TRUE(admits(2, kHour)) << "it ends at the begin of the limit";
  EXPECT_TRUE(admits(1, 2 * kHour)) << "five of eight work";
  EXPECT_FALSE(admits(2, 2 * kHour));
  EXPECT_EQ(room_.retry_time(), 8 * kHour);
}

TEST_F(PowerRoomTest, StartsOfThePassCount) {
  begin_pass(7);
  const JobSpec job = job_of(next_++, 4, 3 * kHour);
  world_.apply(JobSubmitted{job}, 0);
  EXPECT_TRUE(room_.admit_job(job));
  room_.add_start(job);
  EXPECT_FALSE(admits(2, 3 * kHour));
  EXPECT_TRUE(admits(4, kHour));
}

/// The first job may start at 20 o'clock, when the running one ends, and needs the three GPUs of
/// the second limit.
TEST_F(PowerRoomTest, TheFirstRefusedJobReservesItsGpus) {
  set_limits(
      "limits: [{share: 80%, from: 8 h, until: 20 h, every: 24 h},\n"
      "  {share: 70%, from: 30 h, until: 31 h}]\n");
  run_job(4, 20 * kHour, 0);
  begin_pass(1);
  EXPECT_FALSE(room_.expected_start({0}));
  EXPECT_FALSE(admits(3, 13 * kHour));
  EXPECT_EQ(room_.expected_start({1}), 20 * kHour);
  EXPECT_FALSE(admits(1, 40 * kHour)) << "the first one needs all power at 30 o'clock";
  EXPECT_EQ(room_.expected_start({2}), 8 * kHour);
  EXPECT_TRUE(admits(1, 29 * kHour)) << "it ends at 30 o'clock";
  begin_pass(1);
  EXPECT_TRUE(admits(1, 40 * kHour)) << "nothing is reserved in a new pass";
  EXPECT_FALSE(room_.retry_time());
}

/// A reservation that begins between two changes of the limits counts from then on.
TEST_F(PowerRoomTest, AReservationBeginsWhenAJobEnds) {
  run_job(4, 10 * kHour, 0);
  begin_pass(1);
  EXPECT_FALSE(admits(3, 9 * kHour));
  EXPECT_EQ(room_.expected_start({1}), 10 * kHour);
  EXPECT_TRUE(admits(1, 18 * kHour)) << "beside the first one";
  room_.add_start(job_of(2, 1, 18 * kHour));
  EXPECT_FALSE(admits(2, 10 * kHour)) << "at 8 o'clock there are four and one";
  EXPECT_TRUE(admits(3, 7 * kHour)) << "it ends before";
}

/// A job of six GPUs never fits under the limit: a short one waits for the night, a long one starts
/// and will pause.
TEST_F(PowerRoomTest, AJobThatAlwaysMeetsALimitStarts) {
  begin_pass(7);
  EXPECT_FALSE(admits(6, 12 * kHour));
  EXPECT_TRUE(admits(6, 13 * kHour));
  begin_pass(20);
  EXPECT_TRUE(admits(6, 12 * kHour));
  run_job(6, 13 * kHour, 20 * kHour);
  begin_pass(21);
  EXPECT_TRUE(admits(2, 13 * kHour)) << "it leaves its power by day";
}

TEST_F(PowerRoomTest, AJobThatOutlivesItsEstimateRunsAsLongAgain) {
  run_job(4, kHour, 0);
  begin_pass(3);
  EXPECT_TRUE(admits(4, 6 * kHour)) << "the other one ends at 6 o'clock";
  begin_pass(5);
  EXPECT_FALSE(admits(4, 6 * kHour)) << "the other one ends at 10 o'clock";
}

/// A limit that never ends counts also as the last one of several.
TEST_F(PowerRoomTest, ALimitWithoutAnEndCounts) {
  set_limits("limits: [{share: 80%, from: 8 h}]\n");
  begin_pass(0);
  EXPECT_TRUE(admits(6, 8 * kHour));
  EXPECT_TRUE(admits(6, 9 * kHour)) << "it never fits";
  EXPECT_TRUE(admits(5, 9 * kHour));
  run_job(1, 20 * kHour, 0);
  begin_pass(0);
  EXPECT_FALSE(admits(5, 9 * kHour));
}

TEST_F(PowerRoomTest, WithoutLimitsAllJobsHaveRoom) {
  room_ = PowerRoom();
  EXPECT_TRUE(room_.empty());
  EXPECT_TRUE(admits(8, 1000 * kHour));
  EXPECT_FALSE(room_.retry_time());
}

TEST(PowerRoom, GpusWithoutKnownPowerAreRefused) {
  EasyParameters parameters;
  load_yaml("limits: [{share: 80%}]\n", "p.yaml", parameters);
  const Cluster cluster = node_of_eight(0);
  EXPECT_THROW(PowerRoom(parameters.limits(), cluster), Error);
}

}  // namespace
}  // namespace orrery
