#include "policies/input/prefetch.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/schema/yaml_loader.hpp"
#include "tests/policies/toy.hpp"

namespace orrery {
namespace {

/// A job of four ranks that reads data, the policy, and steps of 100 ms with given waits for data.
class PrefetchTest : public ::testing::Test {
 protected:
  void start(const std::string& text, JobSpec spec = toy::job()) {
    load_yaml(text, "p.yaml", parameters_);
    fill_defaults(parameters_);
    start_policy(policy_);
    spec.settings = {Prefetch{1, 2}};
    toy::run_on(world_, std::move(spec));
  }
  void start_policy(Policy& policy) {
    Rng rng(1);
    Context context{rng, {}};
    policy.start(context, world_.cluster(), &parameters_);
  }
  /// Commits a step in which rank 2 waited `wait` seconds for data, and applies the decisions.
  void step(double wait, bool is_applied = true) {
    const Step done = job().step;
    const std::vector<Event> events{StepsDone{{0}, done, 1, kNanosPerSecond / 10}};
    world_.apply(events.front(), 0);
    samples_.of_ranks.clear();
    for (std::uint32_t rank = 0; rank < toy::kRanks; ++rank) {
      RankSample sample;
      sample.rank = {rank};
      sample.step = job().step;
      sample.input_wait = {rank == 2 ? wait : wait / 2, 0, Origin::measured};
      samples_.of_ranks.push_back(sample);
    }
    observe(events, is_applied);
  }
  void observe(const std::vector<Event>& events, bool is_applied = true) {
    Rng rng(1);
    Context context{rng, {}};
    DecisionList decisions(next_);
    policy_.observe(context, toy::seen_of(world_, events, samples_), decisions);
    is_resting_ = decisions.is_resting();
    for (const Decision& decision : decisions.items()) {
      EXPECT_EQ(world_.objection(decision), "");
      asked_.push_back(std::get<Prefetch>(std::get<Configure>(decision.what).what));
      world_.announce_decision(decision);
      const auto status = is_applied ? Outcome::applied : Outcome::rejected;
      world_.apply(Decided{decision.id, status, "no"}, 0);
      next_ = decision.id + 1;
    }
  }
  const JobInfo& job() const { return world_.jobs()[{0}]; }
  Prefetch now() const { return job().now.get<Prefetch>(); }

  const Cluster cluster_ = toy::cluster();
  World world_{cluster_};
  toy::HandMade samples_;
  PrefetchParameters parameters_;
  PrefetchPolicy policy_;
  std::vector<Prefetch> asked_;
  DecisionId next_ = 0;
  bool is_resting_ = false;
};

using Asked = std::vector<Prefetch>;

TEST_F(PrefetchTest, RaisesWhileARankWaitsAndStopsWhenNoneDoes) {
  start("steps: 2");
  step(0.06);
  EXPECT_TRUE(asked_.empty()) << "one step is not enough";
  EXPECT_FALSE(is_resting_);
  step(0.06);
  EXPECT_EQ(asked_, (Asked{{2, 4}}));
  step(0.06);  // the step that began before the decision
  step(0.02);
  step(0.02);
  EXPECT_EQ(asked_, (Asked{{2, 4}, {4, 8}})) << "better, and still late";
  for (int i = 0; i < 6; ++i) step(0.004);
  EXPECT_EQ(now(), (Prefetch{4, 8})) << "less than 5% of the step";
  EXPECT_EQ(asked_.size(), 2u);
  EXPECT_TRUE(is_resting_);
}

TEST_F(PrefetchTest, AWaitOfAnEarlierStepDoesNotCount) {
  start("steps: 1");
  step(0.06);
  ASSERT_EQ(asked_.size(), 1u);
  step(0.06);  // the step in progress at the decision, which had one reader
  EXPECT_EQ(now(), (Prefetch{2, 4})) << "a raise is not judged by it";
  EXPECT_EQ(asked_.size(), 1u);
}

TEST_F(PrefetchTest, MemoryAndProcessesLimitARaise) {
  JobSpec spec = toy::job();
  spec.max_prefetch = 3;
  start("steps: 1", spec);
  for (int i = 0; i < 20; ++i) step(0.06 / now().workers);
  EXPECT_EQ(asked_, (Asked{{2, 3}, {3, 3}})) << "no more than micro-batches ahead";
  EXPECT_TRUE(is_resting_) << "no raise is left";
  JobInfo other;
  other.now.set_setting(Prefetch{4, 8});
  EXPECT_EQ(raised_prefetch(other, 6), (Prefetch{6, 12}));
  EXPECT_EQ(raised_prefetch(other, 2), (Prefetch{4, 8})) << "never fewer";
  other.spec.max_workers = 5;
  EXPECT_EQ(raised_prefetch(other, 16), (Prefetch{5, 10}));
}

TEST_F(PrefetchTest, ARaiseThatDoesNotHelpIsTakenBackAndNotRepeated) {
  start("steps: 1");
  for (int i = 0; i < 10; ++i) step(0.06);
  EXPECT_EQ(asked_, (Asked{{2, 4}, {1, 2}})) << "storage is slow, not the reader";
  EXPECT_TRUE(is_resting_);
}

TEST_F(PrefetchTest, ARefusedRaiseIsNotRepeated) {
  start("steps: 1");
  for (int i = 0; i < 5; ++i) step(0.06, false);
  EXPECT_EQ(asked_.size(), 1u);
  EXPECT_TRUE(is_resting_);
}

TEST_F(PrefetchTest, AJobWithoutReadersIsLeftAlone) {
  JobSpec spec = toy::job();
  spec.can = Kinds<Setting>::all() - Kinds<Setting>::of<Prefetch>();
  start("steps: 1", spec);
  for (int i = 0; i < 3; ++i) step(0.06);
  EXPECT_TRUE(asked_.empty());
  EXPECT_TRUE(is_resting_);
}

TEST_F(PrefetchTest, ALoadedStateIsTheSavedOne) {
  start("steps: 3");
  for (int i = 0; i < 4; ++i) step(0.06);
  Archive saved, again;
  policy_.save(saved);
  PrefetchPolicy other;
  start_policy(other);
  other.load(saved);
  other.save(again);
  EXPECT_FALSE(saved.empty());
  EXPECT_EQ(saved, again);
}

}  // namespace
}  // namespace orrery
