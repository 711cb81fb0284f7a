// Sorting of large tables by a number. Pure; thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace orrery {

/// Sorts entries by `key(entry)`, a number of 32 bits, ascending; entries with equal keys keep
/// their order. Needs memory for a second copy of the entries.
///
/// Radix sort from the lowest digit on (D. E. Knuth, The Art of Computer Programming, volume 3,
/// section 5.2.5): each pass moves the entries into the order of 11 more bits of the largest key.
/// For example, keys below 2,000,000 take two passes, whatever the number of entries. Short tables
/// are sorted by comparison.
template <typename Entry, typename Allocator, typename Key>
void sort_by_number(std::vector<Entry, Allocator>& entries, Key key) {
  constexpr std::uint32_t kBits = 11, kDigits = 1u << kBits;
  if (entries.size() < kDigits) {
    std::stable_sort(entries.begin(), entries.end(),
                     [&](const Entry& a, const Entry& b) { return key(a) < key(b); });
    return;
  }
  std::uint64_t largest = 0;
  for (const Entry& entry : entries) largest = std::max<std::uint64_t>(largest, key(entry));
  std::vector<Entry, Allocator> moved(entries.size());
  for (std::uint32_t shift = 0; largest >> shift > 0; shift += kBits) {
    const auto digit = [&](const Entry& entry) {
      return static_cast<std::uint32_t>(key(entry)) >> shift & (kDigits - 1);
    };
    std::array<std::size_t, kDigits + 1> place{};
    for (const Entry& entry : entries) ++place[digit(entry) + 1];
    for (std::uint32_t i = 0; i < kDigits; ++i) place[i + 1] += place[i];
    for (const Entry& entry : entries) moved[place[digit(entry)]++] = entry;
    entries.swap(moved);
  }
}

}  // namespace orrery
