#include "sim/planning/run_study.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "sim/estimates/predict/estimate.hpp"

namespace orrery::sim {
namespace {

PlanQuestion small_question() {
  PlanQuestion question;
  question.job.model = "llama3-8b";
  question.job.global_batch = 256;
  question.clusters = {"dgx-h100"};
  question.gpus = {64};
  question.tokens = 1e11;
  question.seeds = 30;
  question.simulates_steps = false;
  return question;
}

/// Study of a small plan, which all tests share: a search takes a second.
RunStudy& study() {
  static RunStudy made(small_question(), make_plan(small_question()));
  return made;
}

const Plan& plan() {
  static const Plan made = make_plan(small_question());
  return made;
}

TEST(RunStudy, WithoutChangesARowIsThatOfThePlan) {
  for (std::size_t row = 0; row < plan().rows.size(); ++row) {
    const PlannedRun& before = plan().rows[row];
    const PlannedRun again = study().play_row(row, {});
    EXPECT_EQ(again.outcome.ends_s, before.outcome.ends_s) << row;
    EXPECT_EQ(again.run.every, before.run.every) << row;
    EXPECT_EQ(again.energy_j, before.energy_j) << row;
    EXPECT_EQ(again.cost_usd->p50, before.cost_usd->p50) << row;
  }
}

TEST(RunStudy, FewerSeedsAreTheFirstOnes) {
  const PlannedRun all = study().play_row(0, {});
  const PlannedRun some = study().with_first_seeds(12)->play_row(0, {});
  ASSERT_EQ(some.outcome.alone_ends_s.size(), 12u);
  EXPECT_TRUE(std::equal(some.outcome.alone_ends_s.begin(), some.outcome.alone_ends_s.end(),
                         all.outcome.alone_ends_s.begin()));
  EXPECT_THROW(study().with_first_seeds(9), Error);
  EXPECT_THROW(study().with_first_seeds(31), Error);
}

TEST(RunStudy, ChangesMoveTheEndAsTheyShould) {
  const double before = study().play_row(0, {}).outcome.failures_only_s.p50;
  const auto end = [&](const RunChanges& changes) {
    return study().play_row(0, changes).outcome.failures_only_s.p50;
  };
  EXPECT_GT(end({.overrides = {"failures.scale=8"}}), before);
  EXPECT_LT(end({.overrides = {"failures.scale=0"}}), before);
  EXPECT_NEAR(end({.step_factor = 2}) / before, 2, 0.1);
  EXPECT_LT(end({.overrides = {"survival.restart=1 s"}}), before);
  const PlannedRun priced = study().play_row(0, {.overrides = {"cluster.price.gpu_hour=6 USD/h"}});
  EXPECT_DOUBLE_EQ(priced.cost_usd->p50, 2 * study().play_row(0, {}).cost_usd->p50);
}

TEST(RunStudy, SparesAreReservedAndPaid) {
  const PlannedRun some = study().play_row(0, {.spare_nodes = 3});
  EXPECT_EQ(some.spare_nodes, 3u);
  EXPECT_EQ(some.gpus, some.job_gpus + 3 * 8);
  const PlannedRun none = study().play_row(0, {.spare_nodes = 0});
  EXPECT_EQ(none.gpus, none.job_gpus);
  EXPECT_LE(some.outcome.shares.waiting, none.outcome.shares.waiting);
}

TEST(RunStudy, ImpossibleChangesAreRefused) {
  EXPECT_THROW(study().play_row(99, {}), Error);
  EXPECT_THROW(study().play_row(0, {.step_factor = 0}), Error);
  EXPECT_THROW(study().play_row(0, {.overrides = {"failures.scal=2"}}), Error);
  EXPECT_THROW(study().play_row(0, {.overrides = {"cluster.node.gpu=V100-16GB"}}), Error);
}

TEST(RunStudy, CoursesEndWithTheirSeeds) {
  const PlannedRun row = study().play_row(0, {.overrides = {"failures.scale=10"}});
  const auto courses = study().courses(0, {.overrides = {"failures.scale=10"}});
  ASSERT_EQ(courses.size(), row.outcome.ends_s.size());
  bool rolled_back = false;
  for (std::size_t seed = 0; seed < courses.size(); ++seed) {
    const std::vector<CoursePoint>& points = courses[seed].points;
    ASSERT_GE(points.size(), 2u);
    EXPECT_EQ(points.front().at, 0);
    EXPECT_EQ(points.back().step, row.run.steps);
    EXPECT_DOUBLE_EQ(to_seconds(points.back().at), row.outcome.ends_s[seed]);
    for (std::size_t i = 1; i < points.size(); ++i) {
      EXPECT_GE(points[i].at, points[i - 1].at);
      const bool back = points[i].step < points[i - 1].step;
      rolled_back = rolled_back || back;
      if (!back) continue;
      EXPECT_EQ(points[i].at, points[i - 1].at) << "a rollback takes no time of its own";
    }
  }
  EXPECT_TRUE(rolled_back);
}

TEST(RunStudy, MemoryIsThatOfTheFullestStage) {
  for (std::size_t row = 0; row < plan().rows.size(); ++row) {
    double most = 0;
    for (const MemoryUse& stage : study().memory(row)) {
      most = std::max(most, stage.total().value);
    }
    EXPECT_DOUBLE_EQ(most, plan().rows[row].memory_bytes) << row;
  }
  EXPECT_EQ(study().gpu(0).name, "H100");
}

TEST(RunStudy, OperatorsSumUpToTheKernelsOfTheStep) {
  const PlannedRun& row = plan().rows.front();
  const auto operators = study().operators(0);
  double seconds = 0, flop = 0;
  for (const OperatorUse& each : operators) {
    seconds += each.seconds;
    flop += each.flop;
    EXPECT_GT(each.count, 0) << each.name;
    EXPECT_LE(each.flop, each.peak * each.seconds) << each.name;
  }
  EXPECT_TRUE(std::is_sorted(operators.begin(), operators.end(),
                             [](const auto& a, const auto& b) { return a.seconds > b.seconds; }));
  // Gaps of layers and of steps are in the step and are no operators.
  EXPECT_NEAR(seconds / row.layout.priced.estimate.compute_s, 0.97, 0.04);
  const StepGraph graph(row.scenario.job());
  EXPECT_GE(flop * row.job_gpus, 0.95 * graph.model_flop().value);
}

TEST(FoundLayouts, AQuestionWithThemHasTheSamePlan) {
  PlanQuestion question = small_question();
  for (const auto& [cluster, gpus] : plan_tasks(question)) {
    question.found.push_back(parse_found(found_text(find_layouts(question, cluster, gpus))));
  }
  ASSERT_EQ(question.found.size(), 1u);
  const Plan again = make_plan(question);
  ASSERT_EQ(again.rows.size(), plan().rows.size());
  for (std::size_t row = 0; row < again.rows.size(); ++row) {
    EXPECT_EQ(words_of(again.rows[row].layout.priced.choice),
              words_of(plan().rows[row].layout.priced.choice));
    EXPECT_EQ(again.rows[row].outcome.ends_s, plan().rows[row].outcome.ends_s);
  }
  EXPECT_EQ(again.why, plan().why);
  EXPECT_THROW(parse_found("{}"), Error);
}

}  // namespace
}  // namespace orrery::sim
