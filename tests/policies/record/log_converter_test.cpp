#include "policies/record/log_converter.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/files/temporary_folder.hpp"
#include "policies/record/log_reader.hpp"
#include "policies/record/past.hpp"
#include "policies/run/replay.hpp"

namespace orrery {
namespace {

const std::string kLogs = ORRERY_SOURCE_DIR "/tests/policies/record/logs/";

std::uint32_t stored_format(const std::string& path) {
  LogReader log(path);
  read_header(log);
  return log.format();
}

TEST(LogConverter, ALogOfEachEarlierFormatReplaysAfterTheConversion) {
  const TemporaryFolder folder("log-converter");
  for (const std::uint32_t format : {2u, 3u, 4u}) {
    const std::string from = kLogs + "format-" + std::to_string(format) + ".log";
    const std::string to = folder.path_of("new.log");
    const ConvertedLog done = convert_log(from, to);
    EXPECT_EQ(done.from, format);
    EXPECT_EQ(stored_format(to), kLogFormat);
    const ReplayResult before = replay_log(from, {}), after = replay_log(to, {});
    EXPECT_EQ(after.first_difference, "") << format;
    EXPECT_EQ(after.calls, before.calls);
    EXPECT_EQ(done.calls, before.calls);
    EXPECT_EQ(after.decision_trace_sha256, before.decision_trace_sha256);
    EXPECT_EQ(after.states_compared, format > 2) << "format 2 has other digests";
  }
}

TEST(LogConverter, ALogOfAnEarlierScenarioReplaysAfterTheConversion) {
  const TemporaryFolder folder("log-converter");
  const std::string from = kLogs + "live-checkpoints.log", to = folder.path_of("new.log");
  convert_log(from, to);
  EXPECT_EQ(log_header(to).scenario().checkpoints().every(), 3u);
  const ReplayResult before = replay_log(from, {}), after = replay_log(to, {});
  EXPECT_EQ(after.first_difference, "");
  EXPECT_EQ(after.decision_trace_sha256, before.decision_trace_sha256);
}

TEST(LogConverter, AConversionOfTheNewestFormatChangesNoByte) {
  const TemporaryFolder folder("log-converter");
  const std::string once = folder.path_of("once.log"), twice = folder.path_of("twice.log");
  convert_log(kLogs + "format-4.log", once);
  EXPECT_EQ(convert_log(once, twice).from, kLogFormat);
  LogReader first(once), second(twice);
  LogRecord record;
  while (first.next(record)) {
    const std::string bytes = first.bytes();
    ASSERT_TRUE(second.next(record));
    ASSERT_EQ(second.bytes(), bytes);
  }
  EXPECT_FALSE(second.next(record));
}

TEST(LogConverter, AFileThatIsNoLogIsRefusedAndNothingIsWritten) {
  const TemporaryFolder folder("log-converter");
  const std::string to = folder.path_of("new.log");
  EXPECT_THROW(convert_log(ORRERY_SOURCE_DIR "/README.md", to), Error);
  EXPECT_THROW(LogReader{to}, Error);
}

}  // namespace
}  // namespace orrery
