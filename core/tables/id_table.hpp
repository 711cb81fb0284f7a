// Values by job id, for queues whose jobs come in about the order of their ids: the id finds the
// value without a search. Used by policies/queues/preemptive. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/ids.hpp"

namespace orrery {

/// Table of one value for each of some jobs. Memory: proportional to the most values at one time,
/// plus four bytes for each id from the lowest in the table to the highest. For example, after
/// find_or_add({7}) and find_or_add({9}) the ids 7, 8 and 9 take four bytes each.
template <class T>
class IdTable {
 public:
  /// Returns the value of the job, a new one if the job has none, and true for a new one. The
  /// pointer is valid until the value is removed.
  std::pair<T*, bool> find_or_add(JobId id) {
    if (slots_.empty()) base_ = id.value;
    for (; id.value < base_; --base_) slots_.push_front(kNone);
    while (id.value - base_ >= slots_.size()) slots_.push_back(kNone);
    std::uint32_t& slot = slots_[id.value - base_];
    if (slot != kNone) return {&values_[slot], false};
    if (unused_.empty()) {
      slot = static_cast<std::uint32_t>(values_.size());
      values_.emplace_back();
    } else {
      slot = unused_.back();
      unused_.pop_back();
      values_[slot] = T{};
    }
    return {&values_[slot], true};
  }
  /// Returns the value of the job; null if the job has none.
  T* find(JobId id) {
    if (id.value < base_ || id.value - base_ >= slots_.size()) return nullptr;
    const std::uint32_t slot = slots_[id.value - base_];
    return slot == kNone ? nullptr : &values_[slot];
  }
  /// Returns the value of the job. Throws std::out_of_range if the job has none.
  T& at(JobId id) {
    T* const value = find(id);
    if (value == nullptr) throw std::out_of_range("a job without a value");
    return *value;
  }
  /// Removes the value of the job, which must have one.
  void remove_job(JobId id) {
    unused_.push_back(std::exchange(slots_[id.value - base_], kNone));
    for (; !slots_.empty() && slots_.front() == kNone; slots_.pop_front()) ++base_;
  }
  void clear() { *this = IdTable(); }
  /// Calls `use` with the id and the value of each job, in order of the ids.
  template <class Use>
  void for_each(const Use& use) const {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i] == kNone) continue;
      use(JobId{base_ + static_cast<std::uint32_t>(i)}, values_[slots_[i]]);
    }
  }

 private:
  static constexpr std::uint32_t kNone = ~0u;

  std::deque<std::uint32_t> slots_;  ///< place in values_ by id - base_
  std::deque<T> values_;             ///< a deque: growth never moves a value
  std::vector<std::uint32_t> unused_;
  std::uint32_t base_ = 0;
};

}  // namespace orrery
