#include "live/programs/policies/program_progress.hpp"

#include <gtest/gtest.h>

namespace orrery::live {
namespace {

constexpr JobId kJob{0};

/// Returns the step in the message with these first fields, without memory and gradients.
RankStep step_of(Fields fields) {
  fields.insert(fields.end(), {"0", "0", "0", "0", "0", "0", "0", "nan"});
  return rank_step_of(fields);
}

TEST(ProgramProgress, AStepIsDoneOnceAllMembersHaveDoneIt) {
  ProgramProgress progress;
  progress.set_begin(0, 4);
  progress.set_begin(1, 4);
  progress.record_step(0, step_of({"done", "5", "10.5", "0.5", "0.4", "1", "0.1", "2", "4"}));
  EXPECT_EQ(progress.completed_steps({0, 1}), 4u);
  EXPECT_EQ(progress.most_steps({0, 1}), 5u);
  progress.record_step(1, step_of({"done", "5", "10.6", "0.7", "0.1", "1", "0", "2", "4"}));
  EXPECT_EQ(progress.completed_steps({0, 1}), 5u);
  EXPECT_DOUBLE_EQ(progress.drain_duration_s(4, 5), 0.7);  // the slowest rank counts
  progress.record_step(0, step_of({"done", "6", "11", "0.5", "0.4", "1", "0.1", "2", "4"}));
  EXPECT_EQ(progress.completed_steps({0}), 6u);  // rank 1 is lost
  EXPECT_DOUBLE_EQ(progress.drain_duration_s(5, 6), 0.5);
}

TEST(ProgramProgress, AMessageWithoutANumberIsNone) {
  EXPECT_ANY_THROW(rank_step_of({"done", "5"}));
  EXPECT_ANY_THROW(step_of({"done", "five", "1", "1", "1", "1", "1", "1", "1"}));
}

TEST(ProgramSamples, AWaitForDataIsThatOfTheJobsReaders) {
  ProgramProgress progress;
  ProgramSamples samples(progress);
  for (const char* step : {"1", "2"}) {
    progress.record_step(0, step_of({"done", step, "9", "1", "0.8", "1", "0.25", "1", "2"}));
    progress.record_step(1, step_of({"done", step, "9", "1", "0.8", "1", "0.5", "4", "8"}));
  }
  samples.begin(10, {{0, true}, {1, true}}, {4, 8});
  const auto waits = samples.column(SampleField::input_wait, kJob);
  EXPECT_EQ(waits->origin(0), Origin::missing) << "rank 0 still has the earlier readers";
  EXPECT_DOUBLE_EQ(waits->values[1], 0.5);
}

TEST(ProgramSamples, AnExchangeBeginsAndEndsWithTheLastRank) {
  ProgramProgress progress;
  ProgramSamples samples(progress);
  const auto record = [&progress](std::size_t rank, const char* step, const char* begun,
                                  const char* done, const char* memory) {
    progress.record_step(
        rank, rank_step_of({"done", step, "9", "1", "0.8", "1", "0", "0", "0", memory, "8000",
                            begun, done, begun, done, "4000", rank == 0 ? "1.5" : "nan"}));
  };
  for (const char* step : {"1", "2"}) {
    record(0, step, "7", "8.5", "3e9");
    record(2, step, "8", "8.25", "2e9");
  }
  samples.begin(10, {{0, true}, {1, false}, {2, true}});
  ASSERT_EQ(samples.collectives(kJob).size(), 1u);
  EXPECT_EQ(samples.collectives(kJob)[0].step, 1u);
  EXPECT_EQ(samples.collectives(kJob)[0].bytes, 8000);
  EXPECT_EQ(samples.collectives(kJob)[0].exposed, 0.5);
  const auto links = samples.links(kJob);
  ASSERT_EQ(links.size(), 2u);
  EXPECT_EQ(links[1].from, GpuId{2});
  EXPECT_EQ(links[1].to, GpuId{0});
  EXPECT_EQ(links[1].bandwidth.value, 8000);
  EXPECT_FALSE(links[1].latency.is_known());
  const auto devices = samples.devices(kJob);
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[1].gpu, GpuId{2});
  EXPECT_EQ(devices[1].memory_used.value, 2e9);
  EXPECT_EQ(samples.ranks(kJob)[0].gradient_variance.value, 1.5);
  EXPECT_FALSE(samples.ranks(kJob)[1].gradient_variance.is_known());
  record(0, "3", "9", "9.5", "3e9");
  samples.begin(11, {{0, true}, {1, false}, {2, true}});
  EXPECT_TRUE(samples.collectives(kJob).empty()) << "of rank 2 the step is unknown";
  EXPECT_FALSE(samples.links(kJob)[0].bandwidth.is_known());
}

TEST(ProgramSamples, TheLivingRanksHaveTimesFromTheirSecondStepOn) {
  ProgramProgress progress;
  ProgramSamples samples(progress);
  for (const std::size_t rank : {0, 2, 5}) progress.record_step(rank, {1, 9, 1, 0.8, 4});
  samples.begin(10, {{0, true}, {2, false}, {5, true}});
  EXPECT_EQ(samples.rows(SampleTable::ranks, kJob)->size(), 0u);
  for (const std::size_t rank : {0, 2, 5}) progress.record_step(rank, {2, 9.75, 1, 0.8, 4});
  samples.begin(10, {{0, true}, {2, false}, {5, true}});
  EXPECT_EQ(samples.rows(SampleTable::ranks, kJob)->ids, (std::vector<std::uint32_t>{0, 2}));
  const auto times = samples.column(SampleField::micro_batch_time, kJob);
  EXPECT_DOUBLE_EQ(times->values[1], 0.2);
  EXPECT_EQ(times->age(1), kNanosPerSecond / 4);
  EXPECT_NEAR(samples.column(SampleField::wait_time, kJob)->values[0], 0.2, 1e-12);
  EXPECT_EQ(samples.column(SampleField::noise_scale, kJob)->origin(0), Origin::missing);
  EXPECT_EQ(samples.column(SampleField::utilization, kJob)->origin(0), Origin::missing);
  EXPECT_DOUBLE_EQ(samples.summary(kJob, 1).micro_batch_time, 0.2);
}

}  // namespace
}  // namespace orrery::live
