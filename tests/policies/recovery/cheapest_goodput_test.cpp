#include "policies/recovery/cheapest_goodput.hpp"

#include <functional>

#include <gtest/gtest.h>

#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

/// A job of four ranks on two of three nodes of two GPUs, at step 1,000 of steps of two seconds.
class CheapestGoodputTest : public ::testing::Test {
 protected:
  void start(const std::function<void(CheapestGoodputParameters&)>& change = [](auto&) {}) {
    CheapestGoodputParameters parameters;
    parameters.set_replacement(30 * kNanosPerSecond);
    parameters.set_restart(60 * kNanosPerSecond);
    parameters.set_regroup(kNanosPerSecond);
    parameters.set_repair(3600 * kNanosPerSecond);
    change(parameters);
    policy_.start(context_, cluster_, &parameters);
    JobSpec spec = toy::job();
    spec.least_gpus = 1;
    spec.steps = 100'000;
    spec.settings = {OnLoss{LossResponse::hold}};
    toy::run_on(world_, spec);
    see({JobStarted{{0}, {1}, 0, toy::standing(0, 4)}}, 1, false);
    see({StepsDone{{0}, 999, 1000, 2000 * kNanosPerSecond}}, 2);
  }
  std::vector<Decision> see(std::vector<Event> events, Nanos now, bool apply = true) {
    for (const Event& event : events) {
      if (apply) world_.apply(event, now);
    }
    DecisionList decisions;
    policy_.observe(context_, toy::seen_of(world_, events, samples_, now), decisions);
    EXPECT_TRUE(decisions.is_resting());
    for (const Decision& each : decisions.items()) EXPECT_EQ(world_.objection(each), "");
    return decisions.items();
  }
  std::vector<Decision> lose(std::vector<RankId> ranks) {
    return see({RanksLost{{0}, std::move(ranks), {world_.jobs()[{0}].epoch.value + 1}}}, 9);
  }
  static PartChanged down(Part part) { return {part, {.health = Health::lost, .rate = 0}}; }
  static Assign only(const std::vector<Decision>& decisions) {
    EXPECT_EQ(decisions.size(), 1u);
    return decisions.empty() ? Assign{} : std::get<Assign>(decisions[0].what);
  }

  Cluster cluster_ = toy::cluster(3);
  World world_{cluster_};
  Rng rng_{1};
  Context context_{rng_, {}};
  NoSamples samples_;
  CheapestGoodput policy_;
};

TEST_F(CheapestGoodputTest, AReplacementIsCheaperThanDoingAThousandStepsAgain) {
  start();
  const auto decided = lose({{2}});
  EXPECT_EQ(only(decided).state, StateFrom::peer);
  EXPECT_EQ(only(decided).gpus, toy::gpus(0, 4));
  // 4 x (1 + 30); fewer: 2 x 4 x 1 + 3600 + 30; wait: 4 x 3600 + 124; restart: 4 x (60 + 1 + 2000).
  EXPECT_EQ(decided[0].why, "replacement: 124 GPU-s, fewer 3638, restart 8244, wait 1.452e+04");
}

TEST_F(CheapestGoodputTest, AFreshCheckpointIsCheaperThanASlowReplacement) {
  start([](auto& parameters) { parameters.set_replacement(600 * kNanosPerSecond); });
  see({SaveDone{{0}, 1000, Tier::local_disk, 0, 0}}, 8);
  EXPECT_EQ(only(lose({{2}})).state, StateFrom::checkpoint);
}

TEST_F(CheapestGoodputTest, WithoutASpareItGoesOnSmallerAndHomeWhenItsHardwareIsBack) {
  start();
  see({down({PartKind::node, 2})}, 5);
  see({down({PartKind::gpu, 2})}, 6);
  const Assign fewer = only(lose({{2}}));
  EXPECT_EQ(fewer.gpus, (GpuRuns{{0}, {1}, {3}}));
  see({JobStarted{{0}, {9}, 1000, {fewer.gpus, fewer.layout}}}, 20);
  EXPECT_TRUE(see({PartChanged{{PartKind::node, 2}, {}}}, 30).empty());
  const auto back = see({PartChanged{{PartKind::gpu, 2}, {}}}, 40);
  EXPECT_EQ(only(back).gpus, toy::gpus(0, 4));
  EXPECT_EQ(back[0].at_step, 1001u) << "between two steps";
}

TEST_F(CheapestGoodputTest, ASlowerPartBringsNoHardwareBack) {
  start();
  see({down({PartKind::node, 2})}, 5);
  see({down({PartKind::gpu, 2})}, 6);
  const Assign fewer = only(lose({{2}}));
  see({JobStarted{{0}, {9}, 1000, {fewer.gpus, fewer.layout}}}, 20);
  see({PartChanged{{PartKind::gpu, 2}, {.rate = 0.5}}}, 30);
  see({JobStarted{{0}, {10}, 1000, {fewer.gpus, fewer.layout}}}, 31);  // the return was not taken
  EXPECT_TRUE(see({PartChanged{{PartKind::gpu, 2}, {}}}, 40).empty()) << "it was back before";
  EXPECT_TRUE(see({PartChanged{{PartKind::gpu, 1}, {.rate = 0.5}}}, 41).empty());
}

TEST_F(CheapestGoodputTest, WhatIsBackSoonIsWaitedFor) {
  start([](auto& parameters) {
    parameters.set_repair(kNanosPerSecond);
    parameters.set_regroup(20 * kNanosPerSecond);
  });
  see({down({PartKind::node, 2})}, 5);
  see({down({PartKind::node, 1})}, 6);
  EXPECT_TRUE(lose({{2}, {3}}).empty());
  const auto decided = see({PartChanged{{PartKind::node, 1}, {}}}, 30);
  EXPECT_EQ(only(decided).gpus, toy::gpus(0, 4));
}

TEST_F(CheapestGoodputTest, WherePeersHaveNoStateOnlyACheckpointHas) {
  start([](auto& parameters) { parameters.set_peers(false); });
  see({SaveDone{{0}, 500, Tier::local_disk, 0, 0}}, 8);
  EXPECT_EQ(only(lose({{2}})).state, StateFrom::checkpoint);
}

TEST_F(CheapestGoodputTest, ASavedStateGoesOnAlike) {
  start();
  Archive saved, again;
  policy_.save(saved);
  CheapestGoodput other;
  other.load(saved);
  other.save(again);
  EXPECT_EQ(saved, again);
  EXPECT_FALSE(saved.empty());
}

}  // namespace
}  // namespace orrery
