#include "policies/record/log_converter.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/files/temporary_folder.hpp"
#include "policies/record/log_reader.hpp"
#include "policies/record/past.hpp"
#include "policies/run/replay.hpp"
#include "tests/policies/toy_log.hpp"

namespace orrery {
namespace {

const std::string kLogs = ORRERY_SOURCE_DIR "/tests/policies/record/logs/";

FormatVersion stored_format(const std::string& path) {
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
    EXPECT_EQ(done.from, (FormatVersion{format, 0}));
    EXPECT_EQ(done.to, kLogFormat);
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

TEST(LogConverter, ALogOfANewerMinorKeepsItsFormatAndItsUnknownFields) {
  const TemporaryFolder folder("log-converter");
  const std::string from = folder.path_of("from.log"), to = folder.path_of("to.log");
  convert_log(kLogs + "format-4.log", from);
  std::vector<LogRecord> records = toy::read_log(from);
  const FormatVersion newer{kLogFormat.major, kLogFormat.minor + 1};
  set_log_format(*records[0].mutable_header(), newer);
  LogRecord& call = records[1];
  call.GetReflection()->MutableUnknownFields(&call)->AddVarint(4000, 7);
  toy::write_log(from, records);
  const ConvertedLog done = convert_log(from, to);
  EXPECT_EQ(done.from, newer);
  EXPECT_EQ(done.to, newer);
  const std::vector<LogRecord> after = toy::read_log(to);
  ASSERT_EQ(after.size(), records.size());
  EXPECT_EQ(after[0].SerializeAsString(), records[0].SerializeAsString());
  EXPECT_EQ(after[1].GetReflection()->GetUnknownFields(after[1]).field_count(), 1);
  EXPECT_EQ(replay_log(to, {}).first_difference, "");
}

TEST(LogConverter, AFileThatIsNoLogIsRefusedAndNothingIsWritten) {
  const TemporaryFolder folder("log-converter");
  const std::string to = folder.path_of("new.log");
  EXPECT_THROW(convert_log(ORRERY_SOURCE_DIR "/README.md", to), Error);
  EXPECT_THROW(LogReader{to}, Error);
}

}  // namespace
}  // namespace orrery
