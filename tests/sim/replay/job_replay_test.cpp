#include "sim/replay/job_replay.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/error.hpp"
#include "policies/run/replay.hpp"
#include "tests/policies/temp_dir.hpp"
#include "tests/sim/logged_job.hpp"
#include "tests/sim/naive_queue.hpp"
#include "traces/jobs/job_dependencies.hpp"
#include "traces/report/report.hpp"

namespace orrery::sim {
namespace {

using test::logged_job;

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

// ---- held against an independent program ---------------------------------------------------

const std::vector<std::string> kQueues{
    "fifo",   "fifo-skip", "sjf",      "easy",    "conservative",         "srtf",
    "srsf",   "las",       "priority", "gittins", "finish-time-fairness", "drf",
    "max-min", "multifactor", "elastic"};

void agrees(const std::vector<TraceJob>& jobs, std::uint32_t nodes, std::uint32_t size,
            const std::string& policy, bool consolidated) {
  NaiveQueue naive{
      .jobs = jobs, .nodes = nodes, .size = size, .policy = policy, .consolidated = consolidated};
  naive.run();
  double completed = 0, waited = 0;
  std::int64_t last = 0;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    completed += double(naive.end[j] - jobs[j].submit_s);
    waited += double(naive.end[j] - jobs[j].submit_s - jobs[j].duration_s);
    last = std::max(last, naive.end[j]);
  }
  const JobsReport report =
      replay_jobs(jobs, replay_of(nodes, size, policy, consolidated ? "consolidated" : "count"));
  const auto count = double(jobs.size());
  const std::string which = policy + (consolidated ? ", consolidated" : ", count");
  EXPECT_EQ(report.jobs_in(), jobs.size()) << which;
  EXPECT_EQ(report.jobs_completed(), jobs.size()) << which;
  EXPECT_DOUBLE_EQ(report.jct_mean_s(), completed / count) << which;
  EXPECT_DOUBLE_EQ(report.queue_mean_s(), waited / count) << which;
  EXPECT_EQ(report.makespan_s(), double(last - jobs.front().submit_s)) << which;
  EXPECT_EQ(report.preemptions(), naive.preemptions) << which;
  EXPECT_EQ(report.decisions(), jobs.size() + 2 * naive.preemptions) << which;
}

RC_GTEST_PROP(JobReplay, AgreesWithANaiveProgram, ()) {
  const std::uint32_t nodes = *rc::gen::inRange(1u, 5u);
  const std::uint32_t size = *rc::gen::element(2u, 4u, 8u);
  const std::size_t count = *rc::gen::inRange<std::size_t>(1, 60);
  // Long ones, so that jobs of several GPUs have had 18,000 GPU-seconds before they end.
  const std::int64_t scale = *rc::gen::element(1, 1000);
  std::vector<TraceJob> jobs;
  std::int64_t now = 0;
  for (std::size_t i = 0; i < count; ++i) {
    now += *rc::gen::inRange(0, 4) * scale;  // many arrivals and ends at one instant
    jobs.push_back({.id = std::to_string(i),
                    .gpus = *rc::gen::inRange(1u, nodes * size + 1),
                    .submit_s = now,
                    .duration_s = *rc::gen::inRange(0, 12) * scale,
                    .pool = *rc::gen::element<std::string>("a", "b", "c"),
                    .priority = *rc::gen::inRange(-1, 2)});
  }
  for (const std::string& policy : kQueues) {
    if (policy == "conservative" && scale > 1) continue;  // the naive one goes second by second
    for (const bool consolidated : {false, true}) agrees(jobs, nodes, size, policy, consolidated);
  }
  RC_ASSERT(!testing::Test::HasFailure());
}

/// Start and end of each job, from the table of jobs.
std::vector<std::pair<std::int64_t, std::int64_t>> starts_and_ends(const JobTables& tables) {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  std::size_t at = tables.jobs.find('\n') + 1;
  for (std::size_t stop; (stop = tables.jobs.find('\n', at)) != std::string::npos; at = stop + 1) {
    std::size_t field = at;
    for (int i = 0; i < 6; ++i) field = tables.jobs.find(',', field) + 1;
    out.emplace_back(std::stoll(tables.jobs.substr(field)),
                     std::stoll(tables.jobs.substr(tables.jobs.find(',', field) + 1)));
  }
  return out;
}

/// Jobs that wait for others run as jobs that are submitted when the others have ended. A job of no
/// duration would end in the instant in which it begins, after the pass of its instant.
RC_GTEST_PROP(JobReplay, DependentJobsRunAsJobsThatAreSubmittedLater, ()) {
  std::vector<TraceJob> jobs;
  const int count = *rc::gen::inRange(1, 40);
  for (int i = 0; i < count; ++i) {
    jobs.push_back(logged_job(std::to_string(i), *rc::gen::inRange(0, 60),
                              *rc::gen::inRange(1u, 9u), *rc::gen::inRange(1, 12)));
    std::string after;
    for (int first = *rc::gen::inRange(0, 3); first > 0 && i > 0; --first) {
      after += std::to_string(*rc::gen::inRange(0, i)) + " ";
    }
    jobs.back().after = after;
  }
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const auto& a, const auto& b) { return a.submit_s < b.submit_s; });
  for (const char* const policy : {"fifo", "easy", "srtf", "las"}) {
    JobTables tables;
    const JobReplay replay = replay_of(1, 8, policy, "count");
    const JobsReport report = replay_jobs(jobs, replay, "", &tables);
    EXPECT_EQ(report.jobs_completed(), jobs.size()) << policy;
    const auto held = starts_and_ends(tables);
    std::vector<TraceJob> later = jobs;
    for (const auto& [row, first] : job_dependencies(jobs).after) {
      for (const std::size_t before : first) {
        later[row].submit_s = std::max<std::int64_t>(later[row].submit_s, held[before].second);
      }
    }
    for (TraceJob& job : later) job.after = {};
    const JobsReport of_later = replay_jobs(later, replay, "", &tables);
    EXPECT_EQ(starts_and_ends(tables), held) << policy;
    EXPECT_DOUBLE_EQ(of_later.jct_mean_s(), report.jct_mean_s()) << policy;
    EXPECT_DOUBLE_EQ(of_later.queue_mean_s(), report.queue_mean_s()) << policy;
  }
  RC_ASSERT(!testing::Test::HasFailure());
}

/// Mean completion, makespan, preemptions, jobs struck.
using Figures = std::tuple<double, double, std::uint64_t, std::uint64_t>;

Figures naively(NaiveQueue naive) {
  naive.run();
  double completed = 0;
  std::int64_t last = 0;
  for (std::size_t j = 0; j < naive.jobs.size(); ++j) {
    completed += double(naive.end[j] - naive.jobs[j].submit_s);
    last = std::max(last, naive.end[j]);
  }
  return {completed / double(naive.jobs.size()), double(last - naive.jobs.front().submit_s),
          naive.preemptions, naive.struck};
}

Figures replayed(const NaiveQueue& naive, const ReplayConditions& conditions) {
  JobReplay replay = replay_of(std::uint32_t(naive.nodes), std::uint32_t(naive.size), naive.policy,
                               naive.consolidated ? "consolidated" : "count");
  *replay.mutable_conditions() = conditions;
  const JobsReport report = replay_jobs(naive.jobs, replay);
  return {report.jct_mean_s(), report.makespan_s(), report.preemptions(), report.jobs_struck()};
}

RC_GTEST_PROP(JobReplay, AgreesWithANaiveProgramWhereNodesFailAndRestartsCost, ()) {
  NaiveQueue naive{.jobs = {},
                   .nodes = *rc::gen::inRange(1u, 5u),
                   .size = 4,
                   .policy = "",
                   .consolidated = *rc::gen::arbitrary<bool>()};
  const std::int64_t scale = *rc::gen::element(1, 500);
  const std::int64_t count = *rc::gen::inRange(1, 40), outages = *rc::gen::inRange(0, 6);
  for (std::int64_t i = 0; i < count; ++i) {
    naive.jobs.push_back({.id = std::to_string(i),
                          .gpus = *rc::gen::inRange(1u, std::uint32_t(naive.nodes) * 4 + 1),
                          .submit_s = i * scale,
                          .duration_s = *rc::gen::inRange(0, 12) * scale,
                          .pool = "a",
                          .priority = *rc::gen::inRange(-1, 2)});
  }
  std::string csv = "node,begin_s,end_s,cause\n";
  for (std::int64_t i = 0; i < outages; ++i) {
    const std::int64_t begin = *rc::gen::inRange(0, 60) * scale;
    naive.downs.push_back({*rc::gen::inRange<std::size_t>(0, naive.nodes), begin,
                           begin + *rc::gen::inRange(1, 20) * scale, *rc::gen::arbitrary<bool>()});
    const NaiveQueue::Down& down = naive.downs.back();
    csv += std::to_string(down.node) + "," + std::to_string(down.begin) + "," +
           std::to_string(down.end) + (down.planned ? ",maintenance\n" : ",disk\n");
  }
  naive.restart = *rc::gen::inRange(0, 4);
  naive.checkpoint = *rc::gen::element(0, 1, 7, 1000);
  const toy::TempDir folder;
  const std::string path = folder / "outages.csv";
  std::ofstream(path) << csv;
  ReplayConditions conditions;
  conditions.set_outages(path);
  conditions.set_restart_cost(naive.restart * kNanosPerSecond);
  if (naive.checkpoint > 0) conditions.set_checkpoint_every(naive.checkpoint * kNanosPerSecond);
  RC_LOG() << naive.nodes << " nodes, consolidated " << naive.consolidated << ", restart "
           << naive.restart << ", checkpoint " << naive.checkpoint << "\n"
           << csv << job_trace_csv(naive.jobs);
  // Policies without estimates: the remaining time of a job is unknown to them.
  for (const std::string policy : {"fifo", "fifo-skip", "sjf", "las", "priority"}) {
    naive.policy = policy;
    RC_LOG() << policy << "\n";
    RC_ASSERT(replayed(naive, conditions) == naively(naive));
  }
  std::remove(path.c_str());
}

/// The reference of the semantics agrees with others' simulators on these logs.
TEST(JobReplay, AgreesWithANaiveProgramOnRecordedJobs) {
  const std::string small = shared_trace("philly_small.csv"), mid = shared_trace("philly_mid.csv");
  if (small.empty() || mid.empty()) GTEST_SKIP() << "philly_*.csv are not here: set ORRERY_DATA";
  for (const std::string& policy : kQueues) {
    if (policy == "conservative" || policy == "gittins") continue;  // take minutes
    for (const bool consolidated : {false, true}) {
      agrees(load_job_trace(small), 3, 8, policy, consolidated);
      agrees(load_job_trace(mid), 20, 8, policy, consolidated);
    }
  }
}

// ---- by hand ------------------------------------------------------------------------------

TEST(JobReplay, FragmentationBlocksTheHeadOfTheLine) {
  // Two nodes of two. Two single jobs fill one node (best fit); a third takes half of the other.
  // A two-GPU job fits by count only when the node is whole again.
  const std::vector<TraceJob> jobs{logged_job("a", 0, 1, 10), logged_job("b", 0, 1, 20),
                                   logged_job("c", 0, 1, 30), logged_job("d", 1, 2, 5),
                                   logged_job("e", 2, 1, 1)};
  const JobsReport packed = replay_jobs(jobs, replay_of(2, 2, "fifo", "consolidated"));
  // d waits until b has ended too, at 20; e is behind it and starts with it.
  EXPECT_EQ(packed.queue_mean_s(), (19.0 + 18.0) / 5);
  const JobsReport counted = replay_jobs(jobs, replay_of(2, 2, "fifo", "count"));
  EXPECT_LT(counted.queue_mean_s(), packed.queue_mean_s());
}

/// Order of the starts of jobs b and c, which wait for job a of the virtual cluster "used".
bool later_cluster_goes_first(const std::string& setting) {
  const std::vector<TraceJob> jobs{logged_job("a", 0, 8, 3600, "used"),
                                   logged_job("b", 1, 8, 10, "used"),
                                   logged_job("c", 2, 8, 10, "idle")};
  JobReplay replay = replay_of(1, 8, "multifactor", "count");
  if (!setting.empty()) replay.add_set(setting);
  JobTables tables;
  replay_jobs(jobs, replay, "", &tables);
  const auto times = starts_and_ends(tables);
  return times[2].first < times[1].first;
}

TEST(JobReplay, TheVirtualClusterThatHasUsedLessGoesFirst) {
  EXPECT_TRUE(later_cluster_goes_first(""));
  EXPECT_FALSE(later_cluster_goes_first("multifactor.fair_share_weight=0")) << "only age is left";
  EXPECT_FALSE(later_cluster_goes_first("multifactor.shares=[{vc: idle, shares: 0}]"));
  EXPECT_TRUE(later_cluster_goes_first("multifactor.shares=[{vc: used, shares: 100}]"))
      << "2^(-101/100) is less than 1, whatever the shares";
}

/// An hour of use counts half after a half-life: the other cluster's later minute then counts more.
TEST(JobReplay, UsedTimeIsForgotten) {
  std::vector<TraceJob> jobs{logged_job("a", 0, 8, 3600, "old"),
                             logged_job("b", 360000, 8, 60, "new"),
                             logged_job("c", 360001, 8, 10, "new"),
                             logged_job("d", 360002, 8, 10, "old")};
  for (const bool forgets : {false, true}) {
    JobReplay replay = replay_of(1, 8, "multifactor", "count");
    replay.add_set(forgets ? "multifactor.half_life=1h" : "multifactor.half_life=100d");
    JobTables tables;
    replay_jobs(jobs, replay, "", &tables);
    const auto times = starts_and_ends(tables);
    EXPECT_EQ(times[3].first < times[2].first, forgets);
  }
}

TEST(JobReplay, AJobLargerThanTheClusterIsRejectedAndTheOthersRun) {
  std::vector<TraceJob> jobs{logged_job("a", 0, 1, 10), logged_job("b", 1, 17, 5),
                             logged_job("c", 2, 16, 1)};
  jobs[1].line = 3;
  for (const std::string& policy : kQueues) {
    const JobsReport report = replay_jobs(jobs, replay_of(2, 8, policy, "count"));
    EXPECT_EQ(report.jobs_in(), 3u);
    EXPECT_EQ(report.jobs_out(), 3u);
    EXPECT_EQ(report.jobs_completed(), 2u);
    EXPECT_EQ(report.jobs_rejected(), 1u);
    ASSERT_EQ(report.rejected_size(), 1);
    EXPECT_EQ(report.rejected(0).line(), 3u);
    EXPECT_EQ(report.rejected(0).job_id(), "b");
    EXPECT_EQ(report.rejected(0).reason(), "needs 17 GPUs, there are 16");
  }
}

TEST(JobReplay, UnknownNamesAreRefused) {
  const TraceJob job = logged_job("a", 0, 1, 1);
  EXPECT_THROW(replay_jobs({job}, replay_of(2, 8, "fifo", "counts")), Error);
  EXPECT_THROW(replay_jobs({job}, replay_of(2, 8, "fifi", "count")), Error);
  JobReplay replay = replay_of(2, 8, "sjf", "count");
  replay.set_estimates("lerned");
  EXPECT_THROW(replay_jobs({job}, replay), Error);
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
    const auto gpus = std::uint32_t(1 + rng.below(16));
    jobs.push_back(
        logged_job(std::to_string(i), std::int64_t(i / 2), gpus, std::int64_t(1 + rng.below(40))));
    jobs.back().pool = "pool";
  }
  return jobs;
}

TEST(JobReplay, RecordedRunReplaysToTheSameDecisions) {
  for (const std::string& policy : kQueues) {
    const std::string path = testing::TempDir() + "orrery_jobs_" + policy + ".log";
    const JobsReport report =
        replay_jobs(random_jobs(300), replay_of(4, 8, policy, "consolidated"), path);
    const ReplayResult again = replay_log(path, {});
    EXPECT_EQ(again.first_difference, "");
    EXPECT_EQ(again.decisions, report.decisions());
    EXPECT_EQ(report.jobs_completed(), 300u);
    EXPECT_EQ(again.decision_trace_sha256, report.decision_trace_sha256());
    const ReplayResult other = replay_log(path, {policy + ".placement=count"});
    EXPECT_NE(other.first_difference, "");
    std::remove(path.c_str());
  }
}

TEST(JobReplay, UnderEveryPolicyAllJobsEndWhereNodesFailAllTheTime) {
  for (const std::string& policy : kQueues) {
    const std::string path = testing::TempDir() + "orrery_jobs_" + policy + "_fails.log";
    JobReplay replay = replay_of(4, 8, policy, "consolidated");
    ReplayConditions& conditions = *replay.mutable_conditions();
    conditions.set_failures(1e6);  // rate per thousand in a day: one of the four every 22 s
    conditions.set_repair(15 * kNanosPerSecond);
    conditions.set_restart_cost(2 * kNanosPerSecond);
    conditions.set_checkpoint_every(5 * kNanosPerSecond);
    const JobsReport report = replay_jobs(random_jobs(300), replay, path);
    EXPECT_EQ(report.jobs_completed(), 300u) << policy;
    EXPECT_GT(report.jobs_struck(), 20u) << policy;
    EXPECT_GT(report.lost_gpu_hours(), 0) << policy;
    EXPECT_EQ(replay_log(path, {}).first_difference, "") << policy;
    std::remove(path.c_str());
  }
}

TEST(JobReplay, WhereNobodyIsEverPlacedFailuresDoNotGoOnForEver) {
  JobReplay replay = replay_of(4, 8, "static", "count");
  replay.mutable_conditions()->set_failures(1e6);
  EXPECT_EQ(replay_jobs(random_jobs(5), replay).jobs_completed(), 0u);
}

TEST(JobReplay, EqualRunsGiveEqualBytes) {
  const JobReplay replay = replay_of(4, 8, "sjf", "count");
  EXPECT_EQ(report_json(replay_jobs(random_jobs(200), replay)),
            report_json(replay_jobs(random_jobs(200), replay)));
}

}  // namespace
}  // namespace orrery::sim
