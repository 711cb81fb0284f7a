// What is due when: a heap by date, things of one date in the order in which they were put there.
// Behind both engines (sim/estimates/engine/free_engine, sim/engine/simgrid_engine). One thread.
// Seconds of the engine's clock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace orrery::estimates {

template <typename What>
class Calendar {
 public:
  void put(double at, What what) {
    entries_.push_back({at, next_number_++, std::move(what)});
    std::push_heap(entries_.begin(), entries_.end(), later);
  }
  bool empty() const { return entries_.empty(); }
  /// Infinitely late if there is nothing.
  double next() const {
    return entries_.empty() ? std::numeric_limits<double>::infinity() : entries_.front().at;
  }
  /// Of the first entry; there is one.
  What take() {
    std::pop_heap(entries_.begin(), entries_.end(), later);
    What what = std::move(entries_.back().what);
    entries_.pop_back();
    return what;
  }
  void clear() { entries_.clear(); }

 private:
  struct Entry {
    double at;
    std::uint64_t number;
    What what;
  };
  static bool later(const Entry& a, const Entry& b) {
    return a.at != b.at ? a.at > b.at : a.number > b.number;
  }
  std::vector<Entry> entries_;
  std::uint64_t next_number_ = 0;
};

}  // namespace orrery::estimates
