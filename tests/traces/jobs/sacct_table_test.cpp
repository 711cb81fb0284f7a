#include "traces/jobs/sacct_table.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "traces/jobs/job_log.hpp"
#include "traces/jobs/node_health.hpp"

namespace orrery {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kCommand = "sacct -aPX -S 2024-01-01 -o JobID,JobName,User,Partition,Submit,";

/// Returns the message of the refusal of a text; empty if the text is read.
std::string refused(const std::string& text, const JobLogOptions& options = {}) {
  try {
    parse_job_log("log.txt", text, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Returns the fields between separators, one line for each row.
std::string table(const std::vector<std::vector<std::string>>& rows, const std::string& mark) {
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) text += (i == 0 ? "" : mark) + row[i];
    text += '\n';
  }
  return text;
}

const std::vector<std::string> kNames{"User",  "JobID",     "JobName", "Partition", "QOS", "Submit",
                                      "Start", "AllocTRES", "End",     "NNodes"};
const std::vector<std::string> kFirst{"ann", "83",  "train", "a100", "high", "2024-03-01T08:00:00",
                                      "2024-03-01T08:05:00", "gres/gpu=2", "2024-03-01T10:05:00",
                                      "1"};
const std::vector<std::string> kSecond{"bob", "84", "test", "a100", "low", "2024-03-01T08:00:10",
                                       "2024-03-01T08:05:00", "cpu=4,gres/gpu=1,node=1",
                                       "2024-03-01T08:06:00", "1"};

void expect_both(const JobLog& log, const std::string& message) {
  EXPECT_EQ(log.quality.format(), "slurm-sacct") << message;
  ASSERT_EQ(log.jobs.size(), 2u) << message;
  EXPECT_EQ(log.jobs[0].id, "83") << message;
  EXPECT_EQ(log.jobs[0].user, "ann") << message;
  EXPECT_EQ(log.jobs[0].duration_s, 7200) << message;
  EXPECT_EQ(log.jobs[0].gpus, 2u) << message;
  EXPECT_EQ(log.jobs[1].gpus, 1u) << message;
  EXPECT_EQ(log.jobs[1].submit_s, 10) << message;
}

TEST(SacctTable, AnySeparatorIsReadWithAndWithoutAHeader) {
  // Ten columns between tabs are those of Gavel, if no JobID tells otherwise.
  for (const std::string mark : {"|", "\t", ";", "^", "#", "~", "!", ",", " ", "   "}) {
    expect_both(parse_job_log("log.txt", table({kNames, kFirst, kSecond}, mark)), mark);
    const JobLogOptions options{
        .columns = "User,JobID,JobName%30,Partition,QOS,Submit,Start,AllocTRES,End,NNodes"};
    expect_both(parse_job_log("log.txt", table({kFirst, kSecond}, mark), options), mark);
    EXPECT_THAT(refused(table({kNames, kFirst}, mark), options), HasSubstr("leave the option out"));
  }
}

TEST(SacctTable, TheRawIdIsAnIdToo) {
  std::vector<std::string> names = kNames;
  names[1] = "JobIDRaw";
  expect_both(parse_job_log("log.txt", table({names, kFirst, kSecond}, "|")), "raw");
  EXPECT_EQ(sacct_separator("NotJobID;b"), std::nullopt);
  EXPECT_EQ(sacct_separator("JobIDs;b"), std::nullopt);
  EXPECT_EQ(sacct_separator("a;b\nJobID;c\n"), std::nullopt) << "only the first line names columns";
  EXPECT_EQ(sacct_separator("User;JobID"), Separator{';'});
  EXPECT_EQ(sacct_separator("\"JobID\",\"End\""), Separator::comma);
}

TEST(SacctTable, ALineEndsWithASeparator) {
  std::vector<std::vector<std::string>> rows{kNames, kFirst, kSecond};
  for (auto& row : rows) row.emplace_back();  // sacct -p
  for (const std::string mark : {"|", ";", ","}) {
    expect_both(parse_job_log("log.txt", table(rows, mark)), mark);
  }
}

TEST(SacctTable, ARowWhoseNameContainsTheSeparatorIsRejectedAlone) {
  std::vector<std::string> broken = kFirst;
  for (const std::string mark : {",", ";", "|", " "}) {
    broken[2] = "a" + mark + "b";
    const std::string text = table({kNames, broken, kFirst, kSecond}, mark);
    const JobLog log = parse_job_log("log.txt", text);
    expect_both(log, mark);
    ASSERT_EQ(log.quality.first_rejected_size(), 1) << mark;
    EXPECT_EQ(log.quality.first_rejected(0).line(), 2u);
    EXPECT_THAT(log.quality.first_rejected(0).reason(), HasSubstr("this line has 11 fields"));
    EXPECT_THAT(log.quality.first_rejected(0).reason(), HasSubstr("sacct -P"));
    EXPECT_THAT(refused(text, {.strict = true}), HasSubstr("log.txt:2:1: "));
  }
  const std::string cut = table({kNames, kFirst}, ",") + "bob,84,test\n";
  EXPECT_THAT(refused(cut), HasSubstr("log.txt:3:1: error: this line has 3 fields")) << "cut short";
}

TEST(SacctTable, JsonIsRefusedWithTheCommand) {
  const std::string json = R"({"meta": {"plugin": {"type": "openapi/dbv0.0.38"}, "Slurm":
      {"release": "22.05.8"}}, "errors": [], "jobs": [{"account": "", "job_id": 3}]})";
  const std::string newer =
      R"({"jobs": [{"account": "a", "allocation_nodes": 1, "job_id": 3}], "meta": {}})";
  for (const std::string& text : {json, newer}) {
    EXPECT_THAT(refused(text), HasSubstr("found JSON (sacct --json)"));
    EXPECT_THAT(refused(text), HasSubstr(kCommand));
  }
  EXPECT_THAT(refused(R"({"jobs": [{"id": 1, "res": 1, "subtime": 0, "profile": "d"}],
      "nb_res": 4, "profiles": {"d": {"type": "delay", "delay": 5}}})"),
              Not(HasSubstr("sacct")));
}

TEST(SacctTable, ARefusalNamesTheColumnTheOptionAndTheCommand) {
  std::vector<std::string> names = kNames;
  names[5] = "State";
  for (const std::string mark : {"|", ";", "^", ",", "\t", " "}) {
    const std::string lacks = refused(table({names, kFirst}, mark));
    EXPECT_THAT(lacks, HasSubstr("found no 'Submit'")) << mark;
    EXPECT_THAT(lacks, HasSubstr(kCommand)) << mark;
    const std::string headless = refused(table({kFirst, kSecond}, mark));
    EXPECT_THAT(headless, HasSubstr("a row without a header (sacct -n)")) << mark;
    EXPECT_THAT(headless, HasSubstr("--columns JobID,")) << mark;
    EXPECT_THAT(headless, HasSubstr(kCommand)) << mark;
  }
  EXPECT_THAT(refused("83|train|a100|vision|8|COMPLETED|0:0\n"),
              HasSubstr("columns that sacct writes without -o, which have no times"));
  EXPECT_THAT(refused("83 train a100 vision 8 CANCELLED+ 0:0\n"), HasSubstr("have no times"));
}

TEST(SacctTable, ColumnsThatDoNotMatchTheLogAreRefused) {
  const std::string text = table({kFirst}, "|");
  const auto with = [&](const std::string& columns) { return refused(text, {.columns = columns}); };
  EXPECT_THAT(with("JobID,Submit,Start"), HasSubstr("found no End"));
  EXPECT_THAT(with("User,Submit,Start,End"), HasSubstr("found no JobID"));
  EXPECT_THAT(with("JobID,,Submit,Start,End"), HasSubstr("found an empty name"));
  EXPECT_THAT(with("JobID,Submit,Start,End,End"), HasSubstr("found End twice"));
  EXPECT_THAT(with("JobID,Submit,Start,End"),
              HasSubstr("expected 4 fields in the first line, as many as the option names, found "
                        "10 between bars"));
  EXPECT_THAT(refused("{\"jobs\": []}", {.columns = "JobID,Submit,Start,End"}),
              HasSubstr("--columns"));
}

TEST(SacctTable, TheHealthOfNodesHasAnySeparatorToo) {
  const std::string bars =
      "JobID|State|Start|End|NodeList\n1|NODE_FAIL|0|86400|gpu[1-2]\n2|COMPLETED|0|86400|gpu3\n";
  std::string other = bars;
  for (char& each : other) each = each == '|' ? ';' : each;
  for (const std::string& text : {bars, other}) {
    const auto health = node_health("s.txt", text);
    ASSERT_TRUE(health);
    EXPECT_EQ(health->nodes, 3u);
    EXPECT_EQ(health->failures, 1u);
  }
}

}  // namespace
}  // namespace orrery
