#include "sim/replay/recorded_jobs.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "policies/run/registry.hpp"
#include "tests/sim/logged_job.hpp"

namespace orrery::sim {
namespace {

using test::logged_job;

/// A world of eight GPUs, with others' jobs in it, whose events are applied as they happen.
class World8 {
 public:
  World8() : world(cluster) {}

  void happen(Event event) {
    world.apply(event, now);
    events.push_back(std::move(event));
  }
  void submit_other() {
    JobSpec spec;
    spec.id = {world.jobs().submitted()};
    spec.gpus = 1;
    happen(JobSubmitted{spec});
  }
  Assign place(JobId job, std::uint32_t first, std::uint32_t count) const {
    return {.job = job, .gpus = GpuRuns::range({first}, count), .layout = {.data = count}};
  }
  void decide(RecordedJobs& jobs, const Assign& assign) {
    const Decision decision{.id = decisions++, .what = assign};
    ASSERT_EQ(jobs.refusal(decision), "");
    world.announce_decision(decision);
    happen(Decided{decision.id, Outcome::applied, ""});
    jobs.carry_out(decision, now);
  }

  const Cluster cluster = cluster_of([] {
    JobReplay replay;
    replay.set_nodes(1);
    replay.set_gpus_per_node(8);
    return replay;
  }());
  World world;
  Nanos now = 0;
  std::vector<Event> events;
  std::uint64_t decisions = 0;
};

constexpr Nanos seconds(std::int64_t count) { return count * kNanosPerSecond; }

TEST(RecordedJobs, OthersMayBeSubmittedInBetween) {
  World8 at;
  const std::vector<TraceJob> log = {logged_job("a", 5, 2, 100), logged_job("b", 5, 1, 30),
                                     logged_job("c", 9, 1, 7)};
  RecordedJobs jobs(log, at.world, [&](Event event) { at.happen(std::move(event)); });
  at.submit_other();
  at.now = jobs.next_event_time();
  EXPECT_EQ(at.now, seconds(5));
  jobs.advance_to(at.now, {});
  at.submit_other();
  at.now = jobs.next_event_time();
  jobs.advance_to(at.now, {});
  EXPECT_EQ(at.world.jobs()[{1}].spec.name, "a");
  EXPECT_EQ(at.world.jobs()[{2}].spec.name, "b");
  EXPECT_EQ(at.world.jobs()[{4}].spec.name, "c");
  at.decide(jobs, at.place({4}, 0, 1));
  at.decide(jobs, at.place({2}, 1, 1));
  EXPECT_EQ(jobs.next_event_time(), seconds(9 + 7)) << "c runs for 7 s";
  at.now = jobs.next_event_time();
  jobs.advance_to(at.now, {});
  EXPECT_EQ(std::get<JobDone>(at.events.back()).job, JobId{4});
  EXPECT_EQ(jobs.next_event_time(), seconds(9 + 30)) << "b runs for 30 s";
  EXPECT_FALSE(jobs.is_over());
}

TEST(RecordedJobs, AJobThatWasTakenOffGoesOnWhereItWas) {
  World8 at;
  const std::vector<TraceJob> log = {logged_job("a", 0, 2, 100)};
  RecordedJobs jobs(log, at.world, [&](Event event) { at.happen(std::move(event)); });
  jobs.advance_to(0, {});
  at.decide(jobs, at.place({0}, 0, 2));
  at.now = seconds(40) + 1;  // not on a whole second
  at.decide(jobs, {.job = {0}});
  EXPECT_EQ(jobs.next_event_time(), kNever) << "it waits";
  at.now = seconds(50);
  at.decide(jobs, at.place({0}, 4, 2));
  EXPECT_EQ(jobs.next_event_time(), seconds(50 + 60) - 1);
  at.now = jobs.next_event_time();
  jobs.advance_to(at.now, {});
  EXPECT_TRUE(jobs.is_over());
  JobsReport report;
  jobs.fill(report);
  EXPECT_EQ(report.preemptions(), 1u);
  EXPECT_NEAR(report.jct_mean_s(), 110, 1e-6);
}

TEST(RecordedJobs, AnElasticJobHasTheSpeedOfItsSize) {
  World8 at;
  std::vector<TraceJob> log = {logged_job("a", 0, 4, 100)};
  log[0].sizes = "2 16 1:30 4:100 16:150";
  RecordedJobs jobs(log, at.world, [&](Event event) { at.happen(std::move(event)); });
  jobs.advance_to(0, {});
  EXPECT_EQ(at.world.jobs()[{0}].spec.least(), 2u);
  EXPECT_EQ(at.world.jobs()[{0}].spec.most(), 8u) << "the cluster has no more";
  at.decide(jobs, at.place({0}, 0, 4));
  at.now = seconds(50);
  at.decide(jobs, at.place({0}, 0, 1 + 1));
  EXPECT_EQ(at.world.state().free, 6u);
  EXPECT_NEAR(to_seconds(jobs.next_event_time()), 50 + 50 / (160.0 / 3 / 100), 1e-6);
  EXPECT_THAT(jobs.refusal({.what = at.place({0}, 4, 2)}), ::testing::HasSubstr("stays"));
  at.now = jobs.next_event_time();
  jobs.advance_to(at.now, {});
  const JobRow row = jobs.row(0);
  EXPECT_EQ(row.preemptions, 0u);
  EXPECT_EQ(row.resizes, 1u);
  EXPECT_NEAR(row.used_gpu_s, 50 * 4 + 93.75 * 2, 1e-6);
  JobsReport report;
  jobs.fill(report);
  EXPECT_NEAR(report.utilization(), row.used_gpu_s / (8 * 143.75), 1e-9);
}

TEST(RecordedJobs, WhatTheyCannotDoIsRefused) {
  World8 at;
  const std::vector<TraceJob> log = {logged_job("a", 0, 2, 100)};
  RecordedJobs jobs(log, at.world, [&](Event event) { at.happen(std::move(event)); });
  jobs.advance_to(0, {});
  EXPECT_THAT(jobs.refusal({.what = Save{.job = {0}}}), ::testing::HasSubstr("nothing to save"));
  at.decide(jobs, at.place({0}, 0, 2));
  EXPECT_THAT(jobs.refusal({.what = at.place({0}, 4, 2)}), ::testing::HasSubstr("stays"));
}

}  // namespace
}  // namespace orrery::sim
