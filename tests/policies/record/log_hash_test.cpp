#include "policies/record/log_hash.hpp"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "policies/record/encoding.hpp"

namespace orrery {
namespace {

SampleColumn column_of(std::size_t rows) {
  SampleColumn column;
  column.ages = {10};
  for (std::size_t i = 0; i < rows; ++i) column.values.push_back(1.5 + static_cast<double>(i));
  return column;
}

TEST(ColumnDigest, EveryChangeOfAColumnShows) {
  for (const std::size_t rows : {1u, 7u, 8u, 9u, 64u, 515u}) {
    std::set<std::string> seen{column_digest(column_of(rows))};
    std::size_t changes = 1;
    for (std::size_t i = 0; i < rows; ++i) {
      SampleColumn other = column_of(rows);
      other.values[i] = -other.values[i];  // one bit
      seen.insert(column_digest(other));
      ++changes;
    }
    SampleColumn older = column_of(rows), modelled = older, longer = older;
    older.ages = {11};
    modelled.origins = {Origin::modelled};
    longer.values.push_back(0);
    for (const SampleColumn& each : {older, modelled, longer}) seen.insert(column_digest(each));
    EXPECT_EQ(seen.size(), changes + 3) << rows;
  }
}

TEST(ColumnDigest, TheOrderOfTheRowsCounts) {
  SampleColumn column = column_of(20), swapped = column;
  std::swap(swapped.values[3], swapped.values[11]);  // same lane
  EXPECT_NE(column_digest(column), column_digest(swapped));
  swapped = column;
  std::swap(swapped.values[3], swapped.values[4]);
  EXPECT_NE(column_digest(column), column_digest(swapped));
}

TEST(ColumnDigest, AnEmptyColumnIsHashedAsItsRecordIsRead) {
  SampleColumn empty;
  empty.ages = {10};
  SamplesRead read;
  encode(empty, SampleField::power, {}, read);
  EXPECT_EQ(column_digest(empty), column_digest(decode_exactly(read.values())));
}

TEST(LogHash, AStoredCallHasTheHashOfItsPartsAndEveryValueCounts) {
  const SampleColumn column = column_of(600);
  LogRecord record;
  encode(column, SampleField::power, {3}, *record.mutable_call()->add_read());
  LogHash stored, parts, other;
  stored.add_stored(record);
  LogRecord without;
  encode(SampleColumn{}, SampleField::power, {3}, *without.mutable_call()->add_read());
  parts.add_column(column);
  parts.add_record(without.SerializeAsString());
  EXPECT_EQ(stored.hex(), parts.hex());
  auto& values = *record.mutable_call()->mutable_read(0)->mutable_values();
  values.set_values(599, values.values(599) + 1);
  other.add_stored(record);
  EXPECT_NE(other.hex(), stored.hex());
}

}  // namespace
}  // namespace orrery
