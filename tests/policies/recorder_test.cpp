#include "policies/recorder.hpp"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.hpp"
#include "tests/policies/toy_log.hpp"

namespace orrery {
namespace {

toy::Recorded run_shift_once(const std::string& path) {
  const Cluster cluster = toy::cluster();
  toy::ToyBackend backend(cluster);
  toy::ShiftOnce policy;
  Recorder recorder(backend, policy, LogHeader{}, path);
  Rng rng = policy_rng(1);
  Context context{rng, {}};
  toy::Recorded result{drive(policy, recorder, context), {}, {}};
  recorder.finish();
  result.log_sha256 = recorder.log_sha256();
  result.trace_sha256 = recorder.trace_sha256();
  EXPECT_GT(recorder.events(), 40u);
  return result;
}

TEST(Recorder, TheLogHoldsHeaderCallsAndFooter) {
  const toy::TempDir dir;
  const auto result = run_shift_once(dir / "log");
  const std::vector<LogRecord> records = toy::read_log(dir / "log");
  ASSERT_GT(records.size(), 42u);
  EXPECT_EQ(records.front().header().format(), kLogFormat);
  EXPECT_EQ(records.front().header().actions(), ~0u >> 19);
  EXPECT_EQ(records.back().footer().calls(), records.size() - 2);
  EXPECT_EQ(records.back().footer().decision_log_sha256(), result.log_sha256);
  EXPECT_EQ(records.back().footer().decision_trace_sha256(), result.trace_sha256);
  int decisions = 0, outcomes = 0, rests = 0;
  std::uint64_t last_digest = 0;
  for (std::size_t i = 1; i + 1 < records.size(); ++i) {
    const CallRecord& call = records[i].call();
    EXPECT_EQ(call.observation().sequence(), i - 1);
    EXPECT_NE(call.state_digest(), last_digest);  // it counts its calls
    last_digest = call.state_digest();
    decisions += call.decisions_size();
    rests += call.at_rest() ? 1 : 0;
    for (const EventRecord& event : call.observation().events()) {
      outcomes += event.has_decision_outcome() ? 1 : 0;
    }
  }
  EXPECT_EQ(decisions, 1);
  EXPECT_EQ(outcomes, 1);
  EXPECT_EQ(rests, int(records.size()) - 3);
}

TEST(Recorder, EqualRunsGiveEqualBytesAndHashesNeedNoFile) {
  const toy::TempDir dir;
  const auto first = run_shift_once(dir / "a");
  run_shift_once(dir / "b");
  EXPECT_EQ(toy::read_file(dir / "a"), toy::read_file(dir / "b"));
  const auto without = run_shift_once("");
  EXPECT_EQ(without.log_sha256, first.log_sha256);
  EXPECT_EQ(without.trace_sha256, first.trace_sha256);
}

TEST(Recorder, TheTraceHashIgnoresWhatIsSeenAndTheLogHashDoesNot) {
  const auto one = toy::record(toy::scenario_with("static"), "", 40, 1);
  const auto other = toy::record(toy::scenario_with("static"), "", 40, 2);
  EXPECT_NE(one.log_sha256, other.log_sha256);
  EXPECT_EQ(one.trace_sha256, other.trace_sha256);
  EXPECT_NE(run_shift_once("").trace_sha256, one.trace_sha256);
}

TEST(Recorder, AnUnfinishedLogLeavesNothingBehind) {
  const toy::TempDir dir;
  const Cluster cluster = toy::cluster();
  toy::ToyBackend backend(cluster);
  toy::ShiftOnce policy;
  {
    Recorder recorder(backend, policy, LogHeader{}, dir / "log");
    recorder.next();
    recorder.apply({}, false);
    EXPECT_TRUE(std::filesystem::exists(partial_log(dir / "log")));
  }
  EXPECT_FALSE(std::filesystem::exists(dir / "log"));
  EXPECT_FALSE(std::filesystem::exists(partial_log(dir / "log")));
}

TEST(Recorder, WhatIsNoRegularFileIsWrittenToAndNeverReplaced) {
  const toy::TempDir dir;
  const std::string pipe = dir / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int end = open(pipe.c_str(), O_RDWR | O_NONBLOCK);  // so that the writer need not wait
  run_shift_once(pipe);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  char first = 0;
  EXPECT_EQ(read(end, &first, 1), 1);
  close(end);
  EXPECT_THROW(run_shift_once(dir / ""), Error) << "a folder is no log";
}

TEST(Recorder, APlaceThatCannotBeWrittenIsAnEnvironmentError) {
  try {
    run_shift_once("/nowhere/log");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_NE(error.message().find("/nowhere/log"), std::string::npos);
  }
}

TEST(Recorder, AFullDiskIsAnEnvironmentError) {
  const toy::TempDir dir;
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 4096;
  setrlimit(RLIMIT_FSIZE, &small);
  ErrorKind kind = ErrorKind::internal;
  try {
    run_shift_once(dir / "log");
  } catch (const Error& error) {
    kind = error.kind();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(kind, ErrorKind::environment);
  EXPECT_FALSE(std::filesystem::exists(dir / "log"));
}

}  // namespace
}  // namespace orrery
