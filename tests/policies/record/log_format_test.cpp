// Logs of earlier formats. logs/format-N.log is a run of examples/straggler-4-ranks.yaml with
// `run.steps=8`, `faults[0].at_step=2` and a tick of 200 ms, recorded by the version before format
// 3 (commit 51ed7bb), 4 (e6649e5) and 5 (38e75b5). logs/live-checkpoints.log is a run of the same
// example with `run.steps=8`, the policy checkpoint-interval and checkpoints every 3 steps,
// recorded by the version before format 1.1 of scenarios (ef674a9), which had them in `live`.
// logs/queue-P.log is a replay of six jobs, none of equal rank, on one node of 8 GPUs under the
// policy P, recorded by the version before the ties of all queue policies were equal (e24ae49).
#include "policies/record/log_format.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "policies/record/past.hpp"
#include "policies/run/replay.hpp"
#include "tests/policies/toy_log.hpp"

namespace orrery {
namespace {

const std::string kFormat2 = ORRERY_SOURCE_DIR "/tests/policies/record/logs/format-2.log";

const std::string kFormat4 = ORRERY_SOURCE_DIR "/tests/policies/record/logs/format-4.log";

const std::string kFormat3 = ORRERY_SOURCE_DIR "/tests/policies/record/logs/format-3.log";

const std::string kLiveCheckpoints =
    ORRERY_SOURCE_DIR "/tests/policies/record/logs/live-checkpoints.log";

TEST(LogFormat, TheScenarioOfALogHasItsKeysAtTheirPresentPlaces) {
  const Scenario scenario = log_header(kLiveCheckpoints).scenario();
  EXPECT_EQ(scenario.checkpoints().folder(), "kept");
  EXPECT_EQ(scenario.checkpoints().every(), 3u);
  const ReplayResult result = replay_log(kLiveCheckpoints, {});
  EXPECT_EQ(result.first_difference, "");
  EXPECT_EQ(result.decisions, 1u);
  EXPECT_EQ(result.decision_trace_sha256,
            "575b3deaf70f8ae3149bb165938024e5d1f33b8b273de4f6b5072b22db84d501");
}

TEST(LogFormat, SamplesByRowReplayAsColumnsWithTheSameStates) {
  const ReplayResult result = replay_log(kFormat3, {});
  EXPECT_EQ(result.first_difference, "");
  EXPECT_EQ(result.decisions, 1u);
  EXPECT_TRUE(result.states_compared);
  EXPECT_NE(replay_log(kFormat3, {"predictive-rebalance.gain_threshold=0.9"}).first_difference, "");
}

TEST(LogFormat, ALogWhoseHashCoversAllBytesReplays) {
  const ReplayResult result = replay_log(kFormat4, {});
  EXPECT_EQ(result.first_difference, "");
  EXPECT_EQ(result.decisions, 1u);
  EXPECT_TRUE(result.states_compared);
}

TEST(LogFormat, ALogOfTheFormerFormatReplaysWithTheSameDecisions) {
  const ReplayResult result = replay_log(kFormat2, {});
  EXPECT_EQ(result.first_difference, "");
  EXPECT_EQ(result.calls, 21u);
  EXPECT_EQ(result.decisions, 1u);
  EXPECT_EQ(result.decision_trace_sha256,
            "30c12c32bd4a5f3424ba20ece0dd66534c2d3b43c066d2fd34003281373ef0af");
  EXPECT_FALSE(result.states_compared);
}

TEST(LogFormat, QueuesHaveTheDigestsOfEarlierLogs) {
  for (const char* const policy : {"easy", "srtf"}) {
    const std::string log =
        fmt::format("{}/tests/policies/record/logs/queue-{}.log", ORRERY_SOURCE_DIR, policy);
    const ReplayResult result = replay_log(log, {});
    EXPECT_EQ(result.first_difference, "") << policy;
    EXPECT_TRUE(result.states_compared) << policy;
  }
}

TEST(LogFormat, OtherDecisionsOfAnOlderLogAreStillADifference) {
  EXPECT_NE(replay_log(kFormat2, {"predictive-rebalance.gain_threshold=0.9"}).first_difference, "");
}

TEST(LogFormat, AnOlderLogIsContinuedToo) {
  EXPECT_EQ(log_format(log_header(kFormat2)), kLogFormat) << "readers know the newest format only";
  EXPECT_GT(log_end(kFormat2), 0);
}

TEST(LogFormat, PresentLogsCompareStates) {
  const toy::TempDir dir;
  toy::record(toy::scenario_with("predictive-rebalance"), dir / "log");
  EXPECT_TRUE(replay_log(dir / "log", {}).states_compared);
}

TEST(LogFormat, UnknownFormatsAreRefusedWithTheirNumberAndTheRemedy) {
  LogHeader header;
  header.set_version("9.1");
  for (const std::uint32_t known : {2u, 3u, 4u, 5u}) {
    header.set_format(known);
    EXPECT_EQ(log_format(header), (FormatVersion{known, 0}));
    EXPECT_EQ(log_format_problem(header), std::nullopt);
    EXPECT_EQ(newer_log_note(header), std::nullopt);
  }
  set_log_format(header, {6, 2});
  EXPECT_EQ(log_format_problem(header),
            "expected log format 2.0 to 5.x, found format 6.2; read the log with the orrery that "
            "wrote it, 9.1, or with a newer one ('orrery --version' prints the version)");
  set_log_format(header, {1, 0});
  EXPECT_EQ(header.format(), 1u) << "as in a log of the first version";
  EXPECT_EQ(log_format_problem(header),
            "expected log format 2.0 to 5.x, found format 1.0; read the log with the orrery that "
            "wrote it, 9.1, or record the run again");
}

TEST(LogFormat, ALogOfANewerMinorIsReadWithANote) {
  const toy::TempDir dir;
  toy::record(toy::scenario_with("predictive-rebalance"), dir / "log");
  std::vector<LogRecord> records = toy::read_log(dir / "log");
  const FormatVersion newer{kLogFormat.major, kLogFormat.minor + 2};
  set_log_format(*records[0].mutable_header(), newer);
  toy::write_log(dir / "log", records);
  const LogHeader header = log_header(dir / "log");
  EXPECT_EQ(log_format(header), newer);
  EXPECT_EQ(newer_log_note(header),
            "has log format 5.3, this orrery knows 5.1: fields that it does not know have no "
            "effect");
  EXPECT_GT(log_end(dir / "log"), 0);
}

}  // namespace
}  // namespace orrery
