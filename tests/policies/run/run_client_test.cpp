#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "core/process.hpp"
#include "policies/run/registry.hpp"
#include "policies/run/replay.hpp"
#include "policies/run/worker.hpp"
#include "policies/seam/drive.hpp"
#include "tests/policies/toy_log.hpp"

namespace orrery {
namespace {

const std::string kWorker = ORRERY_BINARY_DIR "/tests/toy_worker";

RunRequest request(const std::string& fabric = "") {
  RunRequest toy;
  *toy.mutable_scenario() = toy::scenario();
  toy.set_fabric(fabric);
  return toy;
}

/// Gone, or a zombie that nobody has reaped yet.
bool has_ended(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(stat, line)) return true;
  return line.substr(line.rfind(')') + 2, 1) == "Z";
}

bool ends_soon(pid_t pid) {
  for (int i = 0; i < 500; ++i) {
    if (has_ended(pid)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(RunClient, AGoodRunGivesItsReport) {
  const Report report = run_in_worker(kWorker, request());
  EXPECT_EQ(report.steps_completed(), 40u);
  EXPECT_GT(report.host().wall_s(), 0);
  EXPECT_GT(report.host().peak_rss_bytes(), 1e6);
}

TEST(RunClient, EqualRunsDifferOnlyInHost) {
  Report first = run_in_worker(kWorker, request());
  Report second = run_in_worker(kWorker, request());
  first.clear_host();
  second.clear_host();
  EXPECT_EQ(first.SerializeAsString(), second.SerializeAsString());
}

Report without_host(Report report) {
  report.clear_host();
  return report;
}

TEST(RunClient, ForksOfOneProgramRunAsProgramsDo) {
  ForkServer server(kWorker);
  const std::string alone = without_host(run_in_worker(kWorker, request())).SerializeAsString();
  for (int i = 0; i < 3; ++i) {
    const Report report = run_in_worker(server, request());
    EXPECT_GT(report.host().peak_rss_bytes(), 1e6);
    EXPECT_EQ(without_host(report).SerializeAsString(), alone);
  }
}

TEST(RunClient, AForkThatDiesIsTheErrorOfOneRun) {
  ForkServer server(kWorker);
  EXPECT_THROW(run_in_worker(server, request("kill")), WorkerDied);
  EXPECT_THROW(run_in_worker(server, request("refuse")), Error);
  toy::ShiftOnce policy;
  EXPECT_EQ(run_in_worker(server, request(), &policy).decisions(), 1u);
}

TEST(RunClient, WhatTheWorkerReportsIsThrown) {
  try {
    run_in_worker(kWorker, request("refuse"));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_STREQ(error.what(), "toy.yaml:2:3: error: as asked\n  a line\n    ^");
  }
}

TEST(RunClient, ADeadWorkerIsAClearErrorAndLeavesNoHalfLog) {
  const toy::TempDir dir;
  RunRequest with_log = request("kill");
  with_log.set_record(dir / "log");
  try {
    run_in_worker(kWorker, with_log);
    FAIL() << "no error";
  } catch (const WorkerDied& error) {
    EXPECT_EQ(error.kind(), ErrorKind::internal);
    EXPECT_EQ(error.message(),
              "the worker toy_worker ended before it reported: killed by signal 9 (Killed) (out "
              "of memory, or killed by hand)");
  }
  EXPECT_FALSE(std::filesystem::exists(dir / "log"));
  EXPECT_FALSE(std::filesystem::exists(partial_log(dir / "log")));
  EXPECT_THROW(run_in_worker(kWorker, request("exit")), WorkerDied);
}

TEST(RunClient, AProgramThatIsNotThereIsAnEnvironmentError) {
  try {
    run_in_worker("/nowhere/orrery-sim", request());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
  }
}

TEST(RunClient, AnInterruptEndsTheWorker) {
  pid_t worker = 0;
  const auto progress = [&worker](const Progress& now) { worker = std::stoi(now.note()); };
  EXPECT_THROW(run_in_worker(kWorker, request("hang"), nullptr, progress,
                             [&worker] { return worker != 0; }),
               Interrupted);
  ASSERT_NE(worker, 0);
  EXPECT_TRUE(has_ended(worker));
}

TEST(RunClient, AKilledClientLeavesNoOrphan) {
  ChildProcess client(kWorker, {"client", kWorker});
  const auto note = read_message(client.channel());
  ASSERT_TRUE(note.has_value());
  const pid_t worker = std::stoi(*note);
  EXPECT_FALSE(has_ended(worker));
  client.signal(SIGKILL);
  client.wait();
  EXPECT_TRUE(ends_soon(worker));
}

TEST(RunClient, APolicyOfThisProcessSteersTheRun) {
  toy::ShiftOnce policy;
  const Report report = run_in_worker(kWorker, request(), &policy);
  EXPECT_EQ(report.decisions(), 1u);
  Archive state;
  policy.save(state);
  EXPECT_NE(state.find("shifted"), Archive::npos);
}

TEST(RunClient, InsideAndOutsideAPolicyDecidesTheSame) {
  RunRequest inside = request();
  *inside.mutable_scenario() = toy::scenario_with("predictive-rebalance");
  const Report expected = run_in_worker(kWorker, inside);
  ASSERT_GE(expected.decisions(), 1u);
  const auto policy = make_stack(inside.scenario(), SourceMap{});
  const Report report = run_in_worker(kWorker, request(), policy.get());
  EXPECT_EQ(report.decisions(), expected.decisions());
  EXPECT_EQ(report.decision_trace_sha256(), expected.decision_trace_sha256());
}

/// Policy that reads telemetry and counts it.
class Reader : public toy::ShiftOnce {
 public:
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
    ShiftOnce::observe(context, seen, decisions);
    if (seen.sequence % 2 == 0) return;
    for (const RankSample& rank : seen.samples.ranks({0})) {
      times.push_back(rank.micro_batch_time.value);
      steps.push_back(rank.step);
    }
    devices += seen.samples.devices({0}).size();
    devices += seen.samples.devices({0}).size();  // requested once, read twice
    collectives += seen.samples.collectives({0}).size();
  }
  std::vector<double> times;
  std::vector<Step> steps;
  std::size_t devices = 0, collectives = 0;
};

TEST(RunClient, APolicyOfThisProcessIsGivenTheTelemetryThatItReads) {
  Reader outside, inside;
  run_in_worker(kWorker, request(), &outside);
  const Cluster cluster = toy::cluster();
  toy::ToyBackend backend(cluster);
  Rng rng = policy_rng(7);
  Context context{rng, {}};
  drive(inside, backend, context);
  EXPECT_GT(outside.times.size(), 100u);
  EXPECT_EQ(outside.times, inside.times);
  EXPECT_EQ(outside.steps, inside.steps);
  EXPECT_EQ(outside.devices, inside.devices);
  EXPECT_EQ(outside.collectives, 0u);
}

TEST(RunClient, WhatAnOutsidePolicyReadIsInTheLog) {
  const toy::TempDir dir;
  RunRequest with_log = request();
  with_log.set_record(dir / "log");
  Reader policy;
  run_in_worker(kWorker, with_log, &policy);
  const std::vector<LogRecord> records = toy::read_log(dir / "log");
  EXPECT_EQ(records[1].call().read_size(), 0);
  // Rows and six columns of ranks, rows and four columns of devices, collectives.
  ASSERT_EQ(records[2].call().read_size(), 13);
  EXPECT_EQ(records[2].call().read(0).rows().ids(0).count(), 4u);
  EXPECT_EQ(records[2].call().read(7).what(), SamplesRead::DEVICES);
  EXPECT_EQ(records[2].call().read(12).what(), SamplesRead::COLLECTIVES);
}

/// Policy that reads other columns at other calls, and none at some.
class ColumnReader : public toy::ShiftOnce {
 public:
  /// `rows_first`: reads the rows of a table before its columns, as the process of the run does for
  /// a policy in another process.
  explicit ColumnReader(bool rows_first) : rows_first_(rows_first) {}
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
    ShiftOnce::observe(context, seen, decisions);
    if (seen.sequence % 7 == 6) return;
    if (seen.sequence % 3 == 0) seen.samples.rows(SampleTable::ranks, {0});
    read_column(seen, SampleField::micro_batch_time);
    if (seen.sequence % 11 > 4) seen.samples.summary({0}, 2);
    if (seen.sequence > 20) read_column(seen, SampleField::micro_batches_done);
    if (seen.sequence % 5 > 1) read_column(seen, SampleField::utilization);
    seen.samples.rows(SampleTable::devices, {0});
  }

 private:
  void read_column(const Observation& seen, SampleField field) const {
    if (rows_first_) seen.samples.rows(table_of(field), {0});
    seen.samples.column(field, {0});
  }
  const bool rows_first_;
};

TEST(RunClient, TheLogHasTheReadsOfAnOutsidePolicyAsOfOneInside) {
  const toy::TempDir dir;
  RunRequest with_log = request();
  with_log.set_record(dir / "outside");
  ColumnReader outside(false), inside(true);
  run_in_worker(kWorker, with_log, &outside);
  const Cluster cluster = toy::cluster();
  toy::ToyBackend backend(cluster);
  Recorder recorder(backend, inside, LogHeader(), {.path = dir / "inside"});
  Rng rng = policy_rng(7);
  Context context{rng, {}};
  drive(inside, recorder, context);
  recorder.finish_log();
  const std::vector<LogRecord> expected = toy::read_log(dir / "inside");
  const std::vector<LogRecord> found = toy::read_log(dir / "outside");
  ASSERT_EQ(found.size(), expected.size());
  ASSERT_GT(found.size(), 50u);
  for (std::size_t i = 0; i < found.size(); ++i) {
    CallRecord reads, expected_reads;
    *reads.mutable_read() = found[i].call().read();
    *expected_reads.mutable_read() = expected[i].call().read();
    ASSERT_EQ(reads.SerializeAsString(), expected_reads.SerializeAsString()) << "record " << i;
  }
}

TEST(RunClient, ALogOfAPolicyFromOutsideIsRefusedByReplay) {
  const toy::TempDir dir;
  RunRequest with_log = request();
  with_log.set_record(dir / "log");
  toy::ShiftOnce policy;
  run_in_worker(kWorker, with_log, &policy);
  EXPECT_THROW(replay_log(dir / "log", {}), Error);
}

struct Complaint : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(RunClient, WhatAPolicyOfThisProcessThrowsIsThrownOn) {
  class Complaining : public toy::ShiftOnce {
   public:
    void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
      if (seen.sequence == 5) throw Complaint("not like this");
      ShiftOnce::observe(context, seen, decisions);
    }
  } policy;
  pid_t worker = 0;
  const auto progress = [&worker](const Progress& now) { worker = std::stoi(now.note()); };
  EXPECT_THROW(run_in_worker(kWorker, request(), &policy, progress), Complaint);
  ASSERT_NE(worker, 0);
  EXPECT_TRUE(has_ended(worker));
}

TEST(RunClient, APolicyThatNeedsTooMuchIsRefused) {
  class Greedy : public toy::ShiftOnce {
   public:
    Needs needs() const override { return {Kinds<Action>::from_bits(1u << 30), {}, 0}; }
  } policy;
  EXPECT_THROW(run_in_worker(kWorker, request(), &policy), Error);
}

}  // namespace
}  // namespace orrery
