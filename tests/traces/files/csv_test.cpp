#include "traces/files/csv.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

using Row = std::vector<std::string>;

const std::string kFile = "t.csv";

std::vector<Row> rows(std::string_view text) {
  CsvReader reader(kFile, text);
  std::vector<std::string_view> fields;
  std::vector<Row> all;
  while (reader.next_row(fields)) all.emplace_back(fields.begin(), fields.end());
  return all;
}

std::string problem(std::string_view text) {
  try {
    rows(text);
  } catch (const Error& error) {
    return std::to_string(error.source_place()->line) + ":" +
           std::to_string(error.source_place()->column) + ": " + error.message();
  }
  return "";
}

TEST(Csv, PlainFieldsAndLineEnds) {
  EXPECT_EQ(rows("a,b\r\n1,\n,2"), (std::vector<Row>{{"a", "b"}, {"1", ""}, {"", "2"}}));
  EXPECT_EQ(rows("a,\r\n"), (std::vector<Row>{{"a", ""}}));
  EXPECT_TRUE(rows("").empty());
}

TEST(Csv, QuotedFieldsHoldCommasQuotesAndLineEnds) {
  EXPECT_EQ(rows("\"a,b\",c\r\n\"say \"\"so\"\"\",\"two\nlines\"\r\n\"\",x"),
            (std::vector<Row>{{"a,b", "c"}, {"say \"so\"", "two\nlines"}, {"", "x"}}));
  EXPECT_EQ(rows("a,\"b\"\r\n"), (std::vector<Row>{{"a", "b"}}));
  EXPECT_EQ(rows("5\" disk,b"), (std::vector<Row>{{"5\" disk", "b"}}));
}

TEST(Csv, LinesAreCountedThroughQuotes) {
  CsvReader reader(kFile, "\"a\n\nb\",c\nd,e\n");
  std::vector<std::string_view> fields;
  ASSERT_TRUE(reader.next_row(fields));
  EXPECT_EQ(reader.line(), 1);
  ASSERT_TRUE(reader.next_row(fields));
  EXPECT_EQ(reader.line(), 4);
  try {
    reader.fail_at_field(1, "no");
  } catch (const Error& error) {
    EXPECT_EQ(error.source_place()->line, 4);
    EXPECT_EQ(error.source_place()->column, 3);
    EXPECT_EQ(error.source_place()->line_text, "d,e");
  }
}

TEST(Csv, WrongQuotesHaveTheirPlace) {
  EXPECT_EQ(problem("a,b\n1,\"x\ny"), "2:3: this quote is never closed");
  EXPECT_EQ(problem("a,\"b\"c\n"),
            "1:6: a comma or the line's end must follow the closing quote");
}

TEST(Csv, AFieldThatIsWrittenReadsBack) {
  for (const std::string text : {"plain", "a,b", "say \"so\"", "two\nlines", "", "cr\r"}) {
    const std::string row = csv_field(text) + ",end";
    EXPECT_EQ(rows(row), (std::vector<Row>{{text, "end"}}));
  }
}

}  // namespace
}  // namespace orrery
