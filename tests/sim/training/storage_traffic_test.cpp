// Checkpoint in flight in a snapshot. Durations are tested by tests/sim/storage_test.cpp.
#include "sim/training/storage_traffic.hpp"

#include <gtest/gtest.h>

#include "tests/sim/training/lone_job.hpp"

namespace orrery::sim {
namespace {

using testing::LoneJob;

TEST(StorageTraffic, ASnapshotHasTheCheckpointInFlightAndItsRate) {
  LoneJob job({}, {"run.steps=20", "cluster.storage={bandwidth: 10 GB/s}",
                   "checkpoints={folder: here, every: 2, bytes: 1000 GB}"});
  job.start();
  job.decide_in_world(Configure{{0}, CheckpointPlan{2, Tier::local_disk}});
  job.run_steps(2);
  ASSERT_TRUE(job.state().saving.is_flowing());
  EXPECT_EQ(job.state().saving.next(), kNever) << "no rate yet";
  renew_write_rate(job.here, job.state(), 0);
  EXPECT_EQ(job.state().saving.next(), job.state().now + 100 * kNanosPerSecond);
  LoneJob read(job, [&job](const JobInWorld& here) { return read_state(here, job.bytes()); });
  EXPECT_TRUE(read.state().saving.is_flowing());
  EXPECT_EQ(read.state().saving.next(), job.state().saving.next());
  EXPECT_EQ(read.bytes(), job.bytes());
}

}  // namespace
}  // namespace orrery::sim
