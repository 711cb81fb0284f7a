// Incidents of sacct's rows: one for each run that another follows.
#include "traces/failures/sacct_incidents.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

using ::testing::HasSubstr;

constexpr const char* kLog =
    "JobID|JobName|User|State|Start|End|NNodes|FailedNode\n"
    "17|llm|ann|NODE_FAIL|2024-01-01T00:00:00|2024-01-01T10:00:00|16|gpu007\n"
    "17.batch|batch||FAILED|2024-01-01T00:00:00|2024-01-01T10:00:00|1|None\n"
    "17|llm|ann|FAILED|2024-01-01T10:20:00|2024-01-01T12:00:00|16|None\n"
    "18|eval|bob|FAILED|2024-01-01T10:20:00|2024-01-01T11:00:00|1|None\n"
    "19|llm|ann|CANCELLED by 1000|2024-01-01T12:05:00|2024-01-02T00:00:00|16|\n"
    "20|llm|ann|PENDING|Unknown|Unknown|16|\n";

std::string sacct_complaint(const std::string& text, const std::string& job = "") {
  try {
    parse_incidents("sacct.txt", text, {.job = job});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SacctIncidents, EveryEndThatARunFollowsIsAnIncident) {
  const IncidentLog log = parse_incidents("sacct.txt", kLog, {});
  EXPECT_EQ(log.format, "sacct");
  EXPECT_EQ(log.nodes, 16u);
  EXPECT_EQ(log.length_s, 86400);
  ASSERT_EQ(log.incidents.size(), 2u);
  EXPECT_EQ(log.incidents[0].cause, "node fail");
  EXPECT_EQ(log.incidents[0].part, FailingPart::node);
  EXPECT_EQ(log.node_names.at(log.incidents[0].index.value()), "gpu007");
  EXPECT_EQ(log.incidents[0].at_s, 36'000);
  EXPECT_EQ(log.incidents[0].down_s, 1200);
  EXPECT_EQ(log.incidents[1].cause, "failed");
  EXPECT_EQ(log.incidents[1].part, FailingPart::job);
  EXPECT_EQ(log.incidents[1].down_s, 300);
  ASSERT_EQ(log.notes.size(), 1u);
  EXPECT_THAT(log.notes[0], HasSubstr("1 other jobs"));
}

TEST(SacctIncidents, MistakesAreNamedWithTheirPlaces) {
  EXPECT_THAT(sacct_complaint("JobID|State|Start\n"), HasSubstr("expected the column End"));
  EXPECT_THAT(sacct_complaint("JobID|State|Start\n"), HasSubstr("sacct -a -D -X -P"));
  EXPECT_THAT(sacct_complaint(kLog, "llmm"), HasSubstr("the job 'llmm', found none"));
  EXPECT_EQ(sacct_complaint(kLog, "eval"), "");
  const std::string header = "JobID|State|Start|End|NNodes\n";
  EXPECT_THAT(sacct_complaint(header + "1|FAILED|yesterday|2024-01-01T00:00:00|1\n"),
              HasSubstr("sacct.txt:2:10: error: Start"));
  EXPECT_THAT(sacct_complaint(header + "1|FAILED|2024-01-02T00:00:00|2024-01-01T00:00:00|1\n"),
              HasSubstr("expected an end after the start"));
  EXPECT_THAT(sacct_complaint(header + "1|FAILED|2024-01-02T00:00:00|2024-01-03T00:00:00|many\n"),
              HasSubstr("found 'many'"));
}

}  // namespace
}  // namespace orrery
