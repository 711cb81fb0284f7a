// Ordered jobs in short blocks: inserting and removing a job costs O(jobs / 64), and the next job
// with a short enough estimate is found by the shortest estimate of each block. One line for each
// job size (JobLines), because a job's size alone decides whether it can be placed. Used by the
// queue policies. One thread; nanoseconds.
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

/// Place of a job in a line: the lowest key goes first, then the earliest submission, then the job
/// with the lowest id, which is the earlier one in the file of a log.
struct JobPlace {
  std::int64_t key = 0;
  Nanos submit = 0;
  std::uint64_t turn = 0;  ///< number of this entry into the line; counts in digests only
  JobId job;
  Nanos estimate = 0;

  friend bool operator<(const JobPlace& a, const JobPlace& b) {
    return std::tie(a.key, a.submit, a.job) < std::tie(b.key, b.submit, b.job);
  }
};

/// Ordered line of waiting jobs.
class JobLine {
 public:
  static constexpr Nanos kAnyEstimate = std::numeric_limits<Nanos>::max();
  /// Position in a line, at the first place if default-constructed; valid until the line changes.
  struct Cursor {
    std::size_t block = 0, at = 0;
  };

  /// Adds a place, which must not be in the line yet (not checked).
  void insert(const JobPlace& place);
  /// Removes the place with this key, submission and job. Returns false if it is not in the
  /// line.
  bool erase(const JobPlace& place);
  bool empty() const { return blocks_.empty(); }
  std::size_t size() const { return size_; }
  /// Calls `use` with each place, in order.
  template <class Use>
  void for_each(const Use& use) const {
    for (const Block& block : blocks_) {
      for (const JobPlace& place : block.places) use(place);
    }
  }

  /// Returns the place at a cursor; null behind the last place.
  const JobPlace* get(const Cursor& cursor) const {
    return cursor.block < blocks_.size() ? &blocks_[cursor.block].places[cursor.at] : nullptr;
  }
  /// Moves the cursor to the next place. The cursor must not be behind the last place.
  void advance_cursor(Cursor& cursor) const {
    if (++cursor.at < blocks_[cursor.block].places.size()) return;
    ++cursor.block;
    cursor.at = 0;
  }
  /// Moves the cursor to the first place at or behind it with an estimate of at most `most`, and
  /// returns the place; null if none exists: the cursor is then behind the last place. The pointer
  /// is valid until the line changes.
  const JobPlace* seek_place(Cursor& cursor, Nanos most) const;
  /// Moves the cursor over the places at the cursor for which `is` holds, to the first other place
  /// or behind the last. Precondition: places for which `is` holds precede all others. Returns the
  /// number of skipped places.
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
    Nanos least = kAnyEstimate;    ///< shortest estimate in the block

    void update_minimum();
  };
  /// Returns the first block whose last place is not before `place`.
  std::size_t block_of(const JobPlace& place) const;

  std::vector<Block> blocks_;
  std::size_t size_ = 0;
};

/// Lines of waiting jobs by job size in GPUs.
class JobLines {
 public:
  /// Adds a place to the line of its size. The place must not be in the line yet (not checked).
  void insert(std::uint32_t gpus, const JobPlace& place);
  /// Removes a place, which must have the estimate with which it was inserted (not checked); no
  /// effect if it is not in the line of its size.
  void erase(std::uint32_t gpus, const JobPlace& place);
  /// Removes all places and lines.
  void clear();
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  /// Returns a digest of the places, independent of their order: equal contents give equal digests.
  /// The first call on filled lines reads all places; from then on, until clear(), every change
  /// updates the digest.
  std::uint64_t digest() const;
  /// Returns the lines by job size in GPUs; a line stays, empty, after its last place is erased.
  const std::map<std::uint32_t, JobLine>& by_size() const { return lines_; }

 private:
  std::map<std::uint32_t, JobLine> lines_;  ///< a size stays after its first job
  std::size_t size_ = 0;
  mutable std::uint64_t digest_ = 0;
  mutable bool has_digest_ = false;  ///< true: digest_ is that of the places
};

}  // namespace orrery
