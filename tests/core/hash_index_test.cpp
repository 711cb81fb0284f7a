#include "core/tables/hash_index.hpp"

#include <cstdint>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace orrery {
namespace {

TEST(HashIndex, HasNothingAtFirst) {
  EXPECT_EQ(HashIndex().find(3, [](std::uint32_t) { return true; }), HashIndex::kNone);
}

TEST(HashIndex, EqualHashesAreToldApartByTheOwner) {
  HashIndex index;
  for (std::uint32_t i = 0; i < 5; ++i) index.add(9, i);
  for (std::uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(index.find(9, [i](std::uint32_t number) { return number == i; }), i);
  }
  EXPECT_EQ(index.find(9, [](std::uint32_t) { return false; }), HashIndex::kNone);
  EXPECT_EQ(index.find(8, [](std::uint32_t) { return true; }), HashIndex::kNone);
}

TEST(HashIndex, FindsWhatAMapFinds) {
  Rng random(1);
  HashIndex index;
  std::map<std::uint64_t, std::uint32_t> map;
  std::vector<std::uint64_t> values;
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t value = random.below(15'000) << 40;  // differ in high bits alone
    const auto known = map.find(value);
    const std::uint32_t found =
        index.find(value, [&](std::uint32_t number) { return values[number] == value; });
    ASSERT_EQ(found, known == map.end() ? HashIndex::kNone : known->second);
    if (known != map.end()) continue;
    map[value] = static_cast<std::uint32_t>(values.size());
    index.add(value, static_cast<std::uint32_t>(values.size()));
    values.push_back(value);
  }
}

}  // namespace
}  // namespace orrery
