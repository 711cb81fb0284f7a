#include "policies/run/worker.hpp"

#include <gtest/gtest.h>

#include "core/process.hpp"
#include "policies/run/replay.hpp"
#include "tests/policies/toy_log.hpp"

namespace orrery {
namespace {

const std::string kWorker = ORRERY_BINARY_DIR "/tests/toy_worker";

/// Everything a worker says to one request, and how it ends.
struct Dialogue {
  std::vector<WorkerMessage> messages;
  ExitStatus status;
};

Dialogue talk(const std::string& request) {
  ChildProcess worker(kWorker, {});
  EXPECT_TRUE(write_message(worker.channel(), request));
  Dialogue dialogue;
  while (const auto bytes = read_message(worker.channel())) {
    EXPECT_TRUE(dialogue.messages.emplace_back().ParseFromString(*bytes));
  }
  dialogue.status = worker.wait();
  return dialogue;
}

RunRequest request(const std::string& fabric = "") {
  RunRequest toy;
  *toy.mutable_scenario() = toy::scenario();
  toy.set_fabric(fabric);
  return toy;
}

TEST(Worker, AGoodRunEndsWithAReport) {
  const Dialogue dialogue = talk(request().SerializeAsString());
  EXPECT_EQ(dialogue.status.code, 0);
  ASSERT_TRUE(dialogue.messages.back().has_report());
  const Report& report = dialogue.messages.back().report();
  EXPECT_EQ(report.mode(), "toy");
  EXPECT_EQ(report.seed(), 7u);
  EXPECT_EQ(report.steps_completed(), 40u);
  EXPECT_EQ(report.decisions(), 0u);
  EXPECT_GT(report.events(), 40u);
  EXPECT_EQ(report.scenario_hash().size(), 64u);
  EXPECT_EQ(report.decision_log_sha256().size(), 64u);
  EXPECT_GT(report.host().peak_rss_bytes(), 1e6);
}

TEST(Worker, ProgressIsThinnedOut) {
  const Dialogue dialogue = talk(request("chatty").SerializeAsString());
  EXPECT_TRUE(dialogue.messages.back().has_report());
  EXPECT_LT(dialogue.messages.size(), 1000u);
}

TEST(Worker, FailuresAreReportedWithTheirKindAndExitCode) {
  const auto failure = [](const std::string& fabric, int code) {
    const Dialogue dialogue = talk(request(fabric).SerializeAsString());
    EXPECT_EQ(dialogue.status.code, code);
    EXPECT_EQ(dialogue.messages.back().failure().kind(), std::uint32_t(code));
    return dialogue.messages.back().failure();
  };
  EXPECT_EQ(failure("refuse", 3).file(), "toy.yaml");
  EXPECT_EQ(failure("break", 5).message(), "something broke");
  EXPECT_EQ(failure("no memory", 4).message(), "out of memory");
}

TEST(Worker, ARequestThatIsNoneIsAnInternalError) {
  const Dialogue dialogue = talk("\xff\xff\xff");
  EXPECT_EQ(dialogue.status.code, 5);
  EXPECT_TRUE(dialogue.messages.back().has_failure());
}

TEST(Worker, WithoutARequestItEnds) {
  ChildProcess worker(kWorker, {});
  worker.close_channel();
  EXPECT_EQ(worker.wait().code, 2);
}

TEST(Worker, ItsLogReplays) {
  const toy::TempDir dir;
  RunRequest with_log = request();
  with_log.set_record(dir / "log");
  *with_log.mutable_scenario() = toy::scenario_with("predictive-rebalance");
  const Dialogue dialogue = talk(with_log.SerializeAsString());
  ASSERT_TRUE(dialogue.messages.back().has_report());
  const Report& report = dialogue.messages.back().report();
  const ReplayResult result = replay_log(dir / "log", {});
  EXPECT_EQ(result.first_difference, "");
  EXPECT_EQ(result.decisions, report.decisions());
  EXPECT_EQ(result.decision_trace_sha256, report.decision_trace_sha256());
}

}  // namespace
}  // namespace orrery
