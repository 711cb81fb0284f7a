#include "traces/jobs/log_time.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

TEST(LogTime, InstantsInTheShapesThatLogsHave) {
  const std::int64_t at = 1684321258;  // 2023-05-17 11:00:58 UTC
  EXPECT_EQ(parse_instant("2023-05-17 11:00:58"), at);
  EXPECT_EQ(parse_instant("2023-05-17T11:00:58"), at);
  EXPECT_EQ(parse_instant("2023-05-17T11:00:58.75Z"), at);
  EXPECT_EQ(parse_instant("2023-05-17 19:00:58+08:00"), at);
  EXPECT_EQ(parse_instant("2023-05-17 06:30:58-0430"), at);
  EXPECT_EQ(parse_instant("1684321258"), at);
  EXPECT_EQ(parse_instant("6.900000"), 6);
  EXPECT_EQ(parse_instant("1970-01-01 00:00"), 0);
  EXPECT_EQ(parse_instant("2024-02-29 00:00:00"), 1709164800);
}

TEST(LogTime, ADateIsReadBackAsItsInstant) {
  EXPECT_EQ(date_text(1684321258), "2023-05-17 11:00:58 UTC");
  EXPECT_EQ(date_text(1709164800), "2024-02-29 00:00:00 UTC");
  EXPECT_EQ(parse_instant(date_text(951782399).substr(0, 19)), 951782399);
}

TEST(LogTime, WhatIsNoInstant) {
  for (const char* text : {"", "Unknown", "2023-13-01 00:00:00", "2023-02-30 00:00:00",
                           "2023-02-03", "2023-02-03 25:00:00", "2023-02-03 12:00:00+99:00",
                           "2023-02-03 12:00:00 later", "1e300", "nan", "-"}) {
    EXPECT_FALSE(parse_instant(text)) << text;
  }
}

TEST(LogTime, LengthsAsSlurmWritesThem) {
  EXPECT_EQ(parse_elapsed("01:02:03"), 3723);
  EXPECT_EQ(parse_elapsed("2-01:02:03"), 2 * 86400 + 3723);
  EXPECT_EQ(parse_elapsed("02:03.456"), 123);
  for (const char* text : {"", "UNLIMITED", "Partition_Limit", "1-", "5", "1:2:3:4", "-1:00:00"}) {
    EXPECT_FALSE(parse_elapsed(text)) << text;
  }
}

}  // namespace
}  // namespace orrery
