// Pending-event queue of both engines (sim/estimates/engine/free_engine,
// sim/engine/simgrid_engine). Used from one thread. Times are seconds of the engine's clock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace orrery::estimates {

/// Priority queue of items by due time. Items with equal due times leave the queue in the order in
/// which they were added. Not thread-safe.
///
/// For example, after add_entry(2, a), add_entry(1, b) and add_entry(1, c), pop_entry() returns b,
/// then c, then a.
template <typename What>
class Calendar {
 public:
  /// Adds an item that is due at time `at`, in seconds.
  void add_entry(double at, What what) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(items_.size()));
      items_.emplace_back();
    }
    items_[free_.back()] = std::move(what);
    entries_.push_back({at, next_number_++, free_.back()});
    free_.pop_back();
    std::push_heap(entries_.begin(), entries_.end(), Later());
  }
  /// Returns true if no item is pending.
  bool empty() const { return entries_.empty(); }
  /// Returns the due time of the earliest item, in seconds; infinity if the queue is empty.
  double next() const {
    return entries_.empty() ? std::numeric_limits<double>::infinity() : entries_.front().at;
  }
  /// Removes the earliest item and returns the item. Call only if the queue is not empty.
  What pop_entry() {
    std::pop_heap(entries_.begin(), entries_.end(), Later());
    const std::uint32_t slot = entries_.back().slot;
    entries_.pop_back();
    free_.push_back(slot);
    return std::exchange(items_[slot], What());
  }
  /// Removes all items. Entry numbers continue, so that the order of equal due times stays defined.
  void clear() {
    entries_.clear();
    items_.clear();
    free_.clear();
  }

 private:
  /// Due time of an item, serial number, which breaks ties, and index of the item.
  struct Entry {
    double at;
    std::uint64_t number;
    std::uint32_t slot;
  };
  /// Order of the heap: true if entry `a` leaves the queue after entry `b`. A type, not a function,
  /// so that the comparisons are compiled into the heap's loops.
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const {
      return a.at != b.at ? a.at > b.at : a.number > b.number;
    }
  };
  std::vector<Entry> entries_;       ///< heap
  std::vector<What> items_;          ///< items by slot; the heap moves none
  std::vector<std::uint32_t> free_;  ///< slots without an item
  std::uint64_t next_number_ = 0;
};

}  // namespace orrery::estimates
