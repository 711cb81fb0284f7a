#include "sim/job_replay.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/error.hpp"
#include "policies/record/recorder.hpp"
#include "traces/report.hpp"

namespace orrery {
namespace {

JobReplay replay_of(std::uint32_t nodes, std::uint32_t gpus_per_node, const std::string& policy,
                    const std::string& placement) {
  JobReplay replay;
  replay.set_nodes(nodes);
  replay.set_gpus_per_node(gpus_per_node);
  replay.set_policy(policy);
  replay.set_placement(placement);
  return replay;
}

/// Path of a shared trace; empty if this machine has none.
std::string shared_trace(const std::string& name) {
  const char* const given = std::getenv("ORRERY_DATA");
  const std::filesystem::path root =
      given != nullptr ? given : std::string(ORRERY_SOURCE_DIR) + "/../shared/data";
  const std::filesystem::path path = root / "jobs" / name;
  return std::filesystem::exists(path) ? path.string() : "";
}

double tenths(double value) { return std::round(value * 10) / 10; }

/// Forty jobs of our own making; the numbers are an independent program's (tests/cli/samples).
TEST(JobReplay, TheSampleUnderBothOrders) {
  const auto jobs = load_job_trace(ORRERY_SOURCE_DIR "/tests/cli/samples/jobs.csv");
  const JobsReport fifo = replay_jobs(jobs, replay_of(3, 8, "fifo", "consolidated"));
  EXPECT_EQ(fifo.jobs_out(), 40u);
  EXPECT_DOUBLE_EQ(tenths(fifo.jct_mean_s()), 8200.3);
  EXPECT_DOUBLE_EQ(tenths(fifo.queue_mean_s()), 6492.3);
  EXPECT_EQ(fifo.makespan_s(), 25205);
  const JobsReport sjf = replay_jobs(jobs, replay_of(3, 8, "sjf", "consolidated"));
  EXPECT_DOUBLE_EQ(tenths(sjf.jct_mean_s()), 3607.4);
  EXPECT_DOUBLE_EQ(tenths(sjf.queue_mean_s()), 1899.4);
  EXPECT_EQ(sjf.makespan_s(), 23030);
}

TEST(JobReplay, ReferenceRowSjf) {
  const std::string path = shared_trace("philly_small.csv");
  if (path.empty()) GTEST_SKIP() << "philly_small.csv is not here: set ORRERY_DATA";
  const JobsReport report =
      replay_jobs(load_job_trace(path), replay_of(3, 8, "sjf", "consolidated"));
  EXPECT_EQ(report.jobs_in(), 1450u);
  EXPECT_EQ(report.jobs_out(), 1450u);
  EXPECT_DOUBLE_EQ(tenths(report.jct_mean_s()), 64430.2);
  EXPECT_DOUBLE_EQ(tenths(report.queue_mean_s()), 39892.9);
  EXPECT_EQ(report.makespan_s(), 5783813);
  EXPECT_NEAR(report.utilization(), 0.8142, 0.00005);
}

TEST(JobReplay, ReferenceRowFifo) {
  const std::string path = shared_trace("philly_small_helios_order.csv");
  if (path.empty()) GTEST_SKIP() << "philly_small_helios_order.csv is not here: set ORRERY_DATA";
  const JobsReport report =
      replay_jobs(load_job_trace(path), replay_of(3, 8, "fifo", "consolidated"));
  EXPECT_EQ(report.jobs_out(), 1450u);
  EXPECT_DOUBLE_EQ(tenths(report.jct_mean_s()), 343050.4);
  EXPECT_DOUBLE_EQ(tenths(report.queue_mean_s()), 318513.1);
  EXPECT_EQ(report.makespan_s(), 5694118);
}

// ---- an independent program for the same semantics ----------------------------------------

struct Naive {
  std::vector<TraceJob> jobs;
  std::size_t nodes, size;
  bool shortest, consolidated;
  std::vector<std::int64_t> start = {}, end = {};
  std::vector<std::map<std::size_t, std::uint32_t>> held = {};  ///< per job: GPUs by node

  bool place(std::size_t job, std::vector<std::uint32_t>& free) {
    std::uint32_t need = jobs[job].gpus, all = 0;
    for (const std::uint32_t f : free) all += f;
    if (need > all) return false;
    std::map<std::size_t, std::uint32_t> taken;
    if (!consolidated) {
      for (std::size_t n = 0; n < nodes && need > 0; ++n) {
        const std::uint32_t here = std::min(need, free[n]);
        if (here > 0) taken[n] = here;
        need -= here;
      }
    } else {
      std::uint32_t whole = need > size ? need / std::uint32_t(size) : 0;
      need -= whole * std::uint32_t(size);
      for (std::size_t n = 0; n < nodes && whole > 0; ++n) {
        if (free[n] == size) taken[n] = std::uint32_t(size), --whole;
      }
      if (whole > 0) return false;
      std::size_t best = nodes;
      for (std::size_t n = nodes; need > 0 && n-- > 0;) {
        const bool fits = free[n] >= need && !taken.contains(n);
        if (fits && (best == nodes || free[n] <= free[best])) best = n;
      }
      if (need > 0 && best == nodes) return false;
      if (need > 0) taken[best] = need;
    }
    for (const auto& [n, count] : taken) free[n] -= count;
    held[job] = taken;
    return true;
  }

  void run() {
    std::vector<std::uint32_t> free(nodes, std::uint32_t(size));
    std::vector<std::size_t> waiting, running;
    std::size_t arrived = 0;
    start.assign(jobs.size(), -1), end.assign(jobs.size(), -1), held.resize(jobs.size());
    while (arrived < jobs.size() || !running.empty()) {
      std::int64_t now = arrived < jobs.size() ? jobs[arrived].submit_s : INT64_MAX;
      for (const std::size_t j : running) now = std::min(now, start[j] + jobs[j].duration_s);
      std::erase_if(running, [&](std::size_t j) {
        if (start[j] + jobs[j].duration_s > now) return false;
        end[j] = now;
        for (const auto& [n, count] : held[j]) free[n] += count;
        return true;
      });
      while (arrived < jobs.size() && jobs[arrived].submit_s <= now) waiting.push_back(arrived++);
      if (shortest) {
        std::stable_sort(waiting.begin(), waiting.end(), [&](std::size_t a, std::size_t b) {
          return jobs[a].duration_s < jobs[b].duration_s;
        });
      }
      while (!waiting.empty() && place(waiting.front(), free)) {
        start[waiting.front()] = now;
        running.push_back(waiting.front());
        waiting.erase(waiting.begin());
      }
    }
  }
};

void agrees(const std::vector<TraceJob>& jobs, std::uint32_t nodes, std::uint32_t size) {
  for (const char* policy : {"fifo", "sjf"}) {
    for (const char* placement : {"count", "consolidated"}) {
      Naive naive{.jobs = jobs, .nodes = nodes, .size = size, .shortest = policy[0] == 's',
                  .consolidated = placement[2] == 'n'};
      naive.run();
      double completed = 0, waited = 0;
      std::int64_t last = 0;
      for (std::size_t j = 0; j < jobs.size(); ++j) {
        completed += double(naive.end[j] - jobs[j].submit_s);
        waited += double(naive.start[j] - jobs[j].submit_s);
        last = std::max(last, naive.end[j]);
      }
      const JobsReport report = replay_jobs(jobs, replay_of(nodes, size, policy, placement));
      const auto count = double(jobs.size());
      RC_ASSERT(report.jobs_in() == jobs.size());
      RC_ASSERT(report.jobs_out() == jobs.size());
      RC_ASSERT(report.jct_mean_s() == completed / count);
      RC_ASSERT(report.queue_mean_s() == waited / count);
      RC_ASSERT(report.makespan_s() == double(last - jobs.front().submit_s));
      RC_ASSERT(report.decisions() == jobs.size());
    }
  }
}

RC_GTEST_PROP(JobReplay, AgreesWithANaiveProgram, ()) {
  const std::uint32_t nodes = *rc::gen::inRange(1u, 5u);
  const std::uint32_t size = *rc::gen::element(2u, 4u, 8u);
  const std::size_t count = *rc::gen::inRange<std::size_t>(1, 60);
  std::vector<TraceJob> jobs;
  std::int64_t now = 0;
  for (std::size_t i = 0; i < count; ++i) {
    now += *rc::gen::inRange(0, 4);  // many arrivals and ends at one instant
    jobs.push_back({.id = std::to_string(i), .submit_s = now,
                    .gpus = *rc::gen::inRange(1u, nodes * size + 1),
                    .duration_s = *rc::gen::inRange(0, 12), .pool = ""});
  }
  agrees(jobs, nodes, size);
}

// ---- by hand ------------------------------------------------------------------------------

TEST(JobReplay, FragmentationBlocksTheHeadOfTheLine) {
  // Two nodes of two. Two single jobs fill one node (best fit); a third takes half of the other.
  // A two-GPU job fits by count only when the node is whole again.
  const std::vector<TraceJob> jobs{{"a", 0, 1, 10, ""}, {"b", 0, 1, 20, ""}, {"c", 0, 1, 30, ""},
                                   {"d", 1, 2, 5, ""}, {"e", 2, 1, 1, ""}};
  const JobsReport packed = replay_jobs(jobs, replay_of(2, 2, "fifo", "consolidated"));
  // d waits until b has ended too, at 20; e is behind it and starts with it.
  EXPECT_EQ(packed.queue_mean_s(), (19.0 + 18.0) / 5);
  const JobsReport counted = replay_jobs(jobs, replay_of(2, 2, "fifo", "count"));
  EXPECT_LT(counted.queue_mean_s(), packed.queue_mean_s());
}

TEST(JobReplay, AJobLargerThanTheClusterIsRefused) {
  EXPECT_THROW(replay_jobs({{"a", 0, 17, 1, ""}}, replay_of(2, 8, "fifo", "count")), Error);
  EXPECT_THROW(replay_jobs({{"a", 0, 1, 1, ""}}, replay_of(2, 8, "fifo", "counts")), Error);
  EXPECT_THROW(replay_jobs({{"a", 0, 1, 1, ""}}, replay_of(2, 8, "fifi", "count")), Error);
}

TEST(JobReplay, NoJobsIsAResultTooAndItsMeansAreUnknown) {
  const JobsReport report = replay_jobs({}, replay_of(2, 8, "fifo", "count"));
  EXPECT_EQ(report.jobs_out(), 0u);
  EXPECT_FALSE(report.has_jct_mean_s());
  EXPECT_NE(report_json(report).find("\"jct_mean_s\": null"), std::string::npos);
}

std::vector<TraceJob> random_jobs(std::size_t count) {
  Rng rng(7);
  std::vector<TraceJob> jobs;
  for (std::size_t i = 0; i < count; ++i) {
    jobs.push_back({std::to_string(i), std::int64_t(i / 2), std::uint32_t(1 + rng.below(16)),
                    std::int64_t(1 + rng.below(40)), "pool"});
  }
  return jobs;
}

TEST(JobReplay, RecordedRunReplaysToTheSameDecisions) {
  for (const char* policy : {"fifo", "sjf"}) {
    const std::string path = testing::TempDir() + "orrery_jobs_" + policy + ".log";
    const JobsReport report =
        replay_jobs(random_jobs(300), replay_of(4, 8, policy, "consolidated"), path);
    const ReplayResult again = replay_log(path, {});
    EXPECT_EQ(again.first_difference, "");
    EXPECT_EQ(again.decisions, 300u);
    EXPECT_EQ(again.decision_trace_sha256, report.decision_trace_sha256());
    const ReplayResult other = replay_log(path, {std::string(policy) + ".placement=count"});
    EXPECT_NE(other.first_difference, "");
    std::remove(path.c_str());
  }
}

TEST(JobReplay, EqualRunsGiveEqualBytes) {
  const JobReplay replay = replay_of(4, 8, "sjf", "count");
  EXPECT_EQ(report_json(replay_jobs(random_jobs(200), replay)),
            report_json(replay_jobs(random_jobs(200), replay)));
}

}  // namespace
}  // namespace orrery
