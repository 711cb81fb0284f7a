// Index of values by their hashes, for values that the owner keeps and compares. Used by
// sim/estimates/plan/binding_links and sim/estimates/collectives/collective_groups.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/tables/huge_pages.hpp"

namespace orrery {

/// Numbers of values by hash: a hash table with linear probing (D. Knuth, The Art of Computer
/// Programming, volume 3, section 6.4), at most half full. The owner keeps the values. Not
/// thread-safe.
///
/// For example, after add(9, 0) and add(9, 1) find(9, is_one), where is_one(number) is number == 1,
/// returns 1.
class HashIndex {
 public:
  static constexpr std::uint32_t kNone = ~0u;

  /// Returns the first number with this hash for which `is_same` is true; kNone without one.
  template <typename IsSame>
  std::uint32_t find(std::uint64_t hash, IsSame is_same) const {
    if (entries_.empty()) return kNone;
    for (std::size_t i = place_of(hash); entries_[i].second != kNone; i = next(i)) {
      if (entries_[i].first == hash && is_same(entries_[i].second)) return entries_[i].second;
    }
    return kNone;
  }
  /// Adds a number other than kNone.
  void add(std::uint64_t hash, std::uint32_t number) {
    if (2 * (count_ + 1) > entries_.size()) add_room();
    insert({hash, number});
    ++count_;
  }

 private:
  using Entry = std::pair<std::uint64_t, std::uint32_t>;

  /// Fibonacci hashing: the high bits of the product depend on all bits of the hash.
  std::size_t place_of(std::uint64_t hash) const {
    return (hash * 0x9E3779B97F4A7C15ull) >> (64 - std::countr_zero(entries_.size()));
  }
  std::size_t next(std::size_t i) const { return (i + 1) & (entries_.size() - 1); }
  void insert(const Entry& entry) {
    std::size_t i = place_of(entry.first);
    while (entries_[i].second != kNone) i = next(i);
    entries_[i] = entry;
  }
  void add_room() {
    HugeVector<Entry> before(entries_.empty() ? 16 : 2 * entries_.size(), Entry{0, kNone});
    before.swap(entries_);
    for (const Entry& entry : before) {
      if (entry.second != kNone) insert(entry);
    }
  }

  HugeVector<Entry> entries_;  ///< number of entries: a power of two
  std::size_t count_ = 0;
};

}  // namespace orrery
