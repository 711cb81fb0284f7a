// Values by job id, for jobs that come in about the order of their ids: the id finds the value
// without a search. Used by policies/seam/job, policies/queues/preemptive and
// policies/queues/expected_ends. One thread.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/ids.hpp"

namespace orrery {

/// Table of one value for each of some jobs. Memory: proportional to the most values at one time,
/// plus four bytes for each id from the lowest in the table to the highest. Values are in blocks of
/// about 16 KiB. For example, after find_or_add({7}) and find_or_add({9}) the ids 7, 8 and 9 take
/// four bytes each.
template <class T>
class IdTable {
 public:
  static constexpr std::uint32_t kNone = ~0u;  ///< place of a job without a value

  /// Returns the value of the job, a new one if the job has none, and true for a new one. The
  /// pointer is valid until the value is removed.
  std::pair<T*, bool> find_or_add(JobId id) {
    if (first_ == slots_.size()) base_ = id.value;
    if (id.value < base_) add_lower_ids(base_ - id.value);
    const std::size_t at = first_ + (id.value - base_);
    if (at >= slots_.size()) slots_.resize(at + 1, kNone);
    std::uint32_t& slot = slots_[at];
    if (slot != kNone) return {&value(slot), false};
    if (unused_.empty()) {
      slot = values_++;
      if (slot / kInBlock == blocks_.size()) blocks_.emplace_back(kInBlock);
    } else {
      slot = unused_.back();
      unused_.pop_back();
    }
    value(slot) = T{};
    return {&value(slot), true};
  }
  /// Returns the place of the job's value for value(), which stays until the value is removed;
  /// kNone if the job has no value.
  std::uint32_t place_of(JobId id) const {
    const std::uint32_t offset = id.value - base_;  // wraps for a lower id
    return id.value < base_ || offset >= slots_.size() - first_ ? kNone : slots_[first_ + offset];
  }
  /// Returns the value at a place.
  T& value(std::uint32_t place) { return blocks_[place / kInBlock][place % kInBlock]; }
  const T& value(std::uint32_t place) const { return blocks_[place / kInBlock][place % kInBlock]; }
  /// Returns the value of the job; null if the job has none.
  T* find(JobId id) {
    const std::uint32_t place = place_of(id);
    return place == kNone ? nullptr : &value(place);
  }
  const T* find(JobId id) const {
    const std::uint32_t place = place_of(id);
    return place == kNone ? nullptr : &value(place);
  }
  /// Returns the value of the job. Throws std::out_of_range if the job has none.
  T& at(JobId id) {
    T* const found = find(id);
    if (found == nullptr) throw std::out_of_range("a job without a value");
    return *found;
  }
  /// Removes the value of the job, which must have one.
  void remove_job(JobId id) {
    unused_.push_back(std::exchange(slots_[first_ + (id.value - base_)], kNone));
    for (; first_ < slots_.size() && slots_[first_] == kNone; ++first_) ++base_;
    if (first_ < kInBlock || first_ < slots_.size() / 2) return;
    slots_.erase(slots_.begin(), slots_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
  void clear() { *this = IdTable(); }
  /// Returns the number of values.
  std::size_t size() const { return values_ - unused_.size(); }
  /// Returns the id behind the highest one that had a value while it was the highest; 0 before the
  /// first.
  std::uint32_t end_id() const {
    return base_ + static_cast<std::uint32_t>(slots_.size() - first_);
  }
  /// Calls `use` with the id and the value of each job, in order of the ids.
  template <class Use>
  void for_each(const Use& use) const {
    for (std::size_t at = first_; at < slots_.size(); ++at) {
      if (slots_[at] == kNone) continue;
      use(JobId{base_ + static_cast<std::uint32_t>(at - first_)}, value(slots_[at]));
    }
  }
  /// Makes this table equal to `other`. Calls `copy(to, from)` to assign each value: `to` is the
  /// old value of this table at that place, possibly of another job, whose memory can be reused.
  template <class Copy>
  void copy_from(const IdTable& other, const Copy& copy) {
    slots_ = other.slots_;
    unused_ = other.unused_;
    first_ = other.first_;
    base_ = other.base_;
    values_ = other.values_;
    while (blocks_.size() < other.blocks_.size()) blocks_.emplace_back(kInBlock);
    for (std::uint32_t place = 0; place < values_; ++place) {
      copy(value(place), other.value(place));
    }
  }

 private:
  static constexpr std::size_t kInBlock =
      std::bit_floor(std::max<std::size_t>(8, 16384 / sizeof(T)));

  void add_lower_ids(std::uint32_t count) {
    if (count > first_) {
      slots_.insert(slots_.begin(), count - first_, kNone);
      first_ = count;
    }
    first_ -= count;
    base_ -= count;
  }

  std::vector<std::uint32_t> slots_;    ///< place of the value by first_ + id - base_
  std::vector<std::vector<T>> blocks_;  ///< blocks of kInBlock values, which never move
  std::vector<std::uint32_t> unused_;   ///< places of removed values
  std::size_t first_ = 0;               ///< index of base_ in slots_
  std::uint32_t base_ = 0;
  std::uint32_t values_ = 0;  ///< number of places in use, with those of removed values
};

}  // namespace orrery
