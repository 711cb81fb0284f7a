#include "live/programs/policies/program_job.hpp"

#include <variant>

#include <gtest/gtest.h>

#include "live/programs/policies/program_rules.hpp"

namespace orrery::live {
namespace {

Cluster four_gpus() {
  GpuModel gpu{};
  gpu.name = "rank";
  Cluster::Shape shape{};
  shape.nodes = 1;
  shape.gpus_per_node = 4;
  shape.nics_per_node = 1;
  shape.nodes_per_unit = 1;
  shape.spines = 1;
  return {std::move(gpu), shape, Price{}};
}

/// Job of a program with four ranks, started at step 3.
struct Started {
  Cluster cluster = four_gpus();
  Nanos now = 0;
  ProgramJob job{cluster, [this] { return now; }};

  Started() {
    const ProgramFeatures features{.has_state = true, .is_whole = true, .every = 5};
    job.submit_job(program_job("train.py", 4, features), 3);
    job.drain_events();
  }
  template <class Kind>
  Kind only_event() {
    const std::vector<Event> events = job.drain_events();
    EXPECT_EQ(events.size(), 1u);
    return std::get<Kind>(events.at(0));
  }
};

TEST(ProgramJob, StepsAreShownTogetherAndSnapshotsAfterTheirStep) {
  Started started;
  started.job.record_save(5, 0.25, true);
  EXPECT_FALSE(started.job.has_events());
  EXPECT_FALSE(started.job.complete_steps(3, 1));
  EXPECT_TRUE(started.job.complete_steps(5, 1.5));
  const std::vector<Event> events = started.job.drain_events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(std::get<StepsDone>(events[0]).last, 4u);
  EXPECT_EQ(std::get<StepsDone>(events[0]).count, 2u);
  EXPECT_EQ(std::get<SaveDone>(events[1]).stalled, kNanosPerSecond / 4);
  EXPECT_EQ(started.job.job().saved, 5u);
}

TEST(ProgramJob, RanksKeepTheirPlaceInTheProgramAfterALoss) {
  Started started;
  started.job.lose_ranks({1});
  EXPECT_EQ(started.only_event<RanksLost>().ranks, std::vector<RankId>{{1}});
  started.job.lose_ranks({1});
  EXPECT_FALSE(started.job.has_events());
  started.job.start_job({0, 2, 3}, 3);
  EXPECT_EQ(started.only_event<JobStarted>().where.layout.data, 3u);
  started.job.suspect_ranks({3});
  EXPECT_EQ(started.only_event<RanksSuspected>().ranks, std::vector<RankId>{{2}});
  started.job.suspect_ranks({3});
  EXPECT_FALSE(started.job.has_events());
  started.job.lose_ranks({3});
  EXPECT_EQ(started.only_event<RanksLost>().ranks, std::vector<RankId>{{2}});
  const std::vector<std::pair<std::size_t, bool>> ranks{{0, true}, {2, true}, {3, false}};
  EXPECT_EQ(started.job.ranks(), ranks);
}

TEST(ProgramJob, ARestartForgetsLaterSnapshots) {
  Started started;
  started.job.complete_steps(6, 1);
  started.job.record_save(6, 0.1, true);
  EXPECT_EQ(started.job.job().saved, 6u);
  started.job.lose_ranks({0, 1, 2, 3});
  started.job.start_job({0, 1, 2, 3}, 0);
  EXPECT_EQ(started.job.job().step, 0u);
  EXPECT_EQ(started.job.job().saved_at, 0);
  started.job.end_job(Ending::completed);
  EXPECT_FALSE(started.job.is_alive());
}

}  // namespace
}  // namespace orrery::live
