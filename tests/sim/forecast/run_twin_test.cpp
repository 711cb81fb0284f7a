// A twin of a training run beside the log of a simulated one: its forecasts, their score, the cost
// of a lost node and the alternatives.
#include "sim/forecast/run_twin.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "policies/record/past.hpp"
#include "policies/run/worker.hpp"
#include "tests/policies/temp_dir.hpp"
#include "topologies/builder.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::sim {
namespace {

const std::string kSim = ORRERY_BINARY_DIR "/bin/orrery-sim";

class RunTwinTest : public testing::Test {
 protected:
  void record(const std::string& file, const std::vector<std::string>& overrides) {
    RunRequest request;
    *request.mutable_scenario() =
        load_scenario(ORRERY_SOURCE_DIR "/examples/" + file, overrides).scenario;
    request.set_record(log_);
    report_ = run_in_worker(kSim, request);
    cluster_.emplace(
        build_cluster(log_header(log_).scenario().cluster(), SourceMap{}, "cluster"));
  }
  RunTwin twin(RunTwin::Options options) {
    options.samples = 6;
    return {log_header(log_).scenario(), *cluster_,
            [](const RunRequest& request) { return run_futures(kSim, request); },
            std::move(options)};
  }
  RunCourse course(double until_s) const {
    return RunCourseReader(log_, *cluster_).course_at(to_nanos(until_s));
  }
  void forecast(RunTwin& twin, double at_s) const {
    twin.resolve_forecasts(course(at_s));
    twin.forecast_run(log_, course(at_s));
  }

  const toy::TempDir dir_;
  const std::string log_ = dir_ / "log";
  Report report_;
  std::optional<Cluster> cluster_;
};

TEST_F(RunTwinTest, TheCourseHasEachStepTheLossesAndTheEnd) {
  record("kill-one-rank.yaml", {});
  const double end_s = to_seconds(*course(1e6).ended);
  const RunCourse all = course(1e6);
  ASSERT_EQ(all.commits.size(), 30u);
  EXPECT_EQ(all.commits.back().step, 29u);
  EXPECT_NEAR(end_s, report_.elapsed_s(), 0.1);
  EXPECT_EQ(all.losses, 1u);
  EXPECT_FALSE(all.commits[5].calm);
  EXPECT_TRUE(all.commits[3].calm);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(to_seconds(all.commits[i].length), report_.step_times_s(static_cast<int>(i)), 1e-6);
  }
  EXPECT_FALSE(course(end_s / 2).ended);
  EXPECT_LT(course(end_s / 2).commits.size(), 30u);
  EXPECT_EQ(read_tail(log_).newest, all.now);
  EXPECT_TRUE(read_tail(log_).is_complete);
}

/// A log that grows byte by byte gives the same courses as the complete log, and no call counts
/// before it is complete.
TEST_F(RunTwinTest, TheCourseOfAGrowingLogIsThatOfTheWholeLog) {
  record("kill-one-rank.yaml", {});
  std::ifstream file(log_, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  LogReader log(log_);
  read_header(log);
  const std::size_t begin = log.bytes().size() + 4;  // the length of a record has up to four bytes
  const std::string growing = dir_ / "growing";
  std::ofstream(growing, std::ios::binary) << bytes.substr(0, begin);
  RunCourseReader reader(growing, *cluster_);
  std::ofstream out(growing, std::ios::binary | std::ios::app);
  Nanos next = kNanosPerSecond;
  std::size_t courses = 0;
  for (std::size_t written = begin; written <= bytes.size(); ++written) {
    for (; reader.has_call_after(next); next += kNanosPerSecond / 2, ++courses) {
      const RunCourse& here = reader.course_at(next);
      const RunCourse whole = course(to_seconds(next));
      ASSERT_EQ(here.now, whole.now);
      ASSERT_EQ(here.commits.size(), whole.commits.size());
      ASSERT_EQ(here.losses, whole.losses);
      ASSERT_EQ(here.slow, whole.slow);
    }
    if (written < bytes.size()) out << bytes[written] << std::flush;
  }
  EXPECT_GT(courses, 5u);
  EXPECT_TRUE(reader.is_complete());
  EXPECT_EQ(reader.course_at(kNever).ended, course(1e6).ended);
}

TEST_F(RunTwinTest, ARunWithoutSurprisesEndsWhenForecast) {
  record("straggler-4-ranks.yaml", {"faults=[]"});
  std::vector<KnownForecast> known;
  RunTwin twin =
      this->twin({.at_known = [&](const KnownForecast& each) { known.push_back(each); }});
  for (const double at_s : {2.1, 4.1, 6.1, 8.1}) forecast(twin, at_s);
  twin.resolve_forecasts(course(1e6));
  const RunTwinReport report = twin.report();
  EXPECT_EQ(report.forecasts, 4u);
  EXPECT_EQ(report.next_steps, 4u);
  EXPECT_LT(report.next_step_error, 0.03);
  ASSERT_FALSE(report.ends.empty());
  EXPECT_EQ(report.ends.back().forecasts, 4u);
  EXPECT_LT(report.ends.back().median_error_s, 0.4);
  EXPECT_EQ(known.size(), 12u);  // next step, tenth step, end
  EXPECT_EQ(report.newest.policies.size(), 1u);
}

TEST_F(RunTwinTest, TheRunsOwnFaultsAreNotKnownBeforehand) {
  record("straggler-4-ranks.yaml", {"faults[0].at_step=20"});
  RunTwin twin = this->twin({});
  forecast(twin, 4.1);
  EXPECT_LT(to_seconds(twin.report().newest.policies[0].end.median), report_.elapsed_s() - 1);
}

TEST_F(RunTwinTest, ASlowRankStaysSlowInTheFutures) {
  record("straggler-4-ranks.yaml", {});
  const double after_s = report_.step_times_s(0) * 10 + 4;
  ASSERT_TRUE(course(after_s).slow.contains(2));
  EXPECT_NEAR(course(after_s).slow.at(2), 3, 0.3);
  RunTwin twin = this->twin({});
  forecast(twin, after_s);
  EXPECT_NEAR(to_seconds(twin.report().newest.policies[0].end.median), report_.elapsed_s(), 0.5);
}

TEST_F(RunTwinTest, LossesOfNodesCostTimeUnderEachPolicy) {
  record("kill-one-rank.yaml", {"cluster.nodes=4", "cluster.node.gpus_per_node=1",
                                "cluster.node.nics_per_node=1"});
  RunTwin twin = this->twin({.policies = {"static"}});
  forecast(twin, 3.5);
  const auto& policies = twin.report().newest.policies;
  ASSERT_EQ(policies.size(), 2u);
  EXPECT_EQ(policies[0].policy, "recover");
  EXPECT_EQ(policies[0].survived, 1);
  EXPECT_GT(policies[0].node_cost_s, 0.05);
  EXPECT_LT(policies[0].node_cost_s, 5);
}

TEST_F(RunTwinTest, LossesSeenMakeLaterForecastsLongerAndWider) {
  record("kill-one-rank.yaml", {});
  RunTwin calm = this->twin({}), warned = this->twin({});
  RunCourse now = course(3.5);
  ASSERT_EQ(now.losses, 1u);
  now.losses = 0;
  calm.forecast_run(log_, now);
  now.losses = 3;
  warned.forecast_run(log_, now);
  const InstantForecast without = calm.report().newest.policies[0].end;
  const InstantForecast with = warned.report().newest.policies[0].end;
  EXPECT_GT(with.median, without.median);
  EXPECT_GT(with.high80 - with.low80, without.high80 - without.low80);
}

TEST_F(RunTwinTest, ManyLossesDoNotFillTheFutures) {
  record("kill-one-rank.yaml", {});
  RunCourse now = course(3.5);
  now.losses = 100000;
  int most = 0;
  RunTwin twin(
      log_header(log_).scenario(), *cluster_,
      [&](const RunRequest& request) {
        most = std::max(most, request.scenario().faults_size());
        RunRequest calm = request;
        calm.mutable_scenario()->clear_faults();
        return run_futures(kSim, calm);
      },
      {.samples = 2});
  twin.forecast_run(log_, now);
  EXPECT_GT(most, 500);
  EXPECT_LT(most, 1100);
}

TEST_F(RunTwinTest, ARunWithoutAnotherStepHasNoForecastOfIt) {
  record("kill-one-rank.yaml", {});
  FuturesReport futures;
  FutureEnd& own = *futures.add_futures();
  own.mutable_report();
  own.set_end_s(100);
  RunTwin twin(
      log_header(log_).scenario(), *cluster_, [&](const RunRequest&) { return futures; },
      {.samples = 2});
  forecast(twin, 3.5);
  EXPECT_EQ(twin.report().newest.commit.median, kNever);
  EXPECT_EQ(twin.report().newest.policies[0].end.median, to_nanos(100));
}

}  // namespace
}  // namespace orrery::sim
