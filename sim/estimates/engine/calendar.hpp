// Pending-event queues of the engines (sim/estimates/engine/sharing_engine, free_engine). Used from
// one thread. Times are seconds of the engine's clock.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "core/tables/huge_pages.hpp"
#include "sim/estimates/engine/engine.hpp"
#include "sim/estimates/engine/event_queue.hpp"

namespace orrery::estimates {

/// Priority queue of small items by due time. Items with equal due times leave the queue in the
/// order in which they were added. Not thread-safe.
///
/// For example, after add_entry(2, a), add_entry(1, b) and add_entry(1, c), pop_entry() returns b,
/// then c, then a.
template <typename What>
class Calendar {
 public:
  /// Adds an item that is due at time `at`, in seconds.
  void add_entry(double at, What what) { queue_.add_entry({at, next_number_++, what}); }
  /// Returns true if no item is pending.
  bool empty() const { return queue_.empty(); }
  /// Returns the item that leaves the queue next. Call only if the queue is not empty.
  const What& front() const { return queue_.front().what; }
  /// Returns the entries that leave the queue after the next one, the nearest last.
  auto next_entries() const { return queue_.next_entries(); }
  /// Returns the due time of the earliest item, in seconds; infinity if the queue is empty.
  double next() const {
    return queue_.empty() ? std::numeric_limits<double>::infinity() : queue_.front().at;
  }
  /// Removes the earliest item and returns the item. Call only if the queue is not empty.
  What pop_entry() { return queue_.pop_entry().what; }
  /// Removes all items. Entry numbers continue, so that the order of equal due times stays defined.
  void clear() { queue_.clear(); }

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
  EventQueue<Entry> queue_;
  std::uint64_t next_number_ = 0;
};

/// Calendar of items of any size, which the queue does not move, with the memory that their owner
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
      for (const auto& entry : slots_.next_entries()) __builtin_prefetch(&items_[entry.what]);
    }
    free_.push_back(slot);
    return std::exchange(items_[slot].what, What());
  }
  /// Sets the pending items aside until continue_items(): they are not due before.
  void set_aside() {
    while (!slots_.empty()) {
      const double at = slots_.next();
      aside_.emplace_back(at, slots_.pop_entry());
    }
  }
  /// Makes the items that were set aside pending again, in the order in which they were set aside.
  void continue_items() {
    for (const auto& [at, slot] : aside_) slots_.add_entry(at, slot);
    aside_.clear();
  }
  /// Removes all items.
  void clear() {
    slots_.clear();
    items_.clear();
    free_.clear();
    aside_.clear();
  }

 private:
  /// Item in one cache line, if it has up to 32 bytes.
  struct alignas(64) Item {
    What what;
    MemoryHint hint;
  };

  Calendar<std::uint32_t> slots_;
  HugeVector<Item> items_;          ///< items by slot
  std::vector<std::uint32_t> free_;  ///< slots without an item
  std::vector<std::pair<double, std::uint32_t>> aside_;  ///< due times and slots of items set aside
};

}  // namespace orrery::estimates
