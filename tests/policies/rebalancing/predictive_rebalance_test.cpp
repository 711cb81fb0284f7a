#include "policies/rebalancing/predictive_rebalance.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/error.hpp"
#include "tests/policies/rebalancing/moving_average.hpp"
#include "tests/policies/toy_cluster.hpp"

namespace orrery {
namespace {

using test::ToyCluster;
using test::ToyOptions;
using test::ToyResult;

void begin(Policy& policy, const google::protobuf::Message* parameters = nullptr) {
  Rng rng(1);
  Context context{.rng = rng, .backend = {}};
  policy.start(context, test::toy_machines(), parameters);
}

ToyResult rebalanced(const ToyOptions& options,
                     const google::protobuf::Message* parameters = nullptr) {
  PredictiveRebalance policy;
  begin(policy, parameters);
  return ToyCluster(options).run(policy);
}

class Nothing : public Policy {
 public:
  Needs needs() const override { return {}; }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
  void observe(Context&, const Observation&, DecisionList& decisions) override {
    decisions.rest();
  }
};

ToyResult left_alone(const ToyOptions& options) {
  Nothing nothing;
  return ToyCluster(options).run(nothing);
}

ToyOptions straggler() {
  ToyOptions options;
  options.step_noise = options.sample_noise = 0.01;
  options.factor = [](std::uint32_t rank, Step step) { return rank == 2 && step >= 10 ? 3.0 : 1; };
  return options;
}

constexpr Step kRampFrom = 20;

ToyOptions ramp(std::uint32_t micro_batches, std::uint64_t seed) {
  ToyOptions options;
  options.micro_batches = micro_batches;
  options.seed = seed;
  options.steps = 60;
  options.step_noise = options.sample_noise = 0.01;
  options.factor = [](std::uint32_t rank, Step step) {
    return rank == 1 && step > kRampFrom ? 1 + 0.01 * double(step - kRampFrom) : 1.0;
  };
  return options;
}

TEST(PredictiveRebalance, SaysWhatItDoesAndHowOftenItLooks) {
  PredictiveRebalance policy;
  begin(policy);
  EXPECT_EQ(policy.needs().actions, Kinds<Action>::of<Configure>());
  EXPECT_EQ(policy.needs().settings, Kinds<Setting>::of<Shares>());
  EXPECT_EQ(policy.needs().tick, 50'000'000);
  PredictiveRebalanceParameters slower;
  slower.set_tick(100'000'000);
  begin(policy, &slower);
  EXPECT_EQ(policy.needs().tick, 100'000'000);
}

TEST(PredictiveRebalance, StragglerCostsLittleMoreThanItsSpeed) {
  const double ideal = 40 * 0.1 / (3 + 1.0 / 3);  // computed from the declared speeds
  for (const double noise : {0.0, 0.01, 0.03}) {
    ToyOptions options = straggler();
    options.step_noise = noise;
    const ToyResult result = rebalanced(options);
    EXPECT_LE(result.median_step(), 1.15 * ideal) << "noise " << noise;
    ASSERT_FALSE(result.shifts.empty());
    EXPECT_EQ(result.shifts[0].decided, 10u) << "in the very step in which it became slow";
    EXPECT_EQ(result.shifts[0].effective, 11u);
    EXPECT_EQ(result.shifts[0].shares, (ShareList{12, 12, 4, 12}));
    EXPECT_NE(result.shifts[0].why.find("rank 2"), std::string::npos);
    EXPECT_FALSE(result.lost_micro_batches);
    EXPECT_LE(result.shifts.size(), noise < 0.02 ? 1u : 4u) << "a jump is no trend";
  }
  EXPECT_GT(left_alone(straggler()).median_step(), 2.9) << "3 x slower when nothing is done";
}

TEST(PredictiveRebalance, OneMicroBatchEachIsShiftedBeforeTheLateOneEnds) {
  ToyOptions options = straggler();
  options.micro_batches = 8;
  options.factor = [](std::uint32_t rank, Step step) { return rank == 2 && step >= 10 ? 8.0 : 1; };
  const ToyResult result = rebalanced(options);
  ASSERT_FALSE(result.shifts.empty());
  EXPECT_EQ(result.shifts[0].decided, 10u);
  EXPECT_LT(result.shifts[0].at, 0.8) << "before its first micro-batch was measured";
  EXPECT_EQ(result.shifts[0].shares[2], 1u);
}

TEST(PredictiveRebalance, ShiftsBackOnRecovery) {
  ToyOptions options = straggler();
  options.steps = 80;
  options.factor = [](std::uint32_t rank, Step step) {
    return rank == 2 && step >= 10 && step < 40 ? 3.0 : 1;
  };
  const ToyResult result = rebalanced(options);
  ASSERT_GE(result.shifts.size(), 2u);
  EXPECT_EQ(result.shifts.back().shares, (ShareList{10, 10, 10, 10}));
  EXPECT_LE(result.shifts.back().effective, 44u);
  EXPECT_LE(result.shifts.size(), 4u);
}

TEST(PredictiveRebalance, RampIsMetBeforeItHurtsAndBeforeAnyMovingAverage) {
  for (const std::uint32_t micro_batches : {40u, 128u}) {
    for (std::uint64_t seed = 1; seed <= 15; ++seed) {
      const ToyOptions options = ramp(micro_batches, seed);
      const ToyResult result = rebalanced(options);
      ASSERT_FALSE(result.shifts.empty());
      const Step first = result.shifts[0].effective;
      EXPECT_GT(first, kRampFrom) << "not before there was anything to see";
      EXPECT_LE(options.factor(1, first), 1.1) << micro_batches << " seed " << seed;
      for (const std::size_t window : {5u, 10u}) {
        test::MovingAverage average(window);
        const ToyResult other = ToyCluster(options).run(average);
        ASSERT_FALSE(other.shifts.empty());
        EXPECT_LT(first, other.shifts[0].effective) << micro_batches << " seed " << seed;
      }
    }
  }
}

TEST(PredictiveRebalance, NoiseAloneMovesAlmostNothing) {
  constexpr Step kSteps = 1000;
  for (const std::uint32_t replicas : {4u, 16u}) {
    for (const double noise : {0.01, 0.02, 0.03}) {
      for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        ToyOptions options;
        options.replicas = replicas;
        options.micro_batches = (seed % 2 == 0 ? 10 : 32) * replicas;
        options.micro_batch = 0.4 * replicas / options.micro_batches;
        options.steps = kSteps;
        options.step_noise = noise;
        options.sample_noise = 0.01;
        options.seed = seed;
        EXPECT_LE(rebalanced(options).shifts.size(), 1u)
            << replicas << " ranks, noise " << noise << ", seed " << seed;
      }
    }
  }
}

TEST(PredictiveRebalance, TheYardstickIsNotSlowedDownByItsOwnNoiseGuard) {
  // Both keep quiet on noise of 1%, so neither buys its speed with false alarms.
  for (const std::size_t window : {5u, 10u}) {
    ToyOptions options = ramp(128, 3);
    options.factor = [](auto, auto) { return 1.0; };
    options.steps = 1000;
    test::MovingAverage average(window);
    EXPECT_LE(ToyCluster(options).run(average).shifts.size(), 1u);
  }
}

TEST(PredictiveRebalance, RestsWhenAllIsQuietAndNotWhileSomethingHappens) {
  ToyOptions quiet;
  quiet.sample_noise = 0.01;
  quiet.steps = 12;
  const ToyResult calm = rebalanced(quiet);
  EXPECT_GE(calm.rested, calm.calls * 6 / 10) << "from the fourth of twelve steps on";
  EXPECT_LE(calm.rested, calm.calls * 8 / 10) << "not before three steps were measured";
  ToyOptions busy = straggler();
  busy.step_noise = 0;
  busy.factor = [](std::uint32_t rank, Step step) {
    return rank == 1 ? 1 + 0.05 * double(step) : 1.0;
  };
  const ToyResult drifting = rebalanced(busy);
  EXPECT_LT(drifting.rested, drifting.calls / 20);
}

TEST(PredictiveRebalance, MemoryLimitHolds) {
  ToyOptions options = straggler();
  options.max_micro_batches = 11;
  const ToyResult result = rebalanced(options);
  ASSERT_FALSE(result.shifts.empty());
  EXPECT_EQ(result.shifts[0].shares, (ShareList{11, 11, 7, 11}));
}

TEST(PredictiveRebalance, NothingToDoForOneReplica) {
  ToyOptions options;
  options.replicas = 1;
  options.factor = [](auto, Step step) { return step > 5 ? 3.0 : 1.0; };
  const ToyResult result = rebalanced(options);
  EXPECT_TRUE(result.shifts.empty());
  EXPECT_EQ(result.rested, result.calls);
}

TEST(PredictiveRebalance, MissingAndAbsurdSamplesAreIgnored) {
  ToyOptions clean = straggler();
  ToyOptions spoilt = clean;
  std::uint64_t count = 0;
  spoilt.spoil = [&count](RankSample& sample, Step step) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    switch (++count % 11) {
      case 1: sample.micro_batch_time.value = nan; break;
      case 3: sample.micro_batch_time.origin = Origin::missing; break;
      case 4: sample.micro_batches_done.value = nan; break;
      case 5: sample.micro_batch_time.value = -1; break;
      case 6: sample.micro_batch_time.value = 1e5; break;
      case 7: sample.micro_batches_done = {1e300, 0, Origin::measured}; break;
      case 8: sample.step = step + 1'000'000; break;
      case 9: sample.rank = {77}; break;
      default: break;
    }
  };
  const ToyResult result = rebalanced(spoilt);
  ASSERT_FALSE(result.shifts.empty());
  EXPECT_EQ(result.shifts[0].decided, 10u);
  EXPECT_LE(result.median_step(), 1.15 * 1.2);
  EXPECT_GT(count, 1000u);
}

TEST(PredictiveRebalance, WithoutAnySampleItDoesNothing) {
  ToyOptions options = straggler();
  options.spoil = [](RankSample& sample, Step) {
    sample.micro_batch_time.origin = sample.micro_batches_done.origin = Origin::missing;
  };
  const ToyResult result = rebalanced(options);
  EXPECT_TRUE(result.shifts.empty());
  EXPECT_LT(result.rested, result.calls / 10) << "it does not know that all is well";
}

TEST(PredictiveRebalance, SignalsThatForetoldSlowdownsAreActedOnEarlier) {
  // A rank is slowed down again and again, and its memory bandwidth shows it each time.
  ToyOptions options;
  options.micro_batches = 8;
  options.steps = 200;
  options.step_noise = options.sample_noise = 0.01;
  options.bandwidth_share = 0.5;
  options.factor = [](std::uint32_t rank, Step step) {
    return rank == 1 && step % 20 >= 10 ? 4.0 : 1.0;
  };
  const auto delay = [](const ToyResult& result) {  // after the onset, in the last 100 steps
    double sum = 0, shifts = 0;
    for (const auto& shift : result.shifts) {
      if (shift.decided >= 100 && shift.decided % 20 == 10) sum += shift.at, shifts += 1;
    }
    EXPECT_GE(shifts, 5);
    return sum / shifts;
  };
  const double with = delay(rebalanced(options));
  options.signals = false;
  EXPECT_LT(with, delay(rebalanced(options)) - 0.04) << "at least about a tick";
}

TEST(PredictiveRebalance, SavedStateGoesOnWithTheSameDecisions) {
  const ToyOptions options = ramp(128, 5);
  const ToyResult straight = rebalanced(options);
  PredictiveRebalance first, second;
  begin(first);
  begin(second);
  struct Relay : Policy {
    PredictiveRebalance* inner = nullptr;
    Needs needs() const override { return inner->needs(); }
    void start(Context&, const Cluster&, const google::protobuf::Message*) override {}
    void observe(Context& context, const Observation& seen, DecisionList& out) override {
      inner->observe(context, seen, out);
    }
  } relay;
  relay.inner = &first;
  ToyOptions handed_over = options;
  handed_over.before_step = [&](Step step) {
    if (step != 26) return;
    Archive bytes, again;
    first.save(bytes);
    second.load(bytes);
    second.save(again);
    EXPECT_EQ(bytes, again);
    EXPECT_FALSE(bytes.empty());
    relay.inner = &second;
  };
  EXPECT_EQ(ToyCluster(handed_over).run(relay).shifts, straight.shifts);
  Archive whole;
  second.save(whole);
  EXPECT_THROW(second.load(whole.substr(0, whole.size() / 2)), Error);
  EXPECT_THROW(second.load(whole + "x"), Error);
}

TEST(PredictiveRebalance, ThresholdsChangeDecisions) {
  PredictiveRebalanceParameters parameters;
  parameters.set_gain_threshold(0.9);
  EXPECT_TRUE(rebalanced(straggler(), &parameters).shifts.empty());
  parameters.Clear();
  parameters.set_lead_steps(3);
  const ToyResult later = rebalanced(straggler(), &parameters);
  ASSERT_FALSE(later.shifts.empty());
  EXPECT_EQ(later.shifts[0].effective, 13u);
  parameters.Clear();
  parameters.set_cooldown_steps(30);
  for (const auto& shift : rebalanced(ramp(128, 1), &parameters).shifts) {
    EXPECT_TRUE(shift.effective < 40 || shift.effective >= 50) << shift.effective;
  }
}

/// A step of a world whose ranks report these times, seen in its middle and at its end.
void whole_step(World& world, Policy& policy, const std::vector<double>& times,
                std::vector<Decision>& out) {
  toy::HandMade samples;
  const JobInfo& job = world.jobs()[{0}];
  for (std::uint32_t rank = 0; rank < times.size(); ++rank) {
    RankSample sample{};
    sample.rank = {rank};
    sample.step = job.step;
    sample.micro_batches_done = {2, 0, Origin::measured};
    sample.micro_batch_time = {times[rank], 0, Origin::measured};
    samples.of_ranks.push_back(sample);
  }
  Rng rng(1);
  Context context{rng, {}};
  DecisionList decisions;
  const Nanos now = to_nanos(double(job.step) + 0.5);
  const Event tick = Tick{};
  policy.observe(context, toy::seen_of(world, {&tick, 1}, samples, now), decisions);
  out.insert(out.end(), decisions.items().begin(), decisions.items().end());
  world.apply(StepsDone{{0}, job.step}, now);
}

TEST(PredictiveRebalance, GoesOnAfterAShrink) {
  const Cluster cluster = toy::cluster();
  World world(cluster);
  JobSpec spec = toy::job();
  spec.least_gpus = 1;
  toy::run_on(world, spec);
  PredictiveRebalance policy;
  begin(policy);
  std::vector<Decision> decided;
  for (int i = 0; i < 4; ++i) whole_step(world, policy, {0.1, 0.1, 0.1, 0.1}, decided);
  world.apply(RanksLost{{0}, {{3}}, {2}}, to_nanos(4));
  for (int i = 0; i < 2; ++i) whole_step(world, policy, {0.1, 0.4, 0.1, 0}, decided);
  EXPECT_TRUE(decided.empty()) << "not while a rank is lost";
  const Step from = world.jobs()[{0}].step;
  world.apply(toy::started(world, 0, without_lost(world.jobs()[{0}]), from), to_nanos(6));
  for (int i = 0; i < 6; ++i) whole_step(world, policy, {0.1, 0.4, 0.1}, decided);
  ASSERT_FALSE(decided.empty());
  const auto& shares = std::get<Shares>(std::get<Configure>(decided[0].what).what).per_replica;
  ASSERT_EQ(shares.size(), 3u);
  EXPECT_LT(shares[1], shares[0]);
}

RC_GTEST_PROP(PredictiveRebalanceProperty, SumsAndLimitsHoldWhateverTheSpeeds, ()) {
  ToyOptions options;
  options.replicas = *rc::gen::inRange(2u, 7u);
  options.micro_batches = options.replicas * *rc::gen::inRange(1u, 20u);
  options.max_micro_batches = options.micro_batches / options.replicas + *rc::gen::inRange(0u, 9u);
  options.step_noise = *rc::gen::inRange(0, 5) * 0.01;
  options.steps = 30;
  options.seed = *rc::gen::inRange(0u, 1000u);
  const auto factors = *rc::gen::container<std::vector<std::uint32_t>>(
      12, rc::gen::inRange(5u, 400u));
  options.factor = [&](std::uint32_t rank, Step step) {
    return factors[(rank + 5 * (step / 9)) % factors.size()] / 100.0;
  };
  const ToyResult result = rebalanced(options);
  RC_ASSERT(!result.lost_micro_batches);
  for (const auto& shift : result.shifts) {
    RC_ASSERT(*std::max_element(shift.shares.begin(), shift.shares.end()) <=
              options.max_micro_batches);
    RC_ASSERT(*std::min_element(shift.shares.begin(), shift.shares.end()) >= 1u);
    RC_ASSERT(shift.effective == shift.decided + 1);
    RC_ASSERT(shift.effective < options.steps);
  }
}

RC_GTEST_PROP(PredictiveRebalanceProperty, PermutedRanksGivePermutedDecisions, ()) {
  ToyOptions options = ramp(128, *rc::gen::inRange(0u, 1000u));
  options.replicas = 4;
  const ToyResult plain = rebalanced(options);
  options.identity = {0, 1, 2, 3};
  const auto swaps = *rc::gen::container<std::vector<std::uint32_t>>(4, rc::gen::inRange(0u, 4u));
  for (std::uint32_t i = 0; i < 4; ++i) std::swap(options.identity[i], options.identity[swaps[i]]);
  const ToyResult permuted = rebalanced(options);
  RC_ASSERT(plain.shifts.size() == permuted.shifts.size());
  for (std::size_t k = 0; k < plain.shifts.size(); ++k) {
    RC_ASSERT(plain.shifts[k].effective == permuted.shifts[k].effective);
    for (std::uint32_t i = 0; i < 4; ++i) {
      RC_ASSERT(permuted.shifts[k].shares[i] == plain.shifts[k].shares[options.identity[i]]);
    }
  }
}

}  // namespace
}  // namespace orrery
