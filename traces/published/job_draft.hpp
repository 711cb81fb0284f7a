// A published run on its way to a job: the row that is read, what its framework is known to do, and
// what has had to be assumed so far. Shared by the parts of published_run.cpp; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "traces/published/published_model.hpp"
#include "traces/published/published_run.hpp"
#include "traces/published/published_table.hpp"
#include "traces/training/framework.hpp"

namespace orrery {

class JobDraft {
 public:
  /// Both outlive this.
  JobDraft(const TableRow& row, PublishedRun& run) : row_(row), run_(run) {}

  const TableRow& row() const { return row_; }
  PublishedRun& run() const { return run_; }
  Job& job() const { return run_.job; }
  Layout& layout() const { return *run_.job.mutable_layout(); }
  /// Of the framework, once that is known.
  const FrameworkHabits& habits() const { return habits_; }
  void behaves_as(const FrameworkHabits& habits) { habits_ = habits; }
  /// Its habits are to split the batch between stages.
  bool splits_batch() const { return habits_.splits_batch && row_.pp.value_or(1) > 1; }
  /// Bytes of one GPU of the cluster; nothing: it is not among those that the cluster names.
  std::optional<double> gpu_memory() const {
    std::optional<double> memory;
    for (const GpuSpec& gpu : run_.cluster.gpus()) {
      if (gpu.name() == run_.cluster.node().gpu()) memory = gpu.memory();
    }
    return memory;
  }

  template <class... Values>
  void assume(fmt::format_string<Values...> text, Values&&... values) const {
    run_.assumed.push_back(fmt::format(text, std::forward<Values>(values)...));
  }
  /// Throws Refusal if the row does not say.
  static std::uint32_t needed(const TableRow::Count& count, std::string_view column) {
    if (!count) throw Refusal{fmt::format("'{}' is missing", column)};
    return *count;
  }
  /// A count, or 1 with a word about it.
  std::uint32_t or_one(const TableRow::Count& count, std::string_view column) const {
    if (!count) assume("{} 1", column);
    return count.value_or(1);
  }

 private:
  const TableRow& row_;
  PublishedRun& run_;
  FrameworkHabits habits_;
};

inline bool mentions(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace orrery
