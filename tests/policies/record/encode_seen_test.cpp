#include "policies/record/encoding.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/error.hpp"
#include "tests/policies/random_seam.hpp"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

Removal any_removal(toy::Dice& dice) {
  Removal removal;
  if (dice.random_flag())
    removal.at = dice.nanos();
  else
    removal.at_step = dice.u64();
  if (dice.random_flag()) removal.back_at = dice.nanos();
  if (dice.random_flag()) removal.back_at_step = dice.u64();
  return removal;
}

/// Every kind of event, in an order that can happen in a world of eight GPUs.
std::vector<Event> every_event(toy::Dice& dice) {
  JobSpec second = toy::job(1);
  second.name = dice.text();
  second.user = dice.text();
  second.pool = dice.text();
  second.title = dice.text();
  second.qos = dice.text();
  second.submit = dice.nanos();
  second.estimate = dice.nanos();
  second.priority = static_cast<std::int32_t>(dice.u32());
  second.least_gpus = dice.u32();
  second.most_gpus = dice.u32();
  second.steps = dice.u64();
  second.nominal_micro_batch_time = dice.nanos();
  second.state = {dice.real()};
  second.can = Kinds<Setting>::from_bits(dice.u32());
  second.can_change_layout = dice.random_flag();
  second.settings = dice.several([&dice] { return toy::random_setting(dice); });
  const std::uint64_t count = 1 + dice.below(1000);
  return {JobSubmitted{toy::job(0)},
          JobSubmitted{second},
          JobStarted{{0}, {1}, 0, toy::standing(0, 4)},
          StepsDone{{0}, count - 1, count, dice.nanos()},
          SaveDone{{0},
                   dice.below(count),
                   dice.random_enum(Tier::storage),
                   dice.nanos(),
                   dice.nanos(),
                   dice.random_flag()},
          PartChanged{{PartKind::node, 1},
                      {.health = dice.random_enum(Health::lost), .rate = dice.real()}},
          PartChanged{{PartKind::gpu, 3},
                      {.health = dice.random_enum(Health::lost), .removal = any_removal(dice)}},
          Decided{17, dice.random_enum(Outcome::expired), dice.text()},
          RanksSuspected{{0}, {{1}}},
          RanksLost{{0}, {{1}, {3}}, {2}},
          RanksLost{{0}, {{0}}, {3}, dice.below(count)},
          JobHeld{{0}},
          JobStopped{{0}, dice.u64()},
          JobStarted{{0}, {4}, dice.u64(), toy::standing(0, 2)},
          ParameterSet{"recover", "how", dice.text()},
          Tick{},
          JobDone{{1}, dice.random_enum(Ending::cancelled), dice.nanos()}};
}

/// A decision that can be applied when its outcome comes.
const Decision kAnnounced{.id = 17, .what = Save{{0}}};

RC_GTEST_PROP(ObservationCodec, DecodingAndEncodingAgainGivesTheSameBytes, (std::uint64_t seed)) {
  const Cluster cluster = toy::cluster(4);
  toy::Dice dice(seed);
  const std::vector<Event> events = every_event(dice);
  const World nothing(cluster);
  NoSamples samples;
  ObservationRecord record, again;
  encode(toy::seen_of(nothing, events, samples, dice.nanos(), dice.u64()), record);
  ObservationReader reader(cluster);
  reader.world().announce_decision(kAnnounced);
  encode(reader.read(record, samples), again);
  RC_ASSERT(record.SerializeAsString() == again.SerializeAsString());
  RC_ASSERT(record.events_size() == int(events.size()));
}

TEST(ObservationReader, ItsWorldFollowsTheEvents) {
  const Cluster cluster = toy::cluster(4);
  toy::Dice dice(1);
  const std::vector<Event> events = every_event(dice);
  ObservationRecord record;
  const World nothing(cluster);
  NoSamples samples;
  encode(toy::seen_of(nothing, events, samples, 5), record);
  ObservationReader reader(cluster);
  reader.world().announce_decision(kAnnounced);
  const Observation seen = reader.read(record, samples);
  EXPECT_EQ(seen.jobs.size(), 2u);
  EXPECT_EQ(seen.jobs[{0}].gpus, toy::gpus(0, 2));
  EXPECT_EQ(seen.jobs[{0}].epoch, Epoch{4});
  EXPECT_EQ(seen.jobs[{0}].spec.max_micro_batches, 20u);
  EXPECT_EQ(seen.jobs[{1}].phase, JobPhase::done);
  record.clear_events();
  EXPECT_EQ(reader.read(record, samples).jobs.find({1}), nullptr) << "shown once as over";
}

std::string refusal(const ObservationRecord& record) {
  const Cluster cluster = toy::cluster();
  ObservationReader reader(cluster);
  toy::run_on(reader.world(), toy::job());
  NoSamples samples;
  try {
    reader.read(record, samples);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.message();
  }
  return "none";
}

TEST(ObservationReader, WhatCannotBeIsRefused) {
  ObservationRecord record;
  EXPECT_EQ(refusal(record), "none");
  EventRecord& event = *record.add_events();
  EXPECT_EQ(refusal(record), "an event of an unknown kind");
  event.mutable_job_done()->set_job(7);
  EXPECT_EQ(refusal(record), "there is no job 7");
  event.mutable_decided()->set_decision(3);
  EXPECT_EQ(refusal(record), "decision 3 was not announced");
  event.mutable_decided()->set_status(static_cast<OutcomeStatusRecord>(3));
  EXPECT_EQ(refusal(record), "outcome 3 is unknown");
  event.mutable_ranks_lost()->add_ranks(4);
  EXPECT_EQ(refusal(record), "job 0 has no rank 4");
  event.mutable_part_changed()->set_kind(static_cast<PartKindRecord>(99));
  EXPECT_EQ(refusal(record), "kind of part 99 is unknown");
  event.mutable_part_changed()->set_kind(PART_GPU);
  event.mutable_part_changed()->set_index(4);
  EXPECT_EQ(refusal(record), "there is no gpu 4");
  event.mutable_save_done()->set_tier(static_cast<TierRecord>(77));
  EXPECT_EQ(refusal(record), "tier 77 is unknown");
  event.mutable_job_done()->set_how(static_cast<EndingRecord>(3));
  EXPECT_EQ(refusal(record), "ending 3 is unknown");
}

}  // namespace
}  // namespace orrery
