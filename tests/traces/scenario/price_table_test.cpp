#include "traces/scenario/price_table.hpp"

#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

using testing::HasSubstr;

constexpr const char* kHeader = "kind,name,gpu,gpus,value,unit,date,source\n";

std::string written(const std::string& rows) {
  const std::string path = testing::TempDir() + "own_prices.csv";
  std::ofstream(path) << kHeader << rows;
  return path;
}

std::string error_of(const std::string& rows) {
  try {
    price_table(written(rows));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(PriceTable, OwnRowsReplaceShippedOnes) {
  const auto shipped = price_table();
  EXPECT_GE(shipped.size(), 20u);
  const auto both =
      price_table(written("instance,nebius-h100,H100,8,16,USD/h,2026-11-01,offer 12\n"
                          "instance,mine,B200,4,20,USD/h,2026-11-01,offer 13\n"));
  EXPECT_EQ(both.size(), shipped.size() + 1);
  const PriceRow& row = price_named(both, PriceKind::instance, "nebius-h100", "--instance");
  EXPECT_EQ(row.value, 16);
  EXPECT_EQ(words_of(row), "instance nebius-h100: 16 USD/h on 2026-11-01 (offer 12)");
}

TEST(PriceTable, ProblemsHaveTheirPlace) {
  EXPECT_THAT(error_of("grid,here,,,0,g/kWh,2026-01-01,x\n"),
              HasSubstr(":2:13: error: expected a value above 0, found '0'"));
  EXPECT_THAT(error_of("grid,here,,,3,USD,2026-01-01,x\n"), HasSubstr(":2:15: error: expected"));
  EXPECT_THAT(error_of("rent,here,,,3,USD,2026-01-01,x\n"), HasSubstr(":2:1: error: expected"));
  EXPECT_THAT(error_of("instance,a,H100,x,3,USD/h,2026-01-01,x\n"), HasSubstr("gpus must be"));
  EXPECT_THROW(price_table("none.csv"), Error);
}

TEST(PriceTable, UnknownNamesHaveTheNearestOne) {
  try {
    price_named(price_table(), PriceKind::grid, "frnce", "--grid");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_THAT(error.what(), HasSubstr("--grid: expected one of"));
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'france'?"));
  }
}

}  // namespace
}  // namespace orrery
