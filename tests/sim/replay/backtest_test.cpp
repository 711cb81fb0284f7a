#include "sim/replay/backtest.hpp"

#include <gtest/gtest.h>

#include "sim/replay/job_replay.hpp"

namespace orrery::sim {
namespace {

JobReplay two_gpus(const std::string& policy) {
  JobReplay replay;
  replay.set_nodes(1);
  replay.set_gpus_per_node(2);
  replay.set_policy(policy);
  replay.set_placement("count");
  return replay;
}

TraceJob job(const std::string& id, std::int64_t submit, std::uint32_t gpus, std::int64_t duration,
             std::int64_t recorded_start) {
  TraceJob job{.id = id, .gpus = gpus, .submit_s = submit, .duration_s = duration, .pool = ""};
  job.recorded_start_s = recorded_start;
  return job;
}

TEST(Backtest, WaitsBesideThoseOfTheLog) {
  // fifo starts them at 0, 100 and 200; in the log the second waited 400 s longer.
  const std::vector<TraceJob> jobs{job("a", 0, 2, 100, 0), job("b", 0, 1, 100, 500),
                                   job("c", 10, 2, 100, 210), job("d", 10, 1, 5, -1)};
  JobTables tables;
  replay_jobs(jobs, two_gpus("fifo"), {}, &tables);
  const std::vector<BacktestRow>& rows = tables.backtest;
  ASSERT_EQ(rows.size(), 4u) << "all, one hour, two sizes";
  EXPECT_EQ(rows[0].by, BacktestGroup::all);
  EXPECT_EQ(rows[0].jobs, 3u) << "one start was not recorded";
  EXPECT_DOUBLE_EQ(rows[0].recorded_wait_s, (0 + 500 + 200) / 3.0);
  EXPECT_DOUBLE_EQ(rows[0].replayed_wait_s, (0 + 100 + 190) / 3.0);
  EXPECT_DOUBLE_EQ(rows[0].difference_s, (400 + 10) / 3.0);
  EXPECT_DOUBLE_EQ(rows[0].within_minute, 2 / 3.0);
  EXPECT_DOUBLE_EQ(rows[0].longer_in_log, 1 / 3.0);
  // The log's b waited while c had both GPUs for 100 s; otherwise GPUs were free, also for c.
  EXPECT_DOUBLE_EQ(rows[0].full_s, 100 / 3.0);
  EXPECT_DOUBLE_EQ(rows[0].quota_s, 0);
  EXPECT_DOUBLE_EQ(rows[0].room_s, (300 + 10) / 3.0);
  EXPECT_EQ(rows[1].by, BacktestGroup::hour);
  EXPECT_EQ(rows[1].key, "00");
  EXPECT_EQ(rows[2].key, "1");
  EXPECT_NE(backtest_csv(rows).find("size,2,2,"), std::string::npos);
}

/// A log whose starts are those of a policy is met by that policy to the second, and by no other.
TEST(Backtest, TheStandInThatWroteTheLogIsFound) {
  std::vector<TraceJob> jobs;
  for (int i = 0; i < 200; ++i) {
    jobs.push_back(job(std::to_string(i), i * 40, 1 + i % 2, 20 + i * 37 % 90, -1));
  }
  JobTables wrote;
  replay_jobs(jobs, two_gpus("sjf"), {}, &wrote);
  const std::vector<TraceJob> log = [&] {
    std::vector<TraceJob> with_starts = jobs;
    for (std::size_t i = 0, line = wrote.jobs.find('\n') + 1; i < jobs.size(); ++i) {
      std::size_t at = line;
      for (int field = 0; field < 6; ++field) at = wrote.jobs.find(',', at) + 1;
      with_starts[i].recorded_start_s = std::stoll(wrote.jobs.substr(at));
      line = wrote.jobs.find('\n', line) + 1;
    }
    return with_starts;
  }();
  JobTables same, other;
  replay_jobs(log, two_gpus("sjf"), {}, &same);
  replay_jobs(log, two_gpus("fifo"), {}, &other);
  EXPECT_EQ(same.backtest[0].difference_s, 0);
  EXPECT_EQ(same.backtest[0].within_minute, 1);
  EXPECT_GT(other.backtest[0].difference_s, 10);
}

}  // namespace
}  // namespace orrery::sim
