// Jobs in an order, held in short blocks: a job is put in or taken out in O(jobs / 64), and the
// next one whose estimate is short enough is found by looking at each block's shortest. One line
// for each size of job (JobLines), because whether a job can be placed depends on its size alone.
// Used by the queue policies. One thread; nanoseconds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "core/ids.hpp"

namespace orrery {

/// Where a job stands in a line: the lowest key goes first, then who was submitted first, then
/// whose turn came first.
struct JobPlace {
  std::int64_t key = 0;
  Nanos submit = 0;
  std::uint64_t turn = 0;
  JobId job;
  Nanos estimate = 0;

  friend bool operator<(const JobPlace& a, const JobPlace& b) {
    return std::tie(a.key, a.submit, a.turn, a.job) < std::tie(b.key, b.submit, b.turn, b.job);
  }
};

class JobLine {
 public:
  static constexpr Nanos kAnyEstimate = std::numeric_limits<Nanos>::max();
  /// Valid until the line changes.
  struct Cursor {
    std::size_t block = 0, at = 0;
  };

  void insert(const JobPlace& place);
  /// False if it is not there.
  bool erase(const JobPlace& place);
  bool empty() const { return blocks_.empty(); }
  std::size_t size() const { return size_; }

  /// The place at a cursor; null behind the last.
  const JobPlace* get(const Cursor& cursor) const {
    return cursor.block < blocks_.size() ? &blocks_[cursor.block].places[cursor.at] : nullptr;
  }
  void advance(Cursor& cursor) const {
    if (++cursor.at < blocks_[cursor.block].places.size()) return;
    ++cursor.block;
    cursor.at = 0;
  }
  /// The first place at or behind the cursor with an estimate of at most `most`; null if none. The
  /// cursor is there then.
  const JobPlace* seek(Cursor& cursor, Nanos most) const;
  /// Moves behind the places for which `is` holds: first those, then all for which it does not.
  /// How many they are.
  template <class Predicate>
  std::size_t skip_while(Cursor& cursor, const Predicate& is) const {
    std::size_t skipped = 0;
    while (cursor.block < blocks_.size()) {
      const std::vector<JobPlace>& places = blocks_[cursor.block].places;
      const auto from = places.begin() + static_cast<std::ptrdiff_t>(cursor.at);
      const auto stop =
          is(places.back()) ? places.end() : std::partition_point(from, places.end(), is);
      skipped += static_cast<std::size_t>(stop - from);
      if (stop != places.end()) {
        cursor.at = static_cast<std::size_t>(stop - places.begin());
        break;
      }
      ++cursor.block;
      cursor.at = 0;
    }
    return skipped;
  }

 private:
  struct Block {
    std::vector<JobPlace> places;  ///< never empty
    Nanos least = kAnyEstimate;    ///< shortest estimate of them

    void weigh();
  };
  /// The first block whose last place is not before `place`.
  std::size_t block_of(const JobPlace& place) const;

  std::vector<Block> blocks_;
  std::size_t size_ = 0;
};

/// By size of job: GPUs.
class JobLines {
 public:
  void insert(std::uint32_t gpus, const JobPlace& place);
  void erase(std::uint32_t gpus, const JobPlace& place);
  void clear();
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  /// Of the places, whatever their order: equal contents give equal digests.
  std::uint64_t digest() const { return digest_; }
  const std::map<std::uint32_t, JobLine>& by_size() const { return lines_; }

 private:
  std::map<std::uint32_t, JobLine> lines_;  ///< sizes that once came stay
  std::size_t size_ = 0;
  std::uint64_t digest_ = 0;
};

}  // namespace orrery
