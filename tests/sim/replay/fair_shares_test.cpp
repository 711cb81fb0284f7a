#include "policies/queues/fair_shares.hpp"

#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "policies/parameters.pb.h"
#include "policies/record/standing_book.hpp"
#include "policies/run/registry.hpp"
#include "policies/seam/stack.hpp"
#include "sim/replay/job_replay.hpp"
#include "tests/sim/logged_job.hpp"

namespace orrery::sim {
namespace {

using test::logged_job;

using Line = StandingBook::Line;

struct Quota {
  std::string vc;
  std::uint32_t gpus;
};

/// Starts and stops on one node of eight GPUs: second, job.
struct Course {
  std::vector<std::pair<std::int64_t, std::uint32_t>> started, stopped;
};

Course under(const std::string& name, const std::vector<TraceJob>& jobs,
             const std::vector<Quota>& quotas = {}, bool borrow = true) {
  JobReplay replay;
  replay.set_nodes(1);
  replay.set_gpus_per_node(8);
  replay.set_policy(name);
  replay.set_placement("count");
  std::vector<PolicyStack::Member> members(1);
  members[0] = {
      .name = name, .policy = make_policy(name, {}), .parameters = policy_parameters(name, {})};
  if (auto* const given = dynamic_cast<MaxMinParameters*>(members[0].parameters.get())) {
    given->set_borrow(borrow);
    for (const Quota& quota : quotas) {
      auto& one = *given->add_quotas();
      one.set_vc(quota.vc);
      one.set_gpus(quota.gpus);
    }
  }
  PolicyStack stack(std::move(members));
  StandingBook book(stack);
  replay_jobs(jobs, replay, book);
  Course course;
  for (const Line& line : book.lines()) {
    const std::pair<std::int64_t, std::uint32_t> at{line.at / kNanosPerSecond, line.job.value};
    if (line.what == Line::What::started) course.started.push_back(at);
    if (line.what == Line::What::stopped) course.stopped.push_back(at);
  }
  return course;
}

using Seconds = std::vector<std::pair<std::int64_t, std::uint32_t>>;

TEST(MaxMin, WhatIsLentIsGivenBackWhenItsOwnerNeedsIt) {
  // a has six GPUs, b two. b borrows while a is away; a's job of four comes at 10.
  const std::vector<TraceJob> jobs{logged_job("b1", 0, 2, 100, "b"),
                                   logged_job("b2", 0, 4, 50, "b"),
                                   logged_job("a1", 10, 4, 20, "a")};
  const Course course = under("max-min", jobs, {{"a", 6}, {"b", 2}});
  EXPECT_EQ(course.started, (Seconds{{0, 0}, {0, 1}, {10, 2}, {30, 1}}));
  EXPECT_EQ(course.stopped, (Seconds{{10, 1}}));  // b1 is within b's own two
}

TEST(MaxMin, NothingIsLentWhereThatIsForbidden) {
  const std::vector<TraceJob> jobs{logged_job("b1", 0, 2, 100, "b"),
                                   logged_job("b2", 0, 2, 50, "b")};
  const Course course = under("max-min", jobs, {{"a", 6}, {"b", 2}}, false);
  EXPECT_EQ(course.started, (Seconds{{0, 0}, {100, 1}}));
}

TEST(MaxMin, WhoUsesLeastOfItsQuotaBorrowsFirst) {
  // c is away and leaves four; a uses two of two, b two of four: b goes first, independently of the
  // order of arrival.
  const std::vector<TraceJob> jobs{logged_job("a1", 0, 2, 100, "a"),
                                   logged_job("a2", 0, 4, 10, "a"),
                                   logged_job("b1", 0, 2, 100, "b"),
                                   logged_job("b2", 0, 3, 10, "b")};
  const Course course = under("max-min", jobs, {{"a", 2}, {"b", 4}, {"c", 2}});
  EXPECT_EQ(course.started, (Seconds{{0, 0}, {0, 2}, {0, 3}, {10, 1}}));
}

TEST(MaxMin, AVirtualClusterWithoutAQuotaBorrowsLast) {
  const std::vector<TraceJob> jobs{logged_job("x1", 0, 8, 10, "x"),
                                   logged_job("a1", 0, 8, 10, "a")};
  EXPECT_EQ(under("max-min", jobs, {{"a", 4}}).started, (Seconds{{0, 1}, {10, 0}}));
}

/// The order of submission, then of the log, decides between equal shares, not the names.
TEST(FairShares, OfEqualSharesTheEarlierJobGoesFirst) {
  const std::vector<TraceJob> jobs{
      logged_job("b1", 0, 8, 10, "b"), logged_job("a1", 0, 8, 10, "a"),
      logged_job("c1", 0, 8, 10, "c"), logged_job("b2", 1, 8, 10, "b"),
      logged_job("a2", 2, 8, 10, "a")};
  const Seconds in_order{{0, 0}, {10, 1}, {20, 2}, {30, 3}, {40, 4}};
  EXPECT_EQ(under("drf", jobs).started, in_order);
  const Course course = under("max-min", jobs, {{"a", 2}, {"b", 2}, {"c", 2}});
  EXPECT_EQ(course.started, in_order);
  EXPECT_TRUE(course.stopped.empty());
}

/// A job whose GPUs another owner took back waits at its old place.
TEST(MaxMin, APreemptedJobKeepsItsPlace) {
  const std::vector<TraceJob> jobs{logged_job("b1", 0, 8, 20, "b"),
                                   logged_job("b2", 1, 8, 10, "b"),
                                   logged_job("a1", 5, 8, 10, "a")};
  const Course course = under("max-min", jobs, {{"a", 8}});
  EXPECT_EQ(course.started, (Seconds{{0, 0}, {5, 2}, {15, 0}, {30, 1}}));
  EXPECT_EQ(course.stopped, (Seconds{{5, 0}}));
}

TEST(Drf, TheSmallestShareGoesNextAndNobodyLosesGpus) {
  // a came first with everything; b gets the next two GPUs that are free, not a's third job.
  const std::vector<TraceJob> jobs{logged_job("a1", 0, 4, 10, "a"),
                                   logged_job("a2", 0, 4, 20, "a"),
                                   logged_job("a3", 1, 4, 10, "a"),
                                   logged_job("b1", 2, 2, 10, "b")};
  const Course course = under("drf", jobs);
  EXPECT_EQ(course.started, (Seconds{{0, 0}, {0, 1}, {10, 3}, {20, 2}}));
  EXPECT_TRUE(course.stopped.empty());
}

}  // namespace
}  // namespace orrery::sim
