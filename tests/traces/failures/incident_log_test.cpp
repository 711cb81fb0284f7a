// Incidents of a CSV: times of the job and of the part, and mistakes with their places.
#include "traces/failures/incident_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHeader =
    "time_s,cause,part,index,effect,rate,lasts_s,detection_s,restart_s\n";

IncidentLog read_rows(const std::string& rows, const IncidentOptions& options = {}) {
  return parse_incidents("log.csv", kHeader + rows, options);
}

std::string csv_complaint(const std::string& text, const IncidentOptions& options = {}) {
  try {
    parse_incidents("log.csv", text, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(IncidentLog, TheJobIsDownForDetectionAndRestartElseAsLongAsThePart) {
  const IncidentLog log = read_rows(
      "500,crash,rank,3,kill,,,30,270\n"
      "100,power,node,2,down,,3600,60,240\n"
      "900,ecc,gpu,17,down,,700,,\n"
      "950,hot,gpu,1,rate,0.5,80,,\n");
  ASSERT_EQ(log.incidents.size(), 4u);
  EXPECT_EQ(log.format, "csv");
  EXPECT_EQ(log.length_s, 950);
  EXPECT_EQ(log.notes.size(), 1u) << "the length is a guess";
  const Incident& power = log.incidents[0];
  EXPECT_EQ(power.cause, "power");
  EXPECT_EQ(power.index, 2u);
  EXPECT_EQ(power.down_s, 300);
  EXPECT_EQ(power.detection_s, 60);
  EXPECT_EQ(power.repair_s, 3600);
  EXPECT_EQ(log.incidents[1].part, FailingPart::job);
  EXPECT_EQ(log.incidents[1].down_s, 300);
  EXPECT_EQ(log.incidents[2].down_s, 700);
  EXPECT_FALSE(log.incidents[2].repair_s) << "one time cannot be both";
  EXPECT_EQ(log.incidents[3].rate, 0.5);
  EXPECT_EQ(log.incidents[3].down_s, 0);
}

TEST(IncidentLog, MistakesAreNamedWithTheirPlaces) {
  const std::string header = kHeader;
  EXPECT_THAT(csv_complaint(header + "x,a,node,1,down,,1,,\n"),
              HasSubstr("log.csv:2:1: error: time_s"));
  EXPECT_THAT(csv_complaint(header + "1,,node,1,down,,1,,\n"), HasSubstr("log.csv:2:3: error"));
  EXPECT_THAT(csv_complaint(header + "1,a,tree,1,down,,1,,\n"), HasSubstr("got 'tree'"));
  EXPECT_THAT(csv_complaint(header + "1,a,node,1,kill,,1,,\n"), HasSubstr("expected down or rate"));
  EXPECT_THAT(csv_complaint(header + "1,a,node,1,down,,,,\n"), HasSubstr("found neither"));
  EXPECT_THAT(csv_complaint("time_s,cause\n"), HasSubstr("part"));
  EXPECT_THAT(csv_complaint("a,b\n1,2\n"), HasSubstr("found another file"));
  EXPECT_THAT(csv_complaint(header + "11,a,node,1,down,,1,,\n", {.length_s = 10}),
              HasSubstr("within the 10 s of --time"));
}

}  // namespace
}  // namespace orrery
