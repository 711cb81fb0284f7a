// Published run during its conversion to a job: the row, the known habits of the run's framework,
// and the assumptions so far. Shared by the parts of published_run.cpp; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "traces/published/published_model.hpp"
#include "traces/published/published_run.hpp"
#include "traces/published/published_table.hpp"
#include "traces/workload/framework.hpp"

namespace orrery {

/// Job under construction.
class JobDraft {
 public:
  /// Constructs an empty draft; both arguments must outlive it.
  JobDraft(const TableRow& row, PublishedRun& run) : row_(row), run_(run) {}

  const TableRow& row() const { return row_; }
  PublishedRun& run() const { return run_; }
  Job& job() const { return run_.job; }
  Layout& layout() const { return *run_.job.mutable_layout(); }
  /// Returns the framework's habits; those of a default FrameworkHabits before behaves_as().
  const FrameworkHabits& habits() const { return habits_; }
  /// Sets the framework's habits; changes nothing else of the draft.
  void behaves_as(const FrameworkHabits& habits) { habits_ = habits; }
  /// Returns true if the run has several stages and its framework splits the batch between stages.
  bool splits_batch() const { return habits_.splits_batch && row_.pp.value_or(1) > 1; }
  /// Returns the memory of one GPU of the cluster in bytes; nothing if the cluster does not
  /// describe it.
  std::optional<double> gpu_memory() const {
    std::optional<double> memory;
    for (const GpuSpec& gpu : run_.cluster.gpus()) {
      if (gpu.name() == run_.cluster.node().gpu()) memory = gpu.memory();
    }
    return memory;
  }

  /// Appends an assumption, formatted as by fmt::format(), to the run.
  template <class... Values>
  void add_assumption(fmt::format_string<Values...> text, Values&&... values) const {
    run_.assumed.push_back(fmt::format(text, std::forward<Values>(values)...));
  }
  /// Returns the count. Throws Refusal if the row has none.
  static std::uint32_t required_count(const TableRow::Count& count, std::string_view column) {
    if (!count) throw Refusal{fmt::format("'{}' is missing", column)};
    return *count;
  }
  /// Returns the count; 1 with a recorded assumption if the row has none.
  std::uint32_t or_one(const TableRow::Count& count, std::string_view column) const {
    if (!count) add_assumption("{} 1", column);
    return count.value_or(1);
  }

 private:
  const TableRow& row_;
  PublishedRun& run_;
  FrameworkHabits habits_;
};

/// Returns true if `text` contains `part`.
inline bool mentions(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace orrery
