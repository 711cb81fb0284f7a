#include "sim/training/checkpoint_writer.hpp"

#include <gtest/gtest.h>

namespace orrery::sim {
namespace {

Checkpoints costs() {
  Checkpoints costs;
  costs.set_stall(10);
  costs.set_write(100);
  return costs;
}

TEST(CheckpointWriter, WhatIsAskedForComesAfterTheNextStepThatBegins) {
  CheckpointWriter writer;
  writer.request_save();
  EXPECT_FALSE(writer.is_due(4, 0)) << "no step has begun since";
  writer.step_begins();
  EXPECT_FALSE(writer.is_requested());
  EXPECT_TRUE(writer.is_after_this_step());
  EXPECT_TRUE(writer.is_due(5, 0));
  EXPECT_FALSE(writer.is_due(6, 0));
  EXPECT_TRUE(writer.is_due(8, 4));
}

TEST(CheckpointWriter, OneIsWrittenAtATimeAndTakesAsLongAsTheStorageLets) {
  CheckpointWriter writer;
  EXPECT_EQ(writer.begin({2}, 8, 1000, costs(), 0.5), 10);
  EXPECT_EQ(writer.next(), 1210);
  EXPECT_FALSE(writer.is_due(12, 4));
  EXPECT_FALSE(writer.take_done(1209));
  const auto done = writer.take_done(1210);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->job, JobId{2});
  EXPECT_EQ(done->step, 8u);
  EXPECT_EQ(done->took, 210);
  EXPECT_TRUE(done->durable);
  EXPECT_EQ(writer.next(), kNever);
  EXPECT_TRUE(writer.is_due(12, 4));
}

TEST(CheckpointWriter, WithoutStorageOrWithALostPartItIsNotDurable) {
  CheckpointWriter writer;
  writer.begin({0}, 8, 1000, costs(), 0);
  EXPECT_EQ(writer.next(), 1010);
  EXPECT_FALSE(writer.take_done(1010)->durable);

  writer.begin({0}, 9, 2000, costs(), 1);
  writer.spoil_current();
  EXPECT_EQ(writer.next(), kNever);
  EXPECT_FALSE(writer.take_done(9000)) << "it is there until it is given up";
  EXPECT_FALSE(writer.is_due(12, 4));
  const auto failed = writer.abandon_save();
  ASSERT_TRUE(failed);
  EXPECT_FALSE(failed->durable);
  EXPECT_FALSE(writer.abandon_save());
}

}  // namespace
}  // namespace orrery::sim
