#include "core/tables/id_table.hpp"

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace orrery {
namespace {

TEST(IdTable, HoldsWhatAMapHolds) {
  Rng rng(3);
  IdTable<std::string> table;
  std::map<std::uint32_t, std::string> plain;
  for (std::uint32_t step = 0; step < 20'000; ++step) {
    // About the order of the ids: some are lower than all in the table.
    const auto id = static_cast<std::uint32_t>(step / 4 + rng.below(40));
    if (rng.below(2) == 0) {
      const auto [value, is_new] = table.find_or_add({id});
      ASSERT_EQ(is_new, !plain.contains(id));
      if (is_new) {
        ASSERT_EQ(*value, "");
        *value = plain[id] = std::to_string(step);
      }
    } else if (plain.erase(id) > 0) {
      table.remove_job({id});
    }
    const std::string* const found = table.find({id});
    ASSERT_EQ(found != nullptr, plain.contains(id));
    if (found != nullptr) {
      ASSERT_EQ(*found, plain[id]);
    }
    ASSERT_EQ(table.size(), plain.size());
  }
  std::map<std::uint32_t, std::string> all;
  table.for_each([&](JobId id, const std::string& value) { all[id.value] = value; });
  EXPECT_EQ(all, plain);
  EXPECT_GT(all.size(), 5u);
}

TEST(IdTable, ValuesStayInPlaceUntilTheyAreRemoved) {
  IdTable<int> table;
  int* const first = table.find_or_add({100}).first;
  *first = 7;
  for (std::uint32_t id = 101; id < 20'000; ++id) table.find_or_add({id});
  table.find_or_add({3});
  EXPECT_EQ(table.find({100}), first);
  EXPECT_EQ(*first, 7);
  EXPECT_EQ(table.find({2}), nullptr);
  EXPECT_EQ(table.find({20'000}), nullptr);
  EXPECT_THROW(table.at({50}), std::out_of_range);
  EXPECT_EQ(table.end_id(), 20'000u);
}

TEST(IdTable, ACopyWithLaterChangesBecomesTheTableAgain) {
  IdTable<std::string> table;
  for (std::uint32_t id = 0; id < 1000; ++id) *table.find_or_add({id}).first = std::to_string(id);
  for (std::uint32_t id = 0; id < 1000; id += 3) table.remove_job({id});
  IdTable<std::string> copy = table;
  for (std::uint32_t id = 0; id < 1000; ++id) {
    if (copy.find({id}) != nullptr) copy.remove_job({id});
  }
  for (std::uint32_t id = 1000; id < 4000; ++id) *copy.find_or_add({id}).first = "later";
  std::size_t copied = 0;
  copy.copy_from(table, [&copied](std::string& to, const std::string& from) {
    to = from;
    ++copied;
  });
  EXPECT_EQ(copied, 1000u);
  for (std::uint32_t id = 0; id < 4000; ++id) {
    const std::string* const found = copy.find({id});
    ASSERT_EQ(found != nullptr, id < 1000 && id % 3 != 0);
    if (found != nullptr) {
      ASSERT_EQ(*found, std::to_string(id));
    }
  }
  EXPECT_EQ(copy.end_id(), 1000u);
  EXPECT_EQ(*copy.find_or_add({1000}).first, "");
}

}  // namespace
}  // namespace orrery
