#include "core/tables/radix_sort.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.hpp"

namespace orrery {
namespace {

using Entry = std::pair<std::uint32_t, std::size_t>;

/// Keys below each limit, in tables below and above the shortest one that is sorted by digits.
TEST(RadixSort, EqualsAStableSort) {
  Rng draw(5);
  for (const std::uint64_t limit : {1ull, 3ull, 2048ull, 2049ull, 1ull << 22, 1ull << 32}) {
    for (const std::size_t size : {0u, 1u, 2047u, 2048u, 20'000u}) {
      std::vector<Entry> entries;
      for (std::size_t i = 0; i < size; ++i) {
        entries.emplace_back(static_cast<std::uint32_t>(draw.next() % limit), i);
      }
      std::vector<Entry> expected = entries;
      std::stable_sort(expected.begin(), expected.end(),
                       [](const Entry& a, const Entry& b) { return a.first < b.first; });
      sort_by_number(entries, [](const Entry& entry) { return entry.first; });
      EXPECT_EQ(entries, expected) << size << " keys below " << limit;
    }
  }
}

}  // namespace
}  // namespace orrery
