// List of the GPUs of a job's ranks 0, 1, ..., stored as runs of consecutive ids: 131,072
// consecutive GPUs take eight bytes. Up to two runs need no heap memory. Plain value without shared
// state.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <vector>

#include <boost/container/small_vector.hpp>

#include "core/error.hpp"
#include "core/ids.hpp"

namespace orrery {

/// Ordered list of GPUs with the interface of a read-only vector, stored as runs of consecutive
/// ids. For example, GPUs 4, 5, 6, 9 are the runs {4, 3} and {9, 1}.
class GpuRuns {
 public:
  /// `count` GPUs with the ids `first`, `first` + 1, ...
  struct Run {
    std::uint32_t first = 0, count = 0;
    friend bool operator==(const Run&, const Run&) = default;
  };
  /// Forward iterator over the GPUs; valid until the list changes.
  class Iterator {
   public:
    using value_type = GpuId;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::forward_iterator_tag;
    using pointer = const GpuId*;
    using reference = GpuId;
    Iterator() = default;
    Iterator(const Run* run, std::uint32_t offset) : run_(run), offset_(offset) {}
    GpuId operator*() const { return {run_->first + offset_}; }
    Iterator& operator++() {
      if (++offset_ == run_->count) ++run_, offset_ = 0;
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    const Run* run_ = nullptr;
    std::uint32_t offset_ = 0;
  };
  using value_type = GpuId;
  using const_iterator = Iterator;

  GpuRuns() = default;
  GpuRuns(std::initializer_list<GpuId> gpus) : GpuRuns(gpus.begin(), gpus.end()) {}
  GpuRuns(const std::vector<GpuId>& gpus) : GpuRuns(gpus.begin(), gpus.end()) {}
  template <class It>
  GpuRuns(It begin, It end) {
    for (; begin != end; ++begin) push_back(*begin);
  }
  /// Returns the list of `count` GPUs with consecutive ids from `first` on.
  static GpuRuns range(GpuId first, std::uint32_t count) {
    GpuRuns out;
    out.append_run({first.value, count});
    return out;
  }

  void push_back(GpuId gpu) { append_run({gpu.value, 1}); }
  /// Appends a run, or extends the last run if `run` begins where the last run ends. Ignores an
  /// empty run.
  void append_run(Run run) {
    if (run.count == 0) return;
    size_ += run.count;
    if (!runs_.empty() && runs_.back().first + runs_.back().count == run.first) {
      runs_.back().count += run.count;
    } else {
      runs_.push_back(run);
    }
  }
  void clear() { runs_.clear(), size_ = 0; }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  /// Returns the runs in the order of the ranks, none of them empty; valid until the list changes.
  std::span<const Run> runs() const { return {runs_.data(), runs_.size()}; }
  Iterator begin() const { return {runs_.data(), 0}; }
  Iterator end() const { return {runs_.data() + runs_.size(), 0}; }
  /// Returns the GPU of rank 0; the list must not be empty.
  GpuId front() const { return {runs_.front().first}; }
  /// Returns the GPU of `rank`, in O(runs). Throws an internal Error beyond the end.
  GpuId operator[](std::size_t rank) const {
    for (const Run& run : runs_) {
      if (rank < run.count) return {run.first + static_cast<std::uint32_t>(rank)};
      rank -= run.count;
    }
    throw Error(ErrorKind::internal, "a rank stands on a GPU of its job");
  }
  /// Returns true if the list contains `gpu`, in O(runs).
  bool contains(GpuId gpu) const {
    return std::any_of(runs_.begin(), runs_.end(), [gpu](const Run& run) {
      return gpu.value - run.first < run.count;
    });
  }
  std::vector<GpuId> to_vector() const {
    std::vector<GpuId> out;
    out.reserve(size_);
    for (const Run& run : runs_) {
      for (std::uint32_t i = 0; i < run.count; ++i) out.push_back({run.first + i});
    }
    return out;
  }
  friend bool operator==(const GpuRuns&, const GpuRuns&) = default;

 private:
  boost::container::small_vector<Run, 2> runs_;
  std::size_t size_ = 0;
};

}  // namespace orrery
