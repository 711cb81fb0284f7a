#include "policies/seam/job.hpp"

#include <set>

#include <gtest/gtest.h>

#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

using List = std::vector<std::uint32_t>;

TEST(EvenSplit, GivesTheRemainderToTheFirst) {
  EXPECT_EQ(even_split(10, 4), (List{3, 3, 2, 2}));
  EXPECT_EQ(even_split(2, 3), (List{1, 1, 0}));
  EXPECT_TRUE(even_split(5, 0).empty());
}

TEST(ParallelLayout, ReplicaOfARankInBothOrders) {
  ParallelLayout layout{.tensor = 2, .context = 2, .pipeline = 3, .data = 4};
  EXPECT_EQ(layout.ranks_per_replica(), 12u);
  EXPECT_EQ(layout.replica_of({11}), 0u);  // the last stage of the first replica
  EXPECT_EQ(layout.replica_of({12}), 1u);
  layout.pipeline_last = true;
  EXPECT_EQ(layout.replica_of({3}), 0u);
  EXPECT_EQ(layout.replica_of({4}), 1u);   // the first stage of the second replica
  EXPECT_EQ(layout.replica_of({16}), 0u);  // the second stage of the first
}

TEST(ParallelLayout, ReplicasAreEqualWhateverTheirNumber) {
  const ParallelLayout layout{.tensor = 2, .pipeline = 3, .data = 4};
  EXPECT_TRUE(layout.has_replicas_of({.tensor = 2, .pipeline = 3, .data = 1}));
  EXPECT_FALSE(layout.has_replicas_of({.tensor = 3, .pipeline = 2, .data = 4}));
  EXPECT_FALSE(
      layout.has_replicas_of({.tensor = 2, .pipeline = 3, .data = 4, .pipeline_last = true}));
}

TEST(MostMicroBatches, AreInProportionToTheGpusOfAReplica) {
  JobSpec job;
  job.layout = {.pipeline = 4, .data = 2};
  EXPECT_EQ(most_micro_batches(job, {.pipeline = 2}), 0u) << "no limit";
  EXPECT_TRUE(fits_replicas(job, 1'000'000, {.pipeline = 2}));
  job.max_micro_batches = 8;
  EXPECT_EQ(most_micro_batches(job, job.layout), 8u);
  EXPECT_EQ(most_micro_batches(job, {.pipeline = 3}), 6u);
  EXPECT_EQ(most_micro_batches(job, {.pipeline = 1}), 2u);
  EXPECT_EQ(most_micro_batches(job, {.tensor = 5}), 10u);
  job.max_micro_batches = 7;
  EXPECT_EQ(most_micro_batches(job, {.pipeline = 3}), 6u) << "rounded up";
  EXPECT_TRUE(fits_replicas(job, 12, {.pipeline = 3, .data = 2}));
  EXPECT_FALSE(fits_replicas(job, 13, {.pipeline = 3, .data = 2}));
  EXPECT_FALSE(fits_replicas(job, 0, {.pipeline = 3, .data = 0}));
}

TEST(JobTable, AMillionJobsPassThroughAHandfulOfPlaces) {
  const Cluster cluster = toy::cluster(4, 4);
  World world(cluster);
  std::set<const JobInfo*> places;
  constexpr std::uint32_t kJobs = 1'000'000, kAtOnce = 5;
  for (std::uint32_t id = 0; id < kJobs; ++id) {
    world.begin_batch();
    world.apply(JobSubmitted{toy::plain(id, 1)}, id);
    places.insert(&world.jobs()[{id}]);
    if (id >= kAtOnce) world.apply(JobDone{{id - kAtOnce}}, id);
  }
  world.begin_batch();
  EXPECT_EQ(world.jobs().submitted(), kJobs);
  EXPECT_EQ(world.jobs().size(), kAtOnce);
  EXPECT_LE(places.size(), kAtOnce + 2);
  EXPECT_EQ(world.jobs().begin()->spec.id.value, kJobs - kAtOnce);
}

TEST(JobTable, ItsOrderIsThatOfSubmissionWhoeverLeaves) {
  const Cluster cluster = toy::cluster();
  World world(cluster);
  for (std::uint32_t id = 0; id < 4; ++id) world.apply(JobSubmitted{toy::plain(id, 1)}, 0);
  const auto left = [&world](std::uint32_t gone) {
    world.apply(JobDone{{gone}}, 0);
    world.begin_batch();
    List ids;
    for (const JobInfo& job : world.jobs()) ids.push_back(job.spec.id.value);
    return ids;
  };
  EXPECT_EQ(left(1), (List{0, 2, 3}));
  EXPECT_EQ(left(3), (List{0, 2}));
  EXPECT_EQ(left(0), (List{2}));
  EXPECT_EQ(left(2), List{});
  EXPECT_TRUE(world.jobs().empty());
  EXPECT_EQ(world.jobs().submitted(), 4u);
  world.apply(JobSubmitted{toy::plain(4, 1)}, 0);
  EXPECT_EQ(world.jobs().begin()->spec.id, JobId{4});
  EXPECT_EQ(world.jobs().find({3}), nullptr);
}

TEST(Settings, HoldOneValueOfEach) {
  Settings settings;
  settings.set_setting(OnLoss{LossResponse::hold});
  settings.set_setting(Shares{{1, 2}});
  EXPECT_EQ(settings.get<OnLoss>().response, LossResponse::hold);
  EXPECT_EQ(settings.get<Shares>().per_replica, (List{1, 2}));
  EXPECT_EQ(settings.get<CheckpointPlan>(), CheckpointPlan{});
  Settings other = settings;
  EXPECT_EQ(other, settings);
  other.set_setting(OnLoss{});
  EXPECT_NE(other, settings);
}

}  // namespace
}  // namespace orrery
