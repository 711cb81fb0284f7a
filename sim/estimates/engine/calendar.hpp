// Pending-event queues of the engines (sim/estimates/engine/sharing_engine, free_engine). Used from
// one thread. Times are seconds of the engine's clock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/estimates/engine/engine.hpp"

namespace orrery::estimates {

/// Priority queue of small entries: first the one that is before all others. `Entry` has a method
/// is_before(const Entry&). Not thread-safe.
///
/// A heap with four children a node (D. B. Johnson, "Priority queues with update and finding
/// minimum spanning trees", 1975), which touches half as many cache lines as a binary one.
template <typename Entry>
class EventHeap {
  static_assert(std::is_trivially_copyable_v<Entry>, "the heap moves entries");

 public:
  bool empty() const { return entries_.empty(); }
  /// Returns the first entry. Call only if the queue is not empty.
  const Entry& front() const { return entries_.front(); }
  void add_entry(const Entry& added) {
    std::size_t hole = entries_.size();
    entries_.push_back(added);
    while (hole > 0 && added.is_before(entries_[(hole - 1) / kChildren])) {
      entries_[hole] = entries_[(hole - 1) / kChildren];
      hole = (hole - 1) / kChildren;
    }
    entries_[hole] = added;
  }
  /// Removes the first entry and returns the entry. Call only if the queue is not empty.
  Entry pop_entry() {
    const Entry first = entries_.front();
    const Entry moved = entries_.back();
    entries_.pop_back();
    if (!entries_.empty()) put_down(moved);
    return first;
  }
  void clear() { entries_.clear(); }
  /// Returns the entries of which one is the first one after the next pop_entry().
  std::span<const Entry> second_entries() const {
    if (entries_.size() < 2) return {};
    return std::span(entries_).subspan(1, std::min(kChildren, entries_.size() - 1));
  }

 private:
  static constexpr std::size_t kChildren = 4;

  /// Puts an entry in place of the first one, which has left the heap.
  void put_down(const Entry& moved) {
    const std::size_t size = entries_.size();
    std::size_t hole = 0, first = 1;
    while (first < size) {
      std::size_t least = first;
      if (first + kChildren <= size) {
        least = before(before(first, first + 1), before(first + 2, first + 3));
      } else {
        for (std::size_t child = first + 1; child < size; ++child) least = before(least, child);
      }
      if (!entries_[least].is_before(moved)) break;
      entries_[hole] = entries_[least];
      hole = least;
      first = kChildren * hole + 1;
    }
    entries_[hole] = moved;
  }
  /// Returns the one of two entries that is before the other; the first one if none is.
  std::size_t before(std::size_t a, std::size_t b) const {
    const std::size_t is_b = entries_[b].is_before(entries_[a]) ? 1 : 0;
    return a + is_b * (b - a);
  }

  std::vector<Entry> entries_;  ///< heap
};

/// Priority queue of small items by due time. Items with equal due times leave the queue in the
/// order in which they were added. Not thread-safe.
///
/// For example, after add_entry(2, a), add_entry(1, b) and add_entry(1, c), pop_entry() returns b,
/// then c, then a.
template <typename What>
class Calendar {
 public:
  /// Adds an item that is due at time `at`, in seconds.
  void add_entry(double at, What what) { heap_.add_entry({at, next_number_++, what}); }
  /// Returns true if no item is pending.
  bool empty() const { return heap_.empty(); }
  /// Returns the item that leaves the queue next. Call only if the queue is not empty.
  const What& front() const { return heap_.front().what; }
  /// Returns the entries of which one leaves the queue after the next one.
  auto second_entries() const { return heap_.second_entries(); }
  /// Returns the due time of the earliest item, in seconds; infinity if the queue is empty.
  double next() const {
    return heap_.empty() ? std::numeric_limits<double>::infinity() : heap_.front().at;
  }
  /// Removes the earliest item and returns the item. Call only if the queue is not empty.
  What pop_entry() { return heap_.pop_entry().what; }
  /// Removes all items. Entry numbers continue, so that the order of equal due times stays defined.
  void clear() { heap_.clear(); }

 private:
  /// Due time of an item, serial number, which breaks ties, and the item.
  struct Entry {
    double at;
    std::uint64_t number;
    What what;
    bool is_before(const Entry& other) const {
      return at < other.at || (at == other.at && number < other.number);
    }
  };
  EventHeap<Entry> heap_;
  std::uint64_t next_number_ = 0;
};

/// Calendar of items of any size, which the heap does not move, with the memory that their owner
/// will access. Loads that memory into the caches an item ahead, and the items two ahead. Not
/// thread-safe.
template <typename What>
class SlotCalendar {
 public:
  /// Adds an item that is due at time `at`, in seconds.
  void add_entry(double at, What what, const MemoryHint& hint = {}) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(items_.size()));
      items_.emplace_back();
    }
    items_[free_.back()] = {std::move(what), hint};
    slots_.add_entry(at, free_.back());
    free_.pop_back();
  }
  /// Returns the due time of the earliest item, in seconds; infinity if the queue is empty.
  double next() const { return slots_.next(); }
  /// Removes the earliest item and returns the item. Call only if the queue is not empty.
  What pop_entry() {
    const std::uint32_t slot = slots_.pop_entry();
    if (!slots_.empty()) {
      // GCC drops calls of a function that only prefetches, so the loops stand here.
      for (const void* address : items_[slots_.front()].hint.addresses) {
        if (address != nullptr) __builtin_prefetch(address);
      }
      for (const auto& entry : slots_.second_entries()) __builtin_prefetch(&items_[entry.what]);
    }
    free_.push_back(slot);
    return std::exchange(items_[slot].what, What());
  }
  /// Removes all items.
  void clear() {
    slots_.clear();
    items_.clear();
    free_.clear();
  }

 private:
  /// Item in one cache line, if it has up to 32 bytes.
  struct alignas(64) Item {
    What what;
    MemoryHint hint;
  };

  Calendar<std::uint32_t> slots_;
  std::vector<Item> items_;          ///< items by slot
  std::vector<std::uint32_t> free_;  ///< slots without an item
};

}  // namespace orrery::estimates
