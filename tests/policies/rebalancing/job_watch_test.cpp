#include "policies/rebalancing/job_watch.hpp"

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"
#include "policies/seam/byte_archive.hpp"

namespace orrery {
namespace {

/// Two replicas of two tensor-parallel ranks (or pipeline stages), eight micro-batches each.
JobInfo four_ranks(std::uint32_t pipeline = 1) {
  JobInfo job;
  job.spec.gpus = 4;
  job.spec.micro_batches = 16;
  job.spec.layout = {.tensor = 2 / pipeline, .pipeline = pipeline, .data = 2};
  job.layout = job.spec.layout;
  job.phase = JobPhase::running;
  job.gpus = {{8}, {9}, {10}, {11}};
  job.now.set_setting(Shares{{8, 8}});
  return job;
}

RankSample progress(std::uint32_t rank, Step step, double done, double seconds) {
  RankSample sample{};
  sample.rank = {rank};
  sample.step = step;
  sample.micro_batches_done = {done, 0, Origin::measured};
  sample.micro_batch_time = {seconds, 0, Origin::measured};
  return sample;
}

void add(JobWatch& watch, const RankSample& sample, Nanos now) {
  const std::span<const RankSample> one(&sample, 1);
  watch.add_ranks(rows_of(one), column_of(one, SampleField::micro_batches_done),
                  column_of(one, SampleField::micro_batch_time), now);
}

void add(JobWatch& watch, const DeviceSample& sample, Nanos now) {
  const std::span<const DeviceSample> one(&sample, 1);
  watch.add_devices(rows_of(one), column_of(one, SampleField::utilization),
                    column_of(one, SampleField::memory_bandwidth), now);
}

std::vector<ReplicaForecast> forecast(const JobWatch& watch, Step target) {
  std::vector<ReplicaForecast> replicas = watch.forecast(target);
  watch.add_deviations(target, replicas);
  return replicas;
}

std::string state_of(const JobWatch& watch) {
  std::string saved;
  ByteWriter write(saved);
  JobWatch::fields(watch, write);
  return saved;
}

TEST(JobWatch, ReplicaGoesAtThePaceOfItsSlowestRank) {
  JobWatch watch(four_ranks());
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    add(watch, progress(rank, 0, 1.5, rank == 2 ? 0.3 : 0.1), 0);
  }
  const auto replicas = watch.forecast(0);
  ASSERT_EQ(replicas.size(), 2u);
  EXPECT_NEAR(std::exp(replicas[0].log_time), 0.1, 1e-6);
  EXPECT_NEAR(std::exp(replicas[1].log_time), 0.3, 1e-6);
  EXPECT_EQ(replicas[1].rank, 2u);
}

TEST(JobWatch, SameMicroBatchCountsOnce) {
  JobWatch once(four_ranks()), often(four_ranks());
  add(once, progress(0, 0, 1.2, 0.1), 0);
  for (int i = 0; i < 50; ++i) add(often, progress(0, 0, 1.2 + 0.01 * i, i == 0 ? 0.1 : 0.5), 0);
  EXPECT_EQ(forecast(once, 0)[0].log_time, forecast(often, 0)[0].log_time);
  EXPECT_EQ(forecast(once, 0)[0].deviation, forecast(often, 0)[0].deviation);
}

TEST(JobWatch, UnknownUntilMeasured) {
  JobWatch watch(four_ranks());
  add(watch, progress(0, 0, 0.5, 0.1), 0);  // nothing is finished yet
  EXPECT_FALSE(watch.forecast(0)[0].known);
  EXPECT_FALSE(watch.has_measured(0));
  add(watch, progress(0, 0, 1.5, 0.1), 0);
  EXPECT_TRUE(watch.forecast(0)[0].known);
  EXPECT_FALSE(watch.forecast(0)[1].known);
}

TEST(JobWatch, LatenessOfAnUnfinishedMicroBatchCounts) {
  for (const std::uint32_t pipeline : {1u, 2u}) {
    JobInfo job = four_ranks(pipeline);
    JobWatch watch(job);
    for (Step step = 0; step < 6; ++step) {
      job.step = step;
      watch.follow_job(job, to_nanos(double(step)));
      for (std::uint32_t rank = 0; rank < 4; ++rank) {
        for (int k = 1; k <= 8; ++k) add(watch, progress(rank, step, k, 0.1), 0);
      }
      watch.learn_from_samples();
    }
    job.step = 6;
    watch.follow_job(job, to_nanos(6));
    add(watch, progress(3, 6, 0.02, 0.1), to_nanos(6.05));
    add(watch, progress(3, 6, 0.20, 0.1), to_nanos(6.65));
    const double seconds = std::exp(watch.forecast(6)[1].log_time);
    if (pipeline == 1) {
      EXPECT_NEAR(seconds, 0.6 / 1.18, 1e-3) << "at most 1.18 were done in 0.6 s";
      EXPECT_TRUE(watch.knows_more_soon(3));
    } else {
      EXPECT_NEAR(seconds, 0.1, 0.01) << "a pipeline stage may just be waiting";
    }
  }
}

TEST(JobWatch, AnotherPlacementIsAnotherJob) {
  JobInfo job = four_ranks();
  const JobWatch watch(job);
  EXPECT_TRUE(watch.fits_job(job));
  job.gpus = {{8}, {30}, {10}, {11}};
  EXPECT_FALSE(watch.fits_job(job));
  job = four_ranks(2);
  EXPECT_FALSE(watch.fits_job(job));
}

TEST(JobWatch, ForeignAndImpossibleSamplesArePassedOver) {
  JobWatch watch(four_ranks());
  add(watch, progress(99, 0, 1, 0.1), 0);
  add(watch, progress(0, 40, 1, 0.1), 0);
  add(watch, progress(0, 0, 1, std::nan("")), 0);
  DeviceSample device{};
  device.gpu = {3000};
  device.utilization = {0.5, 0, Origin::measured};
  add(watch, device, 0);
  watch.learn_from_samples();
  EXPECT_FALSE(watch.forecast(0)[0].known);
}

TEST(JobWatch, ForecastsAreThoseOfAWatchThatIsAskedForTheFirstTime) {
  JobInfo job = four_ranks();
  JobWatch watch(job);
  for (Step step = 0; step < 12; ++step) {
    job.step = step;
    watch.follow_job(job, to_nanos(double(step)));
    for (int k = 1; k <= 8; ++k) {
      for (std::uint32_t rank = 0; rank < 4; ++rank) {
        const double seconds = 0.1 + 0.01 * rank + 0.002 * double(step) + 0.001 * (k % 3);
        add(watch, progress(rank, step, k, seconds), to_nanos(double(step) + 0.1 * k));
      }
      watch.learn_from_samples();
      std::string saved;
      ByteWriter write(saved);
      JobWatch::fields(watch, write);
      JobWatch fresh;
      ByteReader read(saved);
      fresh.restore_from(read, 4);
      for (const Step target : {step + 9, step + 1, step + 9}) {
        const auto known = forecast(watch, target), made = forecast(fresh, target);
        for (std::size_t i = 0; i < known.size(); ++i) {
          ASSERT_EQ(known[i].log_time, made[i].log_time) << step << ' ' << k;
          ASSERT_EQ(known[i].deviation, made[i].deviation) << step << ' ' << k;
        }
      }
    }
  }
}

/// Follows a job whose micro-batches take a second, with signals that change and one late rank:
/// logarithms of 1 alone, so that all processors compute the same bits.
JobWatch watch_of_exact_numbers() {
  JobInfo job = four_ranks();
  JobWatch watch(job);
  Rng rng(9);
  for (Step step = 0; step < 6; ++step) {
    job.step = step;
    const Nanos begin = to_nanos(10.0 * double(step));
    watch.follow_job(job, begin);
    for (int k = 1; k <= 8; ++k) {
      const Nanos now = begin + k * kNanosPerSecond;
      for (std::uint32_t rank = 0; rank < 4; ++rank) {
        add(watch, progress(rank, step, k, 1), now);
        DeviceSample device{};
        device.gpu = job.gpus.to_vector()[rank];
        device.utilization = {rank == 1 && step == 4 ? 0.1 : rng.uniform(), 0, Origin::measured};
        device.memory_bandwidth = {0.25 + 0.5 * rng.uniform(), 0, Origin::measured};
        add(watch, device, now);
      }
      LinkSample link{};
      link.from = {9}, link.to = {10};
      link.latency = {1, 0, Origin::measured};
      const std::span<const LinkSample> one(&link, 1);
      watch.add_links(rows_of(one), column_of(one, SampleField::latency), now);
      watch.learn_from_samples();
    }
  }
  add(watch, progress(3, 5, 0.25, 1), to_nanos(51));
  job.step = 6;
  watch.follow_job(job, to_nanos(60));
  add(watch, progress(2, 6, 0.25, 1), to_nanos(60));
  add(watch, progress(2, 6, 0.5, 1), to_nanos(80));  // 20 s for at most 1.25 micro-batches
  return watch;
}

TEST(JobWatch, TheSavedBytesAreThoseOfEarlierVersions) {
  const std::string state = state_of(watch_of_exact_numbers());
  std::uint64_t hash = 0xCBF29CE484222325ull;  // FNV-1a
  for (const char c : state) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  EXPECT_EQ(state.size(), 1700u);
  EXPECT_EQ(hash, 0x8d65a55b5686e82aull) << std::hex << hash;
}

TEST(JobWatch, ATableIsTheSameAsItsRowsOneByOne) {
  JobInfo job = four_ranks(2);
  JobWatch whole(job), single(job);
  Rng rng(7);
  for (Step step = 0; step < 8; ++step) {
    job.step = step;
    const Nanos begin = to_nanos(double(step));
    whole.follow_job(job, begin), single.follow_job(job, begin);
    for (int k = 0; k <= 20; ++k) {
      std::vector<RankSample> ranks;
      std::vector<DeviceSample> devices(4);
      for (std::uint32_t rank = 0; rank < 4; ++rank) {
        const Step shown = step > 0 && k == 0 ? step - 1 : step;
        const double done = shown < step ? 8 : 0.4 * k * (1 + 0.02 * rng.normal());
        ranks.push_back(progress(rank, shown, done, 0.1 + 0.01 * rng.uniform()));
        devices[rank].gpu = job.gpus.to_vector()[rank];
        devices[rank].utilization = {rng.uniform() * 2, 0, Origin::measured};
        devices[rank].memory_bandwidth = {rng.uniform(), k == 3 ? kNanosPerSecond : 0,
                                          k == 5 ? Origin::missing : Origin::measured};
      }
      const Nanos now = begin + k * kNanosPerSecond / 25;
      const std::span<const RankSample> all(ranks);
      whole.add_ranks(rows_of(all), column_of(all, SampleField::micro_batches_done),
                      column_of(all, SampleField::micro_batch_time), now);
      const std::span<const DeviceSample> on_all(devices);
      whole.add_devices(rows_of(on_all), column_of(on_all, SampleField::utilization),
                        column_of(on_all, SampleField::memory_bandwidth), now);
      for (std::uint32_t rank = 0; rank < 4; ++rank) {
        add(single, ranks[rank], now);
        add(single, devices[rank], now);
      }
      whole.learn_from_samples(), single.learn_from_samples();
      ASSERT_EQ(state_of(whole), state_of(single)) << step << ' ' << k;
      ASSERT_EQ(whole.has_measured(3), single.has_measured(3));
      ASSERT_EQ(whole.is_drifting(step + 3, 0.001, 1), single.is_drifting(step + 3, 0.001, 1));
      for (std::size_t replica = 0; replica < 2; ++replica) {
        ASSERT_EQ(whole.forecast(step + 3)[replica].log_time,
                  single.forecast(step + 3)[replica].log_time);
        ASSERT_EQ(whole.forecast(step + 3)[replica].rank, single.forecast(step + 3)[replica].rank);
      }
    }
  }
  EXPECT_TRUE(whole.forecast(9)[1].known);
}

}  // namespace
}  // namespace orrery
