#include "sim/replay/wait_watch.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "policies/run/registry.hpp"
#include "sim/replay/job_replay.hpp"
#include "tests/sim/logged_job.hpp"

namespace orrery::sim {
namespace {

using test::logged_job;

constexpr Nanos seconds(std::int64_t count) { return count * kNanosPerSecond; }

WaitReasons why(const std::vector<TraceJob>& jobs, const std::string& job,
                const std::string& policy, const std::string& placement, std::uint32_t nodes,
                std::uint32_t size) {
  JobReplay replay;
  replay.set_nodes(nodes);
  replay.set_gpus_per_node(size);
  replay.set_policy(policy);
  replay.set_placement(placement);
  const auto stack = make_stack(replay);
  WaitWatch watch(*stack, job, placement);
  const JobsReport watched = replay_jobs(jobs, replay, watch);
  EXPECT_EQ(watched.jct_mean_s(), replay_jobs(jobs, replay).jct_mean_s()) << "it only watches";
  return watch.reasons();
}

TEST(WaitWatch, EverySecondOfWaitingHasAReason) {
  // Two nodes of two. a and b fill one node, c half of the other: d fits by number from 10 on, and
  // by place when b has ended. e could start at once, but stands behind d.
  const std::vector<TraceJob> jobs{logged_job("a", 0, 1, 10), logged_job("b", 0, 1, 20),
                                   logged_job("c", 0, 1, 30), logged_job("x", 0, 1, 5),
                                   logged_job("d", 1, 2, 5),  logged_job("e", 6, 1, 1)};
  const WaitReasons d = why(jobs, "d", "fifo", "consolidated", 2, 2);
  ASSERT_TRUE(d.found);
  EXPECT_EQ(d.started, seconds(20));
  EXPECT_EQ(d.too_few, seconds(9));
  EXPECT_EQ(d.scattered, seconds(10));
  EXPECT_EQ(d.order, 0);
  EXPECT_EQ(d.waited(), d.started - d.submitted);
  const WaitReasons e = why(jobs, "e", "fifo", "consolidated", 2, 2);
  EXPECT_EQ(e.order, seconds(14));
  EXPECT_EQ(e.waited(), seconds(14));
  EXPECT_EQ(e.ahead_jobs, 1u);
  EXPECT_EQ(e.ahead, std::vector<std::string>{"d"});
  EXPECT_EQ(why(jobs, "d", "fifo-skip", "consolidated", 2, 2).overtook_jobs, 1u);
  EXPECT_FALSE(why(jobs, "f", "fifo", "count", 2, 2).found);
}

TEST(WaitWatch, TimeAfterItWasTakenOffCountsToo) {
  const std::vector<TraceJob> jobs{logged_job("long", 0, 2, 100), logged_job("short", 10, 2, 5)};
  const WaitReasons reasons = why(jobs, "long", "srtf", "count", 1, 2);
  EXPECT_EQ(reasons.taken_off, 1u);
  EXPECT_EQ(reasons.waited(), seconds(5));
  EXPECT_EQ(reasons.ended, seconds(105));
}

}  // namespace
}  // namespace orrery::sim
