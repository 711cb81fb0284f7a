#include "sim/replay/site_power.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "sim/replay/job_replay.hpp"
#include "tests/sim/logged_job.hpp"
#include "topologies/builder.hpp"

namespace orrery::sim {
namespace {

using test::logged_job;

/// Watts of the host of a node, of an idle H100, and of a working one above idle.
constexpr double kHost = 2800, kIdle = 75, kAbove = 625;

/// Replay of a log on so many nodes of 8 H100, without the site's overhead.
JobReplay replay_on(std::uint32_t nodes, const std::string& policy, const std::string& more = "") {
  JobReplay replay;
  const std::string text = fmt::format(
      "trace: log.csv\npolicy: {}\nplacement: count\nnodes: {}\ngpus_per_node: 8\n"
      "cluster: {{preset: dgx-h100, nodes: {}, price: {{pue: 1.25}}}}\n{}",
      policy, nodes, nodes, more);
  const SourceMap places = load_yaml(text, "r.yaml", replay);
  resolve(*replay.mutable_cluster(), places, "cluster");
  return replay;
}

// ---- independent program --------------------------------------------------------------------

/// Limit of the power in seconds; `until` and `every` are -1 if the limit has none.
struct Limit {
  double share;
  std::int64_t from, until, every;

  bool is_active(double at) const {
    if (at < double(from)) return false;
    double since = at - double(from);
    if (every > 0) since = std::fmod(since, double(every));
    return until < 0 || since < double(until - from);
  }
  std::string text() const {
    std::string out = fmt::format("{{share: {}%, from: {} s", 100 * share, from);
    if (until >= 0) out += fmt::format(", until: {} s", until);
    if (every >= 0) out += fmt::format(", every: {} s", every);
    return out + "}";
  }
};

/// First come, first served under limits of power: lists that are walked from their begin, in
/// seconds. No placement, because fifo by number of GPUs needs none.
struct NaivePower {
  std::vector<TraceJob> jobs;
  double gpus;
  std::vector<Limit> limits;
  std::string spend = {};
  std::int64_t restart = 0;

  std::vector<double> end = {}, ran = {}, since = {}, left = {}, delay = {};
  std::vector<bool> runs = {}, done = {}, arrived = {}, rejected = {}, began = {};
  double now = 0, energy = 0, highest = 0;
  std::uint64_t pauses = 0;

  double full() const { return gpus / 8 * kHost + gpus * (kIdle + kAbove); }
  double base() const { return gpus / 8 * kHost + gpus * kIdle; }
  /// Watts above those of the idle cluster.
  double left_at(double at) const {
    double lowest = full();
    for (const Limit& limit : limits) {
      if (limit.is_active(at)) lowest = std::min(lowest, limit.share * full());
    }
    return std::max(0.0, lowest - base());
  }
  double may(double at) const {
    if (spend == "flat") return gpus;
    const double each = spend == "follow" ? kAbove / 8 : kAbove;
    return std::min(gpus, std::floor(left_at(at) / each + 1e-9));
  }
  double busy() const {
    double sum = 0;
    for (std::size_t j = 0; j < jobs.size(); ++j) sum += runs[j] ? jobs[j].gpus : 0;
    return sum;
  }
  double clock() const {
    if (spend == "flat") {
      double lowest = 1;
      for (const Limit& limit : limits) {
        lowest = std::min(lowest, (limit.share * full() - base()) / gpus / kAbove);
      }
      return std::cbrt(lowest);
    }
    if (spend != "follow" || busy() == 0) return 1;
    return std::min(1.0, std::cbrt(left_at(now) / busy() / kAbove));
  }
  double expected_end(std::size_t j) const {
    const double expected = since[j] + std::max(0.0, double(jobs[j].duration_s) - ran[j]);
    return expected > now ? expected : now + std::max(now - since[j], 1.0);
  }
  /// Whether a job of these GPUs has power from `begin` for so long, second by second.
  bool fits(double need, double begin, double takes, bool alone) const {
    for (double at = begin; at < begin + takes; ++at) {
      double others = 0;
      for (std::size_t j = 0; j < jobs.size() && !alone; ++j) {
        const bool counts = runs[j] && expected_end(j) > at && jobs[j].gpus <= may(at);
        others += counts ? jobs[j].gpus : 0;
      }
      if (need + others > may(at)) return false;
    }
    return true;
  }
  bool must_wait(std::size_t j) const {
    const double takes = std::max(1.0, double(jobs[j].duration_s) - ran[j]);
    if (fits(jobs[j].gpus, now, takes, false)) return false;
    double last = now, longest = 0;
    for (const Limit& limit : limits) {
      last = std::max(last, double(std::max(limit.from, limit.every < 0 ? limit.until : 0)));
      longest = std::max(longest, double(limit.every));
    }
    for (double begin = now; begin <= last + 2 * longest; ++begin) {
      if (fits(jobs[j].gpus, begin, takes, true)) return true;
    }
    return false;
  }
  void stop(std::size_t j) {
    runs[j] = false;
    ran[j] += now - since[j];
  }
  void end_and_submit() {
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      if (runs[j] && left[j] < 1e-7) stop(j), done[j] = true, end[j] = now;
      arrived[j] = arrived[j] || double(jobs[j].submit_s) <= now;
    }
  }
  void pause() {
    while (busy() > may(now)) {
      std::size_t newest = jobs.size();
      for (std::size_t j = 0; j < jobs.size(); ++j) {
        if (runs[j] && (newest == jobs.size() || since[j] >= since[newest])) newest = j;
      }
      stop(newest);
      ++pauses;
    }
  }
  void start() {
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      if (!arrived[j] || runs[j] || done[j] || rejected[j]) continue;
      if (busy() + jobs[j].gpus > may(now)) return;
      if (spend == "wait" && must_wait(j)) return;
      runs[j] = true;
      since[j] = now;
      delay[j] = began[j] ? double(restart) : 0;
      began[j] = true;
    }
  }
  double next() const {
    double at = 1e18;
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      if (!arrived[j]) at = std::min(at, double(jobs[j].submit_s));
      if (runs[j]) at = std::min(at, now + delay[j] + left[j] / clock());
    }
    for (const Limit& limit : limits) {
      const double period = limit.every > 0 ? double(limit.every) : 1e18;
      const double last = std::max(now, double(limit.from)) + 2 * period;
      for (double begin = double(limit.from); begin <= last; begin += period) {
        for (const double edge : {begin, begin + double(limit.until - limit.from)}) {
          if (edge > now + 1e-9 && (limit.until >= 0 || edge == begin)) at = std::min(at, edge);
        }
      }
    }
    return at;
  }
  void pass(double until) {
    const double speed = clock(), working = busy();
    const double watts = 1.25 * (base() + working * kAbove * speed * speed * speed);
    energy += watts * (until - now);
    highest = std::max(highest, watts);
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      if (!runs[j]) continue;
      const double late = std::min(delay[j], until - now);
      delay[j] -= late;
      left[j] -= (until - now - late) * speed;
    }
    now = until;
  }
  bool run() {
    const std::size_t n = jobs.size();
    for (auto* each : {&end, &ran, &since, &delay}) each->assign(n, 0);
    for (auto* each : {&runs, &done, &arrived, &rejected, &began}) each->assign(n, false);
    double most = 0;
    for (int at = 100; at < 1000; ++at) most = std::max(most, may(at));
    for (std::size_t j = 0; j < n; ++j) {
      left.push_back(double(jobs[j].duration_s));
      rejected[j] = jobs[j].gpus > most;
    }
    if (most == 0) return false;
    std::size_t first = 0;
    while (first < n && rejected[first]) ++first;
    if (first == n) return true;
    now = double(jobs[first].submit_s);
    const auto over = [&](std::size_t j) { return done[j] || rejected[j]; };
    for (int events = 0; events < 100'000; ++events) {
      end_and_submit();
      std::size_t left_over = 0;
      for (std::size_t j = 0; j < n; ++j) left_over += over(j) ? 0 : 1;
      if (left_over == 0) break;
      pause();
      start();
      pass(next());
    }
    return true;
  }
};

std::vector<Limit> random_limits() {
  std::vector<Limit> limits;
  const int count = *rc::gen::inRange(1, 4);
  for (int i = 0; i < count; ++i) {
    Limit limit{.share = *rc::gen::element(0.35, 0.42, 0.5, 0.6, 0.7, 0.8, 0.9),
                .from = *rc::gen::inRange(0, 40),
                .until = -1,
                .every = -1};
    const int kind = *rc::gen::inRange(0, 8);
    if (kind > 0) limit.until = limit.from + *rc::gen::inRange(1, 25);
    if (kind > 3) limit.every = limit.until - limit.from + *rc::gen::inRange(5, 25);
    limits.push_back(limit);
  }
  return limits;
}

std::vector<TraceJob> random_log(std::uint32_t gpus) {
  std::vector<TraceJob> jobs;
  std::int64_t now = 0;
  const int count = *rc::gen::inRange(1, 25);
  for (int i = 0; i < count; ++i) {
    now += *rc::gen::inRange(0, 6);
    jobs.push_back(logged_job(std::to_string(i), now, *rc::gen::inRange(1u, gpus + 1),
                              *rc::gen::inRange(1, 40)));
  }
  return jobs;
}

std::string budget_of(const NaivePower& naive) {
  std::vector<std::string> texts;
  for (const Limit& limit : naive.limits) texts.push_back(limit.text());
  return fmt::format("power: {{limits: [{}], spend: {}}}\n", fmt::join(texts, ", "), naive.spend);
}

/// Ends of jobs, their waits, pauses, energy and the highest power are those of the program.
void agrees(NaivePower naive) {
  JobReplay replay = replay_on(std::uint32_t(naive.gpus / 8), "fifo", budget_of(naive));
  replay.mutable_conditions()->set_restart_cost(naive.restart * kNanosPerSecond);
  std::string which = budget_of(naive);
  for (const TraceJob& job : naive.jobs) {
    which += fmt::format("submitted at {} s: {} GPUs for {} s\n", job.submit_s, job.gpus,
                         job.duration_s);
  }
  JobTables tables{.has_texts = false};
  JobsReport report;
  const bool possible = naive.run();
  try {
    report = replay_jobs(naive.jobs, replay, "", &tables);
  } catch (const Error& error) {
    const bool too_low = naive.spend == "flat" && naive.clock() < 0.5;
    EXPECT_TRUE(!possible || too_low) << which << error.what();
    return;
  }
  ASSERT_TRUE(possible) << which;
  double span = 0;
  for (std::size_t j = 0; j < naive.jobs.size(); ++j) {
    const Nanos end = tables.outcomes.ends[j], wait = tables.outcomes.waits[j];
    if (naive.rejected[j]) {
      EXPECT_EQ(end, -1) << which << "job " << j;
      continue;
    }
    EXPECT_NEAR(to_seconds(end), naive.end[j], 1e-5) << which << "job " << j;
    EXPECT_NEAR(to_seconds(wait), naive.end[j] - double(naive.jobs[j].submit_s) - naive.ran[j],
                1e-5)
        << which << "job " << j;
    span = std::max(span, naive.end[j]);
  }
  if (span == 0) return;
  const JobsPower& power = report.power();
  EXPECT_EQ(power.pauses(), naive.pauses) << which;
  EXPECT_NEAR(power.energy_j(), naive.energy, 1e-6 * naive.energy) << which;
  EXPECT_NEAR(power.highest_w(), naive.highest, 1e-6 * naive.highest) << which;
}

RC_GTEST_PROP(SitePower, JobsUnderLimitsAgreeWithANaiveProgram, ()) {
  const std::uint32_t nodes = *rc::gen::inRange(1u, 4u);
  NaivePower naive{.jobs = random_log(8 * nodes), .gpus = 8.0 * nodes, .limits = random_limits()};
  // Where limits overlap, a gap between them may be shorter than a restart.
  if (naive.limits.size() == 1) naive.restart = *rc::gen::inRange(0, 4);
  for (const char* const spend : {"follow", "flat", "pause", "wait"}) {
    naive.spend = spend;
    agrees(naive);
  }
  RC_ASSERT(!testing::Test::HasFailure());
}

/// Logs and limits on which the random test above has failed.
TEST(SitePower, AJobRunsInTheFirstGapBetweenLimitsOfDifferentPeriods) {
  NaivePower naive{.jobs = {logged_job("0", 2, 4, 3)},
                   .gpus = 8,
                   .limits = {{0.7, 15, 32, 34}, {0.42, 5, 23, 24}, {0.5, 3, 19, 30}}};
  for (const char* const spend : {"pause", "wait"}) {
    naive.spend = spend;
    agrees(naive);
  }
}

TEST(SitePower, JobsThatEndAtOneInstantDrawNoPowerBesideThoseThatFollow) {
  constexpr std::int64_t kJobs[][3] = {  // submitted, GPUs, seconds
      {1, 7, 19}, {1, 4, 11}, {4, 2, 24}, {6, 1, 15}, {6, 3, 26}, {7, 4, 23}, {9, 10, 11},
      {10, 3, 27}, {11, 6, 21}, {11, 4, 13}, {12, 4, 28}, {16, 9, 22}, {17, 4, 21}, {21, 6, 28},
      {23, 12, 8}};
  NaivePower naive{.jobs = {}, .gpus = 16, .limits = {{0.7, 19, 22, -1}}, .spend = "follow"};
  for (const auto& [submitted, gpus, seconds] : kJobs) {
    naive.jobs.push_back(logged_job(std::to_string(naive.jobs.size()), submitted,
                                    static_cast<std::uint32_t>(gpus), seconds));
  }
  agrees(naive);
}

// ---- properties of all policies -------------------------------------------------------------

const std::vector<std::string> kQueues{
    "fifo",    "fifo-skip",   "sjf",      "easy",    "conservative",         "srtf",
    "srsf",    "las",         "priority", "gittins", "finish-time-fairness", "drf",
    "max-min", "multifactor", "elastic"};

/// The power of the cluster stays within the limits, whatever the policy starts, and all jobs end.
RC_GTEST_PROP(SitePower, NoPolicyExceedsALimit, ()) {
  const std::uint32_t nodes = *rc::gen::inRange(1u, 4u);
  NaivePower of{.jobs = random_log(8 * nodes), .gpus = 8.0 * nodes, .limits = random_limits()};
  for (Limit& limit : of.limits) limit.share = std::max(limit.share, 0.5);
  for (TraceJob& job : of.jobs) {
    if (*rc::gen::inRange(0, 4) == 0) job.sizes = fmt::format("1 {}", 8 * nodes);
  }
  const auto estimates = *rc::gen::element<std::string>("recorded", "learned", "disturbed");
  ReplayConditions conditions;
  if (*rc::gen::arbitrary<bool>()) {
    conditions.set_failures(*rc::gen::inRange(1, 100'000));
    conditions.set_repair(*rc::gen::inRange(1, 10) * kNanosPerSecond);
  }
  for (const std::string& policy : kQueues) {
    for (const char* const spend : {"follow", "flat", "pause", "wait"}) {
      of.spend = spend;
      JobReplay replay = replay_on(nodes, policy, budget_of(of));
      replay.set_placement(*rc::gen::element<std::string>("count", "consolidated"));
      *replay.mutable_conditions() = conditions;
      replay.set_estimates(estimates);
      if (of.spend == "wait" && policy != "fifo" && policy != "fifo-skip" && policy != "sjf" &&
          policy != "easy" && policy != "conservative") {
        EXPECT_THROW(replay_jobs(of.jobs, replay), Error) << policy;
        continue;
      }
      const JobsReport report = replay_jobs(of.jobs, replay);
      const std::string which = policy + ", " + budget_of(of);
      EXPECT_EQ(report.jobs_out(), of.jobs.size()) << which;
      EXPECT_EQ(report.power().over_s(), 0) << which;
      if (of.spend != "flat") continue;
      EXPECT_EQ(report.power().pauses(), 0u) << which;
    }
  }
  RC_ASSERT(!testing::Test::HasFailure());
}

/// No job pauses that could have waited, if estimates are exact.
RC_GTEST_PROP(SitePower, JobsThatWaitAreNotPaused, ()) {
  const std::uint32_t nodes = *rc::gen::inRange(1u, 4u);
  NaivePower of{.jobs = random_log(8 * nodes), .gpus = 8.0 * nodes, .limits = random_limits()};
  of.spend = "wait";
  double least = of.gpus;
  for (Limit& limit : of.limits) {
    limit.share = std::max(limit.share, 0.6);
    least = std::min(least, std::floor((limit.share * of.full() - of.base()) / kAbove));
  }
  for (TraceJob& job : of.jobs) job.gpus = std::min(job.gpus, std::uint32_t(least));
  for (const char* const policy : {"fifo", "fifo-skip", "sjf", "easy", "conservative"}) {
    const JobsReport report = replay_jobs(of.jobs, replay_on(nodes, policy, budget_of(of)));
    EXPECT_EQ(report.jobs_completed(), of.jobs.size()) << policy << budget_of(of);
    EXPECT_EQ(report.power().pauses(), 0u) << policy << budget_of(of);
  }
  RC_ASSERT(!testing::Test::HasFailure());
}

// ---- by hand --------------------------------------------------------------------------------

constexpr const char* kByDay = "limits: [{share: 80%, from: 100 s, until: 200 s, every: 200 s}]";

/// 8.4 kW x 80% less 2.8 kW and 0.6 kW leave 3.32 kW: five GPUs, or eight at 87% of the clock.
TEST(SitePower, ALimitIsANumberOfGpusOrAClock) {
  const std::vector<TraceJob> jobs{logged_job("a", 0, 5, 150), logged_job("b", 1, 3, 150)};
  const auto ends = [&](const std::string& spend) {
    JobTables tables{.has_texts = false};
    replay_jobs(jobs,
                replay_on(1, "fifo", fmt::format("power: {{{}, spend: {}}}\n", kByDay, spend)), "",
                &tables);
    return std::vector{to_seconds(tables.outcomes.ends[0]), to_seconds(tables.outcomes.ends[1])};
  };
  EXPECT_EQ(ends("pause"), (std::vector{150.0, 201.0})) << "b pauses until a has ended";
  EXPECT_EQ(ends("wait"), (std::vector{150.0, 300.0})) << "b begins when a has ended";
  const double clock = std::cbrt(3320.0 / 5000);
  EXPECT_NEAR(ends("follow")[0], 100 + 50 / clock, 1e-6);
  EXPECT_NEAR(ends("follow")[1], 100 + 50 / clock + 1, 1e-6) << "alone it has its full clock";
  EXPECT_NEAR(ends("flat")[0], 150 / clock, 1e-6);
  EXPECT_NEAR(ends("flat")[1], 1 + 150 / clock, 1e-6);
}

TEST(SitePower, EnergyHasThePriceOfItsHour) {
  JobReplay replay = replay_on(1, "fifo");
  Topology& cluster = *replay.mutable_cluster();
  for (const double usd : {0.1, 0.2}) cluster.mutable_price()->add_electricity_by_hour(usd);
  const JobsReport report =
      replay_jobs({logged_job("a", 0, 8, 3600), logged_job("b", 3600, 4, 3600)}, replay);
  const double first = 1.25 * 8.4, second = 1.25 * (2.8 + 0.6 + 4 * 0.625);
  EXPECT_NEAR(report.power().energy_j(), 3.6e6 * (first + second), 1);
  EXPECT_NEAR(report.power().electricity_usd(), 0.1 * first + 0.2 * second, 1e-9);
  EXPECT_NEAR(report.power().highest_w(), 1000 * first, 1e-6);
  EXPECT_FALSE(report.power().has_over_s()) << "no budget";
}

/// A limit below the power of the idle cluster stops all jobs, and is exceeded nevertheless.
TEST(SitePower, TheTimeAboveALimitIsCounted) {
  const JobsReport report = replay_jobs(
      {logged_job("a", 0, 8, 100)},
      replay_on(1, "fifo",
                "power: {limits: [{share: 30%, from: 50 s, until: 70 s}], spend: pause}\n"));
  EXPECT_EQ(report.power().over_s(), 20);
  EXPECT_EQ(report.power().pauses(), 1u);
  EXPECT_EQ(report.makespan_s(), 120);
}

std::string refusal_of(const JobReplay& replay, std::vector<TraceJob> jobs = {}) {
  if (jobs.empty()) jobs.push_back(logged_job("a", 0, 1, 10));
  try {
    replay_jobs(std::move(jobs), replay);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(SitePower, BudgetsThatCannotBeKeptAreRefused) {
  const std::string by_day = fmt::format("power: {{{}}}\n", kByDay);
  JobReplay size_only = replay_on(1, "fifo", by_day);
  size_only.clear_cluster();
  expect_part(refusal_of(size_only), "--cluster C.yaml");
  JobReplay no_limits = replay_on(1, "fifo");
  no_limits.mutable_power()->set_spend("pause");
  expect_part(refusal_of(no_limits), "expected the key 'limits'");
  JobReplay wait = replay_on(1, "srtf", by_day);
  wait.mutable_power()->set_spend("wait");
  expect_part(refusal_of(wait), "(conservative, easy, fifo, fifo-skip, sjf), found 'srtf'");
  const auto limits = [](const std::string& text) {
    return replay_on(1, "fifo", "power: {limits: [" + text + "], spend: pause}\n");
  };
  expect_part(refusal_of(limits("{share: 45%}")), "expected power for a GPU at some time");
  expect_part(refusal_of(limits("{share: 80%, from: 9 s, until: 8 s}")), "power.limits[0]");
  JobReplay flat = limits("{share: 45%, from: 1 s, until: 2 s}");
  flat.mutable_power()->set_spend("flat");
  expect_part(refusal_of(flat), "expected a flat cap with at least 0.5 of the clock");
  JobReplay parts = replay_on(1, "fifo", by_day);
  TraceJob part = logged_job("a", 0, 1, 10);
  part.milli = 500;
  expect_part(refusal_of(parts, {part}), "--set gpu_slices=1");
  JobReplay costly = replay_on(1, "fifo",
                               "power: {limits: [{share: 42%, from: 10 s, until: 20 s, "
                               "every: 20 s}], spend: pause}\n");
  costly.mutable_conditions()->set_restart_cost(10 * kNanosPerSecond);
  expect_part(refusal_of(costly, {logged_job("a", 0, 8, 100)}), "conditions.restart_cost");
}

}  // namespace
}  // namespace orrery::sim
