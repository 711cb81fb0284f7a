#include "sim/training/save_timing.hpp"

#include <gtest/gtest.h>

namespace orrery::sim {
namespace {

Checkpoints costs() {
  Checkpoints costs;
  costs.set_stall(10);
  costs.set_write(100);
  costs.set_write_memory(5);
  costs.set_write_peer(50);
  return costs;
}

const CheckpointPlan kNoPlan{0, Tier::local_disk}, kPlan{4, Tier::local_disk};

/// Order of a checkpoint on disk.
SaveTiming::Order order(std::uint32_t job, Step step, double storage) {
  return {.job = {job}, .step = step, .tier = Tier::local_disk, .holders = {}, .storage = storage};
}

TEST(SaveTiming, WhatIsAskedForComesAfterTheNextStepThatBegins) {
  SaveTiming writer;
  writer.request_save(Tier::local_disk);
  EXPECT_FALSE(writer.drain_due(4)) << "no step has begun since";
  writer.step_begins(kNoPlan);
  EXPECT_FALSE(writer.is_requested());
  EXPECT_TRUE(writer.is_after_this_step());
  EXPECT_EQ(writer.drain_due(5), Tier::local_disk);
  EXPECT_FALSE(writer.drain_due(6));
  writer.step_begins(kPlan);
  EXPECT_EQ(writer.drain_due(8), Tier::local_disk);
}

TEST(SaveTiming, ThePlanWithWhichAStepBeginsHoldsAtItsEnd) {
  SaveTiming writer;
  writer.step_begins(kPlan);
  EXPECT_EQ(writer.plan(), kPlan);
  writer.step_begins(kNoPlan);
  EXPECT_FALSE(writer.drain_due(8)) << "that of the step before";
  writer.step_begins(kPlan);
  EXPECT_TRUE(writer.drain_due(8));
}

TEST(SaveTiming, ACheckpointOfBytesTakesAsLongAsItsRatesSay) {
  Checkpoints bytes = costs();
  bytes.set_stall(2 * kNanosPerSecond);
  bytes.set_write(0);
  bytes.set_bytes(100);
  SaveTiming writer;
  EXPECT_EQ(writer.begin(order(0, 4, 1), kNanosPerSecond, bytes), 2 * kNanosPerSecond);
  EXPECT_TRUE(writer.is_flowing());
  EXPECT_EQ(writer.next(), kNever) << "no rate yet";
  writer.set_rate(10, kNanosPerSecond);
  EXPECT_EQ(writer.next(), 13 * kNanosPerSecond) << "from the end of the stall";
  writer.set_rate(5, 5 * kNanosPerSecond);
  EXPECT_DOUBLE_EQ(writer.bytes_left(5 * kNanosPerSecond), 80);
  EXPECT_EQ(writer.next(), 21 * kNanosPerSecond);
  writer.set_rate(0, 7 * kNanosPerSecond);
  EXPECT_EQ(writer.next(), kNever) << "the storage is down";
  writer.set_rate(35, 107 * kNanosPerSecond);
  const auto done = writer.take_done(109 * kNanosPerSecond);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->took, 108 * kNanosPerSecond);
  EXPECT_FALSE(writer.is_flowing());
  // Another tier takes its time, and bytes of an incomplete checkpoint are not counted.
  bytes.set_storage("there");
  writer.begin(order(0, 8, 1), 200 * kNanosPerSecond, bytes);
  EXPECT_FALSE(writer.is_flowing());
  EXPECT_EQ(writer.next(), 202 * kNanosPerSecond);
  SaveTiming spoiled;
  bytes.clear_storage();
  spoiled.begin(order(0, 4, 1), 0, bytes);
  spoiled.set_rate(10, 0);
  spoiled.spoil_current();
  EXPECT_FALSE(spoiled.is_flowing());
  EXPECT_EQ(spoiled.next(), kNever);
}

TEST(SaveTiming, TheNewestCheckpointsStayAndThoseBeforeACorruptionAreIntact) {
  SaveTiming writer;
  const auto keep = [&](Step step, Nanos at, Tier tier = Tier::local_disk) {
    writer.keep_checkpoint({.job = {0}, .step = step, .tier = tier, .took = 10}, at, 3);
  };
  EXPECT_EQ(writer.newest_intact(1000), 0u);
  EXPECT_EQ(writer.oldest_kept(7), 7u);
  for (const Step step : {10, 20, 30, 40}) keep(step, 100 * static_cast<Nanos>(step));
  keep(44, 4400, Tier::memory);
  EXPECT_EQ(writer.oldest_kept(40), 20u) << "three stay";
  EXPECT_EQ(writer.newest_intact(5000), 40u);
  EXPECT_EQ(writer.newest_intact(3990), 30u) << "the state of step 40 was taken at 3990";
  EXPECT_EQ(writer.newest_intact(3991), 40u);
  EXPECT_EQ(writer.newest_intact(1990), 0u) << "that of step 10 is deleted";
  writer.forget_kept_after(20);
  EXPECT_EQ(writer.newest_intact(5000), 20u);
}

TEST(SaveTiming, OneIsWrittenAtATimeAndTakesAsLongAsTheStorageLets) {
  SaveTiming writer;
  writer.step_begins(kPlan);
  EXPECT_EQ(writer.begin(order(2, 8, 0.5), 1000, costs()), 10);
  EXPECT_EQ(writer.next(), 1210);
  EXPECT_FALSE(writer.drain_due(12));
  EXPECT_FALSE(writer.take_done(1209));
  const auto done = writer.take_done(1210);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->job, JobId{2});
  EXPECT_EQ(done->step, 8u);
  EXPECT_EQ(done->took, 210);
  EXPECT_TRUE(done->durable);
  EXPECT_EQ(writer.next(), kNever);
  EXPECT_TRUE(writer.drain_due(12));
}

TEST(SaveTiming, WithoutStorageOrWithALostPartItIsNotDurable) {
  SaveTiming writer;
  writer.step_begins(kPlan);
  writer.begin(order(0, 8, 0), 1000, costs());
  EXPECT_EQ(writer.next(), 1010);
  EXPECT_FALSE(writer.take_done(1010)->durable);

  writer.begin(order(0, 9, 1), 2000, costs());
  writer.spoil_current();
  EXPECT_EQ(writer.next(), kNever);
  EXPECT_FALSE(writer.take_done(9000)) << "it is there until it is given up";
  EXPECT_FALSE(writer.drain_due(12));
  const auto failed = writer.abandon_saves();
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_FALSE(failed[0].durable);
  EXPECT_TRUE(writer.abandon_saves().empty());
}

TEST(SaveTiming, EachTierHasItsTimeAndIsWrittenBesideTheOthers) {
  SaveTiming writer;
  writer.begin(order(0, 8, 0.5), 1000, costs());
  SaveTiming::Order copies{.job = {0}, .step = 9, .tier = Tier::memory};
  copies.holders = {{{0}, {0}}, {{1}, {1}}};
  writer.begin(copies, 1000, costs());
  copies.tier = Tier::peer;
  copies.holders = {{{0}, {1}}, {{1}, {0}}};
  copies.storage = 0;
  writer.begin(copies, 1000, costs());
  EXPECT_EQ(writer.next(), 1015);
  const auto memory = writer.take_done(1020);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->tier, Tier::memory);
  EXPECT_EQ(memory->holders.size(), 2u);
  EXPECT_FALSE(writer.take_done(1020));
  EXPECT_TRUE(writer.abandon_holder({7}).empty()) << "holds none";
  const auto lost = writer.abandon_holder({1});
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].tier, Tier::peer);
  EXPECT_FALSE(lost[0].durable);
  EXPECT_EQ(writer.next(), 1210) << "the disk";
}

TEST(SaveTiming, ARequestOfAnotherTierWaitsForTheNextStep) {
  SaveTiming writer;
  writer.request_save(Tier::peer);
  writer.request_save(Tier::memory);
  writer.step_begins(kNoPlan);
  EXPECT_EQ(writer.drain_due(5), Tier::memory);
  EXPECT_TRUE(writer.is_requested());
  writer.step_begins(kNoPlan);
  EXPECT_EQ(writer.drain_due(6), Tier::peer);
  EXPECT_FALSE(writer.is_requested());
}

}  // namespace
}  // namespace orrery::sim
