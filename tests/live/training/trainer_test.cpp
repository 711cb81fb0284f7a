#include "live/training/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/random.hpp"
#include "live/training/model.hpp"
#include "live/training/plan_codecs.hpp"
#include "tests/live/flip.hpp"
#include "tests/live/lighter.hpp"
#include "tests/live/loop_fabric.hpp"
#include "traces/workload/model.hpp"

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

// A millisecond of pace. A sanitizer makes the work of a micro-batch up to ten times as long.
constexpr std::int64_t kMs = kSanitized ? 10'000'000 : 1'000'000;

Scenario scenario(std::int64_t pace_ns, const std::string& shard = "") {
  Scenario out;
  out.mutable_job()->mutable_model()->set_builtin("language-model");
  out.mutable_job()->set_sequence_length(32);
  out.mutable_job()->set_micro_batch(1);
  out.mutable_job()->set_global_batch(4);
  out.mutable_job()->mutable_layout()->set_data(1);
  if (!shard.empty()) out.mutable_job()->mutable_layout()->set_shard(shard);
  out.mutable_job()->mutable_pace()->set_micro_batch(pace_ns);
  out.mutable_run()->set_seed(1);
  return out;
}

StepPlan plan(Step step, std::uint32_t count) {
  StepPlan out;
  out.set_step(step);
  out.set_epoch(3);
  out.add_shares()->set_count(count);
  return out;
}

Text text() {
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < 4000; ++i) bytes.push_back("so we beat on, boats against "[i % 29]);
  return Text(std::move(bytes));
}

struct Rig {
  explicit Rig(std::int64_t pace_ns, const std::string& shard = "")
      : job(scenario(pace_ns, shard)) {
    trainer.set_fabric(fabric);
  }
  Scenario job;
  Text bytes = text();
  std::unique_ptr<Device> device = make_cpu_device(1, 0.003);
  std::shared_ptr<LonelyFabric> fabric = std::make_shared<LonelyFabric>();
  Trainer trainer{job, bytes, *device};
};

void train(Trainer& trainer, std::shared_ptr<Fabric> fabric, const StepPlan& what, double& loss) {
  trainer.set_fabric(std::move(fabric));
  loss = trainer.run_step(what).loss_sum();
  trainer.apply();
}

TEST(Trainer, ReportsEveryOperationOfAStep) {
  Rig rig(20 * kMs);
  const StepReport report = rig.trainer.run_step(plan(7, 3));
  EXPECT_EQ(report.step(), 7u);
  EXPECT_EQ(report.epoch(), 3u);
  EXPECT_EQ(report.predictions(), 3u * 32);
  EXPECT_GT(report.loss_sum(), 0);
  ASSERT_EQ(report.ops_size(), 4);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(report.ops(i).phase(), COMPUTE);
    EXPECT_EQ(report.ops(i).micro_batch(), static_cast<std::uint64_t>(i));
  }
  EXPECT_EQ(report.ops(3).phase(), GRADIENT);
  EXPECT_EQ(report.ops(3).bytes(), 4.0 * builtin_parameter_count());
  EXPECT_GT(report.gather_read(), 0);
  EXPECT_GT(report.gather_used(), 10 * report.gather_read());
  EXPECT_EQ(rig.fabric->calls, 1);
  rig.trainer.apply();
  const StepReport next = rig.trainer.run_step(plan(8, 0));
  ASSERT_EQ(next.ops_size(), 2);
  EXPECT_EQ(next.ops(0).phase(), OPTIMIZER);  // update of the previous step
  EXPECT_EQ(next.ops(0).start(), -next.ops(0).duration());
}

TEST(Trainer, NothingIsUpdatedBeforeTheStepIsFinal) {
  Rig rig(20 * kMs);
  const std::string before = rig.device->parameters_sha256();
  rig.trainer.run_step(plan(0, 2));
  EXPECT_EQ(rig.device->parameters_sha256(), before);
  rig.trainer.run_step(plan(0, 2));  // it was not; done again
  rig.trainer.apply();
  Rig undisturbed(20 * kMs);
  undisturbed.trainer.run_step(plan(0, 2));
  undisturbed.trainer.apply();
  EXPECT_EQ(rig.device->parameters_sha256(), undisturbed.device->parameters_sha256());
}

TEST(Trainer, ABitThatFlipsInMemoryIsAnErrorOfThisMachineBeforeTheStepIsFinal) {
  Rig rig(20 * kMs);
  rig.trainer.run_step(plan(0, 1));
  rig.trainer.apply();
  rig.trainer.run_step(plan(1, 1));
  rig.trainer.apply();
  flip_bit(rig.device->parameters()[1234]);
  try {
    rig.trainer.run_step(plan(2, 1));
    ADD_FAILURE() << "the gradient of damaged parameters was reported";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_NE(error.message().find("state in memory"), std::string::npos) << error.message();
  }
  EXPECT_THROW(rig.trainer.part({0, 10}), Error) << "nor saved";
  flip_bit(rig.device->parameters()[1234]);
  rig.trainer.run_step(plan(2, 1));
  rig.trainer.apply();
}

/// Part of the training state in which bits flip.
enum class Hit { parameters, mean, square };

/// Flips `bit` of the parameter `index`, or of one of its moments, wherever its state is in memory.
/// Returns the flipped places; a second call with them repairs the state.
std::vector<float*> flip_state(Rig& rig, Hit hit, std::size_t index, std::uint32_t bit) {
  if (hit == Hit::parameters) {
    float& value = rig.device->parameters()[index];
    flip_bit(value, bit);
    return {&value};
  }
  const TrainingState part = rig.trainer.part({index, index + 16});
  const std::vector<float*> places = copies_in_memory(hit == Hit::mean ? part.mean : part.square);
  for (float* const place : places) flip_bit(*place, bit);
  return places;
}

/// Returns the index of a random parameter whose moments, and those of the next, occur only once in
/// memory: none is zero.
std::size_t an_index(Rig& rig, Rng& rng) {
  while (true) {
    const auto index = static_cast<std::size_t>(rng.below(rig.device->parameters().size() - 16));
    const TrainingState part = rig.trainer.part({index, index + 16});
    if (std::ranges::find(part.mean, 0.0F) == part.mean.end() &&
        std::ranges::find(part.square, 0.0F) == part.square.end()) {
      return index;
    }
  }
}

/// A rank flips fifty bits, one a step, in parameters and moments; each is found before the step
/// becomes final, by the error that names the step.
void expect_each_flip_found(Rig& rig, bool sharded) {
  Rng rng(sharded ? 2 : 1);
  int injected = 0;
  for (Step step = 1; step <= 50; ++step) {
    const auto hit = static_cast<Hit>(step % 3);
    const std::size_t index = an_index(rig, rng);
    const auto bit = static_cast<std::uint32_t>(rng.below(32));
    const TrainingState before = rig.trainer.part({index, index + 16});
    const std::vector<float*> places = flip_state(rig, hit, index, bit);
    ASSERT_FALSE(places.empty()) << "step " << step;
    try {
      rig.trainer.run_step(plan(step, 1));
      ADD_FAILURE() << "not found: step " << step << ", kind " << step % 3 << ", bit " << bit;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("state in memory"), std::string::npos);
      ++injected;
    }
    EXPECT_THROW(rig.trainer.part({index, index + 16}), Error) << "a checkpoint of it";
    for (float* const place : places) flip_bit(*place, bit);
    const TrainingState after = rig.trainer.part({index, index + 16});  // proves the repair
    EXPECT_EQ(after.mean, before.mean);
    rig.trainer.run_step(plan(step, 1));
    rig.trainer.apply();
    rig.trainer.gather_parameters();
  }
  EXPECT_EQ(injected, 50);
}

TEST(Trainer, EachOfFiftyFlippedBitsIsFoundInTheStep) {
  Rig rig(20 * kMs);
  rig.trainer.run_step(plan(0, 1));
  rig.trainer.apply();
  Rng rng(3);
  const std::vector<float*> places = flip_state(rig, Hit::mean, an_index(rig, rng), 3);
  ASSERT_FALSE(places.empty());
  EXPECT_FALSE(rig.device->is_state_intact()) << "the bit is one of the state";
  for (float* const place : places) flip_bit(*place, 3);
  expect_each_flip_found(rig, false);
}

TEST(Trainer, EachOfFiftyFlippedBitsOfAShardedStateIsFoundInTheStep) {
  Rig rig(20 * kMs, "optimizer");
  LoopHub hub(1);
  rig.trainer.set_fabric(std::make_shared<LoopFabric>(hub, 0));
  rig.trainer.share_state(0, false, true, {0});
  rig.trainer.run_step(plan(0, 1));
  rig.trainer.apply();
  rig.trainer.gather_parameters();
  expect_each_flip_found(rig, true);
}

TrainingState state_of(const Device& device) {
  return device.part({0, static_cast<std::size_t>(builtin_parameter_count())});
}

/// Trains step 0 of a rig, with a sharded optimizer over `hub` if there is one.
void train_first_step(Rig& rig, LoopHub* hub) {
  if (hub != nullptr) {
    rig.trainer.set_fabric(std::make_shared<LoopFabric>(*hub, 0));
    rig.trainer.share_state(0, false, true, {0});
  }
  rig.trainer.run_step(plan(0, 1));
  rig.trainer.apply();
  rig.trainer.gather_parameters();
}

/// Damage before any step is found in the next multiple of five with checks every fifth step,
/// whatever updates have come since.
TEST(Trainer, AFlippedBitIsFoundWithinTheIntervalOfTheChecks) {
  Rng rng(4);
  for (const bool sharded : {false, true}) {
    for (Step flipped = 1; flipped <= 10; ++flipped) {
      Rig rig(20 * kMs, sharded ? "optimizer" : "");
      rig.job.mutable_survival()->set_verify_every(5);
      LoopHub hub(1);
      train_first_step(rig, sharded ? &hub : nullptr);
      const Step found = (flipped + 4) / 5 * 5;
      for (Step step = 1; step < found; ++step) {
        if (step == flipped) flip_state(rig, Hit(step % 3), an_index(rig, rng), 30 - step % 20);
        EXPECT_EQ(rig.trainer.run_step(plan(step, 1)).hashes_size(), 0);
        rig.trainer.apply();
        rig.trainer.gather_parameters();
      }
      if (found == flipped) flip_state(rig, Hit(found % 3), an_index(rig, rng), 5);
      EXPECT_THROW(rig.trainer.run_step(plan(found, 1)), StateDamaged) << sharded << flipped;
      EXPECT_THROW(rig.trainer.part({0, 1}), StateDamaged) << "nor is it saved";
    }
  }
}

TEST(Trainer, AGradientThatIsNoNumberBecauseOfDamageIsReportedAsDamage) {
  Rig rig(20 * kMs);
  rig.job.mutable_live()->set_reproducible(true);
  const auto device = make_cpu_device(1, 0.003);
  Trainer trainer(rig.job, rig.bytes, *device);
  LoopHub hub(1);
  trainer.set_fabric(std::make_shared<LoopFabric>(hub, 0));
  for (const bool damages : {true, false}) {
    // The first call damages the state; a restored state is not damaged, though not a number.
    for (float& value : device->parameters()) value = NAN;
    if (!damages) trainer.restore_state(state_of(*device));
    try {
      trainer.run_step(plan(0, 1));
      ADD_FAILURE() << "a gradient that is no number was summed";
    } catch (const StateDamaged&) {
      EXPECT_TRUE(damages);
    } catch (const Error& error) {
      EXPECT_FALSE(damages) << error.message();
    }
  }
}

TEST(Trainer, ABitThatFlipsBetweenTheUpdateAndTheGatheringOfParametersIsNotSent) {
  for (const Hit hit : {Hit::parameters, Hit::mean, Hit::square}) {
    Rig rig(20 * kMs, "optimizer");
    LoopHub hub(1);
    train_first_step(rig, &hub);
    Rng rng(5);
    const std::size_t index = an_index(rig, rng);
    rig.trainer.run_step(plan(1, 1));
    rig.trainer.apply();
    flip_state(rig, hit, index, 12);
    EXPECT_THROW(rig.trainer.gather_parameters(), StateDamaged);
  }
}

TEST(Trainer, TheReportOfAReproducibleRunHasTheChecksumsOfTheStateInStepsThatVerifyIt) {
  Rig rig(20 * kMs);
  EXPECT_EQ(rig.trainer.run_step(plan(0, 1)).hashes_size(), 0) << "not reproducible";
  Scenario job = scenario(20 * kMs);
  job.mutable_live()->set_reproducible(true);
  job.mutable_survival()->set_verify_every(2);
  std::vector<Checksum> sums;
  for (int run = 0; run < 2; ++run) {
    const auto device = make_cpu_device(1, 0.003);
    Trainer trainer(job, rig.bytes, *device);
    LoopHub hub(1);
    trainer.set_fabric(std::make_shared<LoopFabric>(hub, 0));
    for (Step step = 0; step < 3; ++step) {
      const StepReport report = trainer.run_step(plan(step, 1));
      ASSERT_EQ(report.hashes_size(), step % 2 == 0 ? 1 : 0);
      if (step % 2 == 0) sums.push_back({report.hashes(0).sum(), report.hashes(0).weighted()});
      trainer.apply();
    }
  }
  ASSERT_EQ(sums.size(), 4u);
  EXPECT_EQ(sums[0], sums[2]);
  EXPECT_EQ(sums[1], sums[3]) << "replicas have equal checksums";
  EXPECT_NE(sums[0], sums[1]);
}

/// A step of examples/straggler-4-ranks.yaml has ten micro-batches of 40 ms a rank. Prints the
/// cost.
TEST(Trainer, TheChecksOfAStepCostLessThanAHundredthOfTheExamplesStep) {
  Rig rig(20 * kMs);
  rig.trainer.run_step(plan(0, 1));
  rig.trainer.apply();
  const std::span<float> parameters = rig.device->parameters();
  const std::vector<float> gradient(parameters.size(), 0.01F);
  Adam adam(parameters.size(), 0.003);
  StateChecksums sums;
  const auto least = [](auto action) {
    Nanos shortest = kNever;
    for (int i = 0; i < 100; ++i) {
      const Nanos begin = thread_cpu();
      action();
      shortest = std::min(shortest, thread_cpu() - begin);
    }
    return 1e-6 * static_cast<double>(shortest);
  };
  const double pass_ms = least([&] { rig.device->is_state_intact(); });
  const double plain_ms = least([&] { adam.update(parameters, gradient, 1); });
  const double followed_ms = least([&] { adam.update(parameters, gradient, 1, 0, sums); });
  const double step_ms = 10 * 40, cost_ms = pass_ms + followed_ms - plain_ms;
  fmt::print(
      "{} parameters and their moments: a verification takes {:.3f} ms, the checksums of an update "
      "{:.3f} ms beside {:.3f} ms; together {:.3f} % of a step of {:.0f} ms\n",
      parameters.size(), pass_ms, followed_ms - plain_ms, plain_ms, 100 * cost_ms / step_ms,
      step_ms);
  EXPECT_LT(cost_ms, 0.01 * step_ms);
}

TEST(Trainer, TheStateOfADamagedRankIsNotShared) {
  Rig rig(20 * kMs);
  rig.trainer.run_step(plan(0, 1));
  rig.trainer.apply();
  flip_bit(rig.device->parameters()[0]);
  EXPECT_THROW(rig.trainer.share_state(0, true, true, {}), Error);
}

/// A fabric during whose sums a bit flips in the rank's parameters.
class DamagingFabric : public LonelyFabric {
 public:
  explicit DamagingFabric(Device& device) : device_(device) {}
  void all_reduce_integers(std::span<std::int64_t>) override { flip_bit(device_.parameters()[9]); }

 private:
  Device& device_;
};

TEST(Trainer, DamageWhileANewcomerReceivesTheStateIsFound) {
  Rig rig(20 * kMs);
  rig.trainer.run_step(plan(0, 1));
  rig.trainer.apply();
  rig.trainer.set_fabric(std::make_shared<DamagingFabric>(*rig.device));
  EXPECT_THROW(rig.trainer.share_state(0, true, true, {}), Error);
}

TEST(Trainer, AnInterruptedStepSaysWhatItHadDone) {
  Rig rig(20 * kMs);
  {
    std::jthread stopper([&] {
      while (rig.trainer.snapshot().micro_batches_done() < 2) std::this_thread::yield();
      rig.trainer.interrupt_step();
    });
    EXPECT_THROW(rig.trainer.run_step(plan(4, 1000)), Stopped);
  }
  EXPECT_GE(rig.trainer.abandoned_report().ops_size(), 2);
  EXPECT_TRUE(rig.trainer.abandoned_report().abandoned());
  EXPECT_EQ(rig.trainer.abandoned_report().step(), 4u);
  rig.trainer.resume_steps();
  EXPECT_EQ(rig.trainer.run_step(plan(4, 1)).ops_size(), 2);
}

TEST(Trainer, AMicroBatchTakesAtLeastItsDeclaredCostOverTheSpeed) {
  Rig rig(20 * kMs);
  EXPECT_GE(rig.trainer.run_step(plan(0, 2)).compute(), 40 * kMs);
  rig.trainer.set_speed(0.5);
  EXPECT_GE(rig.trainer.run_step(plan(1, 2)).compute(), 80 * kMs);
}

TEST(Trainer, AChangedSpeedHoldsForTheMicroBatchUnderWay) {
  Rig rig(kNanosPerSecond);
  rig.trainer.set_speed(1e-3);  // a thousand seconds a micro-batch
  std::jthread faster([&] {
    while (rig.trainer.snapshot().micro_batches_done() == 0) std::this_thread::yield();
    rig.trainer.set_speed(1e-6);
    rig.trainer.set_speed(1e3);
  });
  EXPECT_LT(rig.trainer.run_step(plan(0, 2)).compute(), 500 * kNanosPerSecond);
}

TEST(Trainer, AShareOfNothingStillExchangesAndUpdates) {
  Rig rig(20 * kMs);
  StepPlan empty = plan(0, 0);
  empty.add_shares()->set_count(2);  // another rank's
  const StepReport report = rig.trainer.run_step(empty);
  EXPECT_EQ(report.predictions(), 0u);
  EXPECT_EQ(report.ops_size(), 1);
  EXPECT_EQ(rig.fabric->calls, 1);
}

TEST(Trainer, WorkThatThePaceCannotHoldFailsTheRun) {
  Rig rig(1000);  // 1 us a micro-batch
  EXPECT_NO_THROW(rig.trainer.run_step(plan(0, 4)));
  EXPECT_NO_THROW(rig.trainer.run_step(plan(1, 4)));
  try {
    rig.trainer.run_step(plan(2, 4));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_NE(error.message().find("job.pace.micro_batch"), std::string::npos);
  }
}

TEST(Trainer, AnInterruptEndsAWaitForThePaceAndHolds) {
  Rig rig(3'600'000'000'000);  // an hour
  std::jthread stopper([&] {
    while (rig.trainer.snapshot().micro_batches_done() == 0) std::this_thread::yield();
    rig.trainer.interrupt_step();
  });
  EXPECT_THROW(rig.trainer.run_step(plan(0, 1)), Stopped);
  EXPECT_THROW(rig.trainer.run_step(plan(1, 1)), Stopped);
}

TEST(Trainer, SnapshotCountsWhatIsDone) {
  Rig rig(20 * kMs);
  EXPECT_EQ(rig.trainer.snapshot().micro_batches_done(), 0);
  rig.trainer.run_step(plan(2, 3));
  const ProgressSample sample = rig.trainer.snapshot();
  EXPECT_EQ(sample.step(), 2u);
  EXPECT_EQ(sample.micro_batches_done(), 3);
  // The wait for the pace counts; the time between two micro-batches does not.
  EXPECT_GT(sample.busy(), 50 * kMs);
  EXPECT_GT(sample.bytes_moved(), 0);
  EXPECT_GT(sample.cpu(), 0);
}

TEST(Trainer, TrainingLowersTheLoss) {
  Rig rig(10 * kMs);
  double first = 0, last = 0;
  train(rig.trainer, rig.fabric, plan(0, 2), first);
  for (Step step = 1; step < 25; ++step) {
    train(rig.trainer, rig.fabric, plan(step, 2), last);
  }
  EXPECT_LT(last, 0.7 * first);
}

TEST(Trainer, TrainsTheTransformerToo) {
  Scenario job = scenario(30 * kMs);
  job.mutable_job()->mutable_model()->set_builtin("transformer");
  const Text bytes = text();
  const auto device = make_cpu_device(1, 0.003, "transformer");
  const auto fabric = std::make_shared<LonelyFabric>();
  Trainer trainer(job, bytes, *device);
  double first = 0, last = 0;
  train(trainer, fabric, plan(0, 2), first);
  for (Step step = 1; step < 15; ++step) train(trainer, fabric, plan(step, 2), last);
  EXPECT_LT(last, 0.7 * first);
}

struct Together {
  std::uint32_t first = 4;             ///< micro-batches of rank 0; with one rank it does all
  bool newcomer = false;               ///< rank 0 begins with other parameters
  std::vector<CodecRule> codecs = {};  ///< valid from step 2 on
  std::uint64_t* sent = nullptr;       ///< bytes sent by rank 0
};

/// Ranks in this process that train ten steps of four micro-batches; the hash of each.
std::vector<std::string> train_together(std::uint32_t ranks, const Scenario& job,
                                        const Together& how) {
  const auto& [first, newcomer, codecs, sent] = how;
  LoopHub hub(ranks);
  const Text bytes = text();
  std::vector<std::string> hashes(ranks);
  const auto work = [&](std::uint32_t rank) {
    const auto device = make_cpu_device(newcomer && rank == 0 ? 5 : 1, 0.003);
    Trainer trainer(job, bytes, *device);
    trainer.set_fabric(std::make_shared<LoopFabric>(hub, rank));
    if (newcomer) trainer.share_state(ranks - 1, true, rank != 0, {});
    for (Step step = 0; step < 10; ++step) {
      StepPlan all = plan(step, ranks == 1 ? 4 : first);
      for (std::uint32_t other = 1; other < ranks; ++other) {
        Share& share = *all.add_shares();
        share.set_first(other == 1 ? first : 4);
        share.set_count(other == 1 ? 4 - first : 0);
      }
      if (step >= 2) set_codecs(codecs, all);
      trainer.run_step(all);
      trainer.apply();
    }
    if (sent && rank == 0) *sent = trainer.snapshot().bytes_sent();
    hashes[rank] = device->parameters_sha256();
  };
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 1; rank < ranks; ++rank) threads.emplace_back(work, rank);
  work(0);
  threads.clear();
  return hashes;
}

TEST(Trainer, AReproducibleSumDoesNotDependOnWhoComputedIt) {
  Scenario job = scenario(10 * kMs);
  job.mutable_live()->set_reproducible(true);
  const std::string alone = train_together(1, job, {})[0];
  for (const std::uint32_t ranks : {2u, 3u}) {
    for (const std::uint32_t first : {3u, 1u}) {
      for (const std::string& hash : train_together(ranks, job, {first})) EXPECT_EQ(hash, alone);
    }
  }
}

TEST(Trainer, AnyOtherSumIsEqualOnAllRanksOfARun) {
  const auto hashes = train_together(2, scenario(10 * kMs), {3});
  EXPECT_EQ(hashes[0], hashes[1]);
}

TEST(Trainer, ANewcomerTakesTheStateOfAPeer) {
  Scenario job = scenario(10 * kMs);
  job.mutable_live()->set_reproducible(true);
  const auto hashes = train_together(2, job, {3, true});
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(hashes[0], train_together(1, job, {})[0]);
}

TEST(Trainer, CodesOfThePlanSendFewerBytesAndLeaveAllRanksEqual) {
  std::uint64_t plain = 0, coded = 0, beside = 0;
  Scenario job = scenario(20 * kMs);
  const std::vector<CodecRule> int4 = {{.codec = Codec::int4}};
  const std::string as_it_is = train_together(2, job, {.first = 2, .sent = &plain})[0];
  const auto apart = train_together(2, job, {.first = 2, .codecs = int4, .sent = &coded});
  EXPECT_EQ(apart[0], apart[1]);
  EXPECT_NE(apart[0], as_it_is);
  EXPECT_NEAR(static_cast<double>(coded), (0.2 + 0.8 * 9 / 64) * static_cast<double>(plain),
              0.02 * static_cast<double>(plain));
  // Beside the backward pass: other timing, the same bits.
  job.mutable_job()->set_overlap(true);
  const auto hidden = train_together(2, job, {.first = 2, .codecs = int4, .sent = &beside});
  EXPECT_EQ(hidden, apart);
  EXPECT_EQ(beside, coded);
}

TEST(Trainer, AnInterruptedExchangeIsGivenUpAndTheStepDoneAgainInTheSameCodes) {
  Scenario job = scenario(3'600'000 * kMs);  // an hour: the exchange begins, the step never ends
  job.mutable_job()->set_overlap(true);
  const Text bytes = text();
  const auto device = make_cpu_device(1, 0.003);
  Trainer trainer(job, bytes, *device);
  trainer.set_fabric(std::make_shared<LonelyFabric>());
  StepPlan coded = plan(0, 1);
  set_codecs(std::vector<CodecRule>{{.codec = Codec::int4}}, coded);
  {
    std::jthread stopper([&] {
      while (trainer.snapshot().micro_batches_done() == 0) std::this_thread::yield();
      trainer.interrupt_step();
    });
    EXPECT_THROW(trainer.run_step(coded), Stopped);
  }
  trainer.resume_steps();
  trainer.set_speed(1e9);
  coded.mutable_shares(0)->set_count(0);
  EXPECT_EQ(trainer.run_step(coded).step(), 0u);
}

}  // namespace
}  // namespace orrery::live
