// Queue of the pending events of an engine, for any number of them. Used by
// sim/estimates/engine/calendar and sharing_engine, from one thread. Times are seconds of the
// engine's clock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace orrery::estimates {

/// Priority queue of small entries: first the one that is before all others. `Entry` has a time
/// `at`, not NaN, and a method is_before(const Entry&), true for every entry with a smaller time.
/// Not thread-safe.
///
/// Ladder queue (W. T. Tang, R. S. M. Goh, I. L.-J. Thng, "Ladder queue: an O(1) priority queue
/// structure for large-scale discrete event simulation", 2005). Only the nearest entries are
/// sorted; later ones lie in buckets of equal spans of time (a rung), and a bucket of many entries
/// becomes a rung of its own when its time comes. Each entry moves a few times, independent of
/// their number, and always to the end of a bucket.
///
/// For example, 800 entries at 0 to 99 s become 100 buckets of 1 s; the entries of the first one
/// are sorted, and one at 7.5 s that comes later is put into the eighth bucket.
template <typename Entry>
class EventQueue {
  static_assert(std::is_trivially_copyable_v<Entry>, "the queue moves entries");

 public:
  bool empty() const { return near_.empty(); }
  /// Returns the first entry. Call only if the queue is not empty.
  const Entry& front() const { return near_.back(); }
  void add_entry(const Entry& added) {
    for (Rung& rung : rungs_) {
      if (rung.holds_time(added.at)) return rung.add_entry(added);
    }
    auto place = near_.begin();
    while (place != near_.end() && !place->is_before(added)) ++place;
    near_.insert(place, added);
    if (near_.size() > most_near_) split_near();
  }
  /// Removes the first entry and returns the entry. Call only if the queue is not empty.
  Entry pop_entry() {
    const Entry first = near_.back();
    near_.pop_back();
    if (near_.size() < kAhead) refill();
    return first;
  }
  void clear() {
    near_.clear();
    while (!rungs_.empty()) remove_last_rung();
  }
  /// Returns the entries that follow the first one, the nearest last; at least two, if the queue
  /// has so many.
  std::span<const Entry> next_entries() const {
    const std::size_t all = near_.size(), shown = std::min(all, kAhead);
    return std::span(near_).subspan(all - shown, shown - (shown > 0 ? 1 : 0));
  }

 private:
  static constexpr std::size_t kAhead = 3;        ///< sorted entries, if there are as many
  static constexpr std::size_t kMostSorted = 64;  ///< entries that are not worth a rung
  static constexpr std::size_t kPerBucket = 8;    ///< mean entries of a bucket of a new rung
  static_assert(kMostSorted >= 3 * kPerBucket, "the first and the last entry must part");

  /// Buckets of equal spans of time, the last one without an end. Those below `next` are empty,
  /// and their entries in the rungs after this one, or near.
  class Rung {
   public:
    std::size_t entries() const { return entries_; }
    /// Removes all entries, and begins buckets from `first` to `last`, which differ.
    void begin_rung(double first, double last, std::size_t buckets) {
      for (; next_ < used_; ++next_) bucket(next_).clear();
      if (buckets_.size() < buckets) buckets_.resize(buckets);
      begin_ = first;
      used_ = buckets;
      per_second_ = static_cast<double>(buckets - 1) / (last - first);
      next_ = entries_ = 0;
    }
    /// Returns whether entries of this time lie in the buckets that are left.
    bool holds_time(double at) const { return at >= begin_ && bucket_of(at) >= next_; }
    void add_entry(const Entry& added) {
      bucket(bucket_of(added.at)).push_back(added);
      ++entries_;
    }
    /// Moves the entries of the next bucket that is not empty. Call only if one is left.
    void take_bucket(std::vector<Entry>& taken) {
      while (bucket(next_).empty()) ++next_;
      taken = bucket(next_);
      bucket(next_++).clear();
      entries_ -= taken.size();
    }

   private:
    /// Never falls as the time grows, in spite of rounding: an entry of a later bucket is later.
    std::size_t bucket_of(double at) const {
      const double bucket = (at - begin_) * per_second_;
      const std::size_t last = used_ - 1;
      return bucket < static_cast<double>(last) ? static_cast<std::size_t>(bucket) : last;
    }

    /// The last bucket is apart: it grows large, and the others keep their memory.
    std::vector<Entry>& bucket(std::size_t number) {
      return number + 1 == used_ ? last_ : buckets_[number];
    }

    std::vector<std::vector<Entry>> buckets_;
    std::vector<Entry> last_;
    std::size_t used_ = 0;  ///< buckets of this rung
    std::size_t next_ = 0;
    std::size_t entries_ = 0;
    double begin_ = 0, per_second_ = 0;
  };

  /// Moves entries into buckets, the nearest rung of all. Returns false, and does nothing, if all
  /// that are finite have one time.
  bool split_entries(std::vector<Entry>& entries) {
    double first = std::numeric_limits<double>::infinity(), last = -first;
    for (const Entry& entry : entries) {
      first = std::min(first, entry.at);
      if (entry.at < std::numeric_limits<double>::infinity()) last = std::max(last, entry.at);
    }
    const std::size_t buckets = entries.size() / kPerBucket;
    const bool is_wide = first < last && static_cast<double>(buckets) / (last - first) <
                                             std::numeric_limits<double>::infinity();
    if (!is_wide) return false;
    if (spare_.empty()) spare_.emplace_back();
    rungs_.push_back(std::move(spare_.back()));
    spare_.pop_back();
    Rung& rung = rungs_.back();
    rung.begin_rung(first, last, buckets);
    for (const Entry& entry : entries) rung.add_entry(entry);
    entries.clear();
    return true;
  }
  void split_near() {
    if (split_entries(near_)) {
      refill();
    } else {
      most_near_ = 2 * near_.size();
    }
  }
  /// Sorts the next bucket behind the near entries, until there are enough.
  void refill() {
    while (near_.size() < kAhead && !rungs_.empty()) {
      Rung& rung = rungs_.back();
      if (rung.entries() == 0) {
        remove_last_rung();
        continue;
      }
      rung.take_bucket(taken_);
      if (rung.entries() == 0) remove_last_rung();
      if (taken_.size() > kMostSorted && split_entries(taken_)) continue;
      std::sort(taken_.begin(), taken_.end(),
                [](const Entry& a, const Entry& b) { return b.is_before(a); });
      taken_.insert(taken_.end(), near_.begin(), near_.end());
      near_.swap(taken_);
      taken_.clear();
      most_near_ = std::max(kMostSorted, 2 * near_.size());
    }
  }
  void remove_last_rung() {
    spare_.push_back(std::move(rungs_.back()));
    rungs_.pop_back();
  }

  std::vector<Entry> near_;   ///< sorted, the first one last
  std::vector<Rung> rungs_;   ///< the latest first
  std::vector<Rung> spare_;   ///< rungs whose memory is used again
  std::vector<Entry> taken_;  ///< bucket that refill() moves; else empty
  std::size_t most_near_ = kMostSorted;
};

}  // namespace orrery::estimates
