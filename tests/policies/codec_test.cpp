#include "policies/codec.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/error.hpp"
#include "tests/policies/random_seam.hpp"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

/// Every kind of event, in an order that can happen in a world of eight GPUs.
std::vector<Event> every_event(toy::Dice& dice) {
  JobSpec second = toy::job(1);
  second.name = dice.text();
  second.pool = dice.text();
  second.submit = dice.nanos();
  second.duration = dice.nanos();
  second.steps = dice.u64();
  second.nominal_micro_batch_time = dice.nanos();
  return {JobSubmitted{toy::job(0), toy::gpus(0, 4)},
          JobSubmitted{second},
          StepDone{{0}, dice.below(1000), dice.nanos()},
          CheckpointDone{{0}, dice.u64(), dice.u32()},
          RankSuspected{{0}, {1}},
          RankLost{{0}, {1}},
          RankBack{{0}, {1}},
          LinkDown{{3}},
          LinkUp{{3}},
          DecisionOutcome{17, dice.pick(Outcome::expired), dice.text()},
          Tick{},
          JobDone{{1}}};
}

RC_GTEST_PROP(ObservationCodec, DecodingAndEncodingAgainGivesTheSameBytes, (std::uint64_t seed)) {
  const Cluster cluster = toy::cluster(4);
  toy::Dice dice(seed);
  const std::vector<Event> events = every_event(dice);
  const toy::RandomSamples samples(dice, cluster.gpus(), toy::kRanks);
  const World nothing(cluster);
  const Observation seen{.now = dice.nanos(), .epoch = {dice.u64()}, .sequence = dice.u64(),
                         .events = events, .devices = samples.devices, .links = samples.links,
                         .ranks = samples.ranks, .collectives = samples.collectives,
                         .cluster = cluster, .state = nothing.state(), .jobs = nothing.jobs()};
  ObservationRecord record, again;
  encode(seen, record);
  ObservationReader reader(cluster);
  reader.world().announce({.number = 17, .what = Prefetch{{0}, 1}});
  encode(reader.read(record), again);
  RC_ASSERT(record.SerializeAsString() == again.SerializeAsString());
  RC_ASSERT(record.events_size() == int(events.size()));
}

TEST(ObservationReader, ItsWorldFollowsTheEvents) {
  const Cluster cluster = toy::cluster(4);
  toy::Dice dice(1);
  const std::vector<Event> events = every_event(dice);
  ObservationRecord record;
  const World nothing(cluster);
  encode(Observation{.now = 5, .epoch = {}, .sequence = 0, .events = events, .devices = {},
                     .links = {}, .ranks = {}, .collectives = {}, .cluster = cluster,
                     .state = nothing.state(), .jobs = nothing.jobs()},
         record);
  ObservationReader reader(cluster);
  reader.world().announce({.number = 17, .what = Prefetch{{0}, 1}});
  const Observation seen = reader.read(record);
  EXPECT_EQ(seen.jobs.size(), 2u);
  EXPECT_EQ(seen.jobs[0].gpus, toy::gpus(0, 4));
  EXPECT_EQ(seen.jobs[1].phase, JobPhase::done);
  EXPECT_EQ(seen.state.free, 4u);
  EXPECT_EQ(seen.jobs[0].spec.max_micro_batches, 20u);
}

TEST(ObservationReader, AMissingSampleTakesNoBytes) {
  const Cluster cluster = toy::cluster();
  const std::vector<DeviceSample> devices{{.gpu = {1}, .utilization = {0.0, 0, Origin::measured},
                                           .memory_bandwidth = {}, .memory_used = {},
                                           .power = {}}};
  const World nothing(cluster);
  ObservationRecord record;
  encode(Observation{.now = 0, .epoch = {}, .sequence = 0, .events = {}, .devices = devices,
                     .links = {}, .ranks = {}, .collectives = {}, .cluster = cluster,
                     .state = nothing.state(), .jobs = nothing.jobs()},
         record);
  EXPECT_TRUE(record.devices(0).has_utilization());
  EXPECT_FALSE(record.devices(0).has_power());
  ObservationReader reader(cluster);
  const Observation seen = reader.read(record);
  EXPECT_TRUE(seen.devices[0].utilization.known());
  EXPECT_FALSE(seen.devices[0].power.known());
}

std::string refusal(const ObservationRecord& record) {
  const Cluster cluster = toy::cluster();
  ObservationReader reader(cluster);
  reader.world().apply(JobSubmitted{toy::job(), toy::gpus(0, 4)});
  try {
    reader.read(record);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.message();
  }
  return "none";
}

TEST(ObservationReader, WhatCannotBeIsRefused) {
  ObservationRecord record;
  EXPECT_EQ(refusal(record), "none");
  record.add_events();
  EXPECT_EQ(refusal(record), "an event of an unknown kind");
  record.mutable_events(0)->set_job_done(7);
  EXPECT_EQ(refusal(record), "there is no job 7");
  record.mutable_events(0)->mutable_decision_outcome()->set_decision(3);
  EXPECT_EQ(refusal(record), "nobody announced decision 3");
  record.mutable_events(0)->mutable_decision_outcome()->set_status(3);
  EXPECT_EQ(refusal(record), "outcome 3 is unknown");
  record.clear_events();
  record.add_ranks()->set_rank(4);
  EXPECT_EQ(refusal(record), "a sample of rank 4 outside job 0");
  record.mutable_ranks(0)->set_job(1);
  EXPECT_EQ(refusal(record), "a sample of job 1");
  record.clear_ranks();
  record.add_devices()->set_gpu(4);
  EXPECT_EQ(refusal(record), "a sample of GPU 4 of 4");
  record.mutable_devices(0)->set_gpu(0);
  record.mutable_devices(0)->mutable_power()->set_origin(9);
  EXPECT_EQ(refusal(record), "sample origin 9 is unknown");
}

}  // namespace
}  // namespace orrery
