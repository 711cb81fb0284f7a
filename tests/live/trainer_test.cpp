#include "live/trainer.hpp"

#include <array>
#include <thread>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "live/grpc_fabric.hpp"
#include "live/run_folder.hpp"
#include "traces/model.hpp"

namespace orrery::live {
namespace {

/// A fabric of one rank that counts how often it was asked.
class LonelyFabric : public Fabric {
 public:
  std::uint32_t rank() const override { return 0; }
  std::uint32_t ranks() const override { return 1; }
  void all_reduce(std::span<float>) override { ++calls; }
  void abort(const std::string&) override {}
  double round_trip() const override { return 0; }
  int calls = 0;
};

// A millisecond of pace. The thread sanitizer makes the work of a micro-batch ten times as long.
#ifdef __SANITIZE_THREAD__
constexpr std::int64_t kMs = 10'000'000;
#else
constexpr std::int64_t kMs = 1'000'000;
#endif

Scenario scenario(std::int64_t pace_ns) {
  Scenario out;
  out.mutable_job()->set_sequence_length(32);
  out.mutable_job()->set_micro_batch(1);
  out.mutable_job()->set_global_batch(4);
  out.mutable_job()->mutable_layout()->set_data(1);
  out.mutable_job()->mutable_pace()->set_micro_batch(pace_ns);
  out.mutable_run()->set_seed(1);
  return out;
}

StepPlan plan(Step step, std::uint32_t count, double speed) {
  StepPlan out;
  out.set_step(step);
  out.set_epoch(3);
  out.set_speed(speed);
  out.add_shares()->set_count(count);
  return out;
}

Text text() {
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < 4000; ++i) bytes.push_back("so we beat on, boats against "[i % 29]);
  return Text(std::move(bytes));
}

struct Rig {
  explicit Rig(std::int64_t pace_ns) : job(scenario(pace_ns)) {}
  Scenario job;
  Text bytes = text();
  std::unique_ptr<Device> device = make_cpu_device(1, 0.003);
  LonelyFabric fabric;
  Trainer trainer{job, bytes, *device, fabric};
};

TEST(Trainer, ReportsEveryOperationOfAStep) {
  Rig rig(20 * kMs);
  const StepReport report = rig.trainer.run_step(plan(7, 3, 1.0));
  EXPECT_EQ(report.step(), 7u);
  EXPECT_EQ(report.epoch(), 3u);
  EXPECT_EQ(report.predictions(), 3u * 32);
  EXPECT_GT(report.loss_sum(), 0);
  ASSERT_EQ(report.ops_size(), 5);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(report.ops(i).phase(), COMPUTE);
    EXPECT_EQ(report.ops(i).micro_batch(), static_cast<std::uint64_t>(i));
  }
  EXPECT_EQ(report.ops(3).phase(), GRADIENT);
  EXPECT_EQ(report.ops(3).bytes(), 4.0 * builtin_parameter_count());
  EXPECT_EQ(report.ops(4).phase(), OPTIMIZER);
  EXPECT_EQ(rig.fabric.calls, 1);
}

TEST(Trainer, AMicroBatchTakesAtLeastItsDeclaredCostOverTheSpeed) {
  Rig rig(20 * kMs);
  EXPECT_GE(rig.trainer.run_step(plan(0, 2, 1.0)).compute(), 40 * kMs);
  EXPECT_GE(rig.trainer.run_step(plan(1, 2, 0.5)).compute(), 80 * kMs);
}

TEST(Trainer, AShareOfNothingStillExchangesAndUpdates) {
  Rig rig(20 * kMs);
  StepPlan empty = plan(0, 0, 1.0);
  empty.add_shares()->set_count(2);  // another rank's
  const StepReport report = rig.trainer.run_step(empty);
  EXPECT_EQ(report.predictions(), 0u);
  EXPECT_EQ(report.ops_size(), 2);
  EXPECT_EQ(rig.fabric.calls, 1);
}

TEST(Trainer, WorkThatThePaceCannotHoldFailsTheRun) {
  Rig rig(1000);  // 1 us a micro-batch
  try {
    rig.trainer.run_step(plan(0, 4, 1.0));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_NE(error.message().find("job.pace.micro_batch"), std::string::npos);
  }
}

TEST(Trainer, StopEndsAWaitForThePace) {
  Rig rig(3'600'000'000'000);  // an hour
  std::jthread stopper([&] {
    while (rig.trainer.snapshot().micro_batches_done() == 0) std::this_thread::yield();
    rig.trainer.stop();
  });
  EXPECT_THROW(rig.trainer.run_step(plan(0, 1, 1.0)), Stopped);
  EXPECT_THROW(rig.trainer.run_step(plan(1, 1, 1.0)), Stopped);
}

TEST(Trainer, SnapshotCountsWhatIsDone) {
  Rig rig(20 * kMs);
  EXPECT_EQ(rig.trainer.snapshot().micro_batches_done(), 0);
  rig.trainer.run_step(plan(2, 3, 1.0));
  const ProgressSample sample = rig.trainer.snapshot();
  EXPECT_EQ(sample.step(), 2u);
  EXPECT_EQ(sample.micro_batches_done(), 3);
  // The wait for the pace counts; what passes between two micro-batches does not.
  EXPECT_GT(sample.busy(), 50 * kMs);
  EXPECT_GT(sample.bytes_moved(), 0);
  EXPECT_GT(sample.cpu(), 0);
}

TEST(Trainer, TrainingLowersTheLoss) {
  Rig rig(10 * kMs);
  const double first = rig.trainer.run_step(plan(0, 2, 1.0)).loss_sum();
  double last = first;
  for (Step step = 1; step < 25; ++step) last = rig.trainer.run_step(plan(step, 2, 1.0)).loss_sum();
  EXPECT_LT(last, 0.7 * first);
}

TEST(Trainer, RanksThatShareTheWorkInAnyWayTrainTheSameModel) {
  // Two ranks in this process, work split 3 + 1 and 1 + 3: equal parameters on both ranks of a
  // run, and losses that agree up to the order of summation.
  std::vector<double> losses;
  for (const std::uint32_t first : {3u, 1u}) {
    const RunFolder folder;
    const std::vector<std::string> addresses{"unix:" + folder.path() + "/0",
                                             "unix:" + folder.path() + "/1"};
    GrpcFabric zero(0, 2, addresses[0], "t"), one(1, 2, addresses[1], "t");
    zero.connect(addresses);
    one.connect(addresses);
    const Scenario job = scenario(10 * kMs);
    const Text bytes = text();
    std::array<double, 2> sums{};
    std::array<std::string, 2> hashes;
    const auto train = [&](Fabric& fabric) {
      const auto device = make_cpu_device(1, 0.003);
      Trainer trainer(job, bytes, *device, fabric);
      for (Step step = 0; step < 10; ++step) {
        StepPlan both = plan(step, first, 1.0);
        both.add_shares()->set_first(first);
        both.mutable_shares(1)->set_count(4 - first);
        sums[fabric.rank()] = trainer.run_step(both).loss_sum();
      }
      hashes[fabric.rank()] = device->parameters_sha256();
    };
    {
      std::jthread other([&] { train(one); });
      train(zero);
    }
    EXPECT_EQ(hashes[0], hashes[1]);
    losses.push_back(sums[0] + sums[1]);
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-3 * losses[0]);
}

}  // namespace
}  // namespace orrery::live
