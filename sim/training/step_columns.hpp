// Rows and columns without errors that the telemetry of a fitted job shows more than once: those
// that are equal at all instants of a step, or from some instant of the step on. sim/training/
// telemetry computes them on the first request and takes later requests from here. One thread.
// Nanoseconds of the policy clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "policies/seam/sample_columns.hpp"
#include "sim/estimates/step/played_step.hpp"

namespace orrery::sim {

/// Rows of one placement, and columns of one played step. Rows are shared with readers and never
/// change: other rows are another object. Columns are those of the newest step for which one was
/// stored. A step is identified by its object, because a step that is opened again after a change
/// has the same number and the same start. For example, the utilization of a step is stored at its
/// first look; the time of a micro-batch once each rank has surely ended one.
class StepColumns {
 public:
  /// Returns the rows of the ranks `numbers` in `step`. Equal steps have one object until
  /// forget_ranks(), which must follow a change of the numbers.
  const std::shared_ptr<const SampleRows>& rank_rows(const std::vector<std::uint32_t>& numbers,
                                                     Step step) {
    if (ranks_ == nullptr || ranks_->steps.front() != step) {
      ranks_ = std::make_shared<SampleRows>(SampleRows{
          .ids = numbers, .to = {}, .steps = std::vector<Step>(numbers.size(), step)});
    }
    return ranks_;
  }
  /// Forgets the rows of the ranks, so that the next ones are another object.
  void forget_ranks() { ranks_.reset(); }
  /// Returns the rows of the GPUs, always one object: `placement` must be the same in all calls.
  const std::shared_ptr<const SampleRows>& device_rows(const std::vector<GpuId>& placement) {
    if (devices_ == nullptr) {
      SampleRows rows;
      for (const GpuId gpu : placement) rows.ids.push_back(gpu.value);
      devices_ = std::make_shared<SampleRows>(std::move(rows));
    }
    return devices_;
  }

  /// Returns the values of a column that were stored for `step` and are valid at `now`; null if
  /// there are none. Valid until the next store_column().
  const std::vector<double>* find_column(SampleField field, const estimates::PlayedStep& step,
                                         Nanos now) const {
    return find_values(columns_[static_cast<std::size_t>(field)], step, now);
  }
  /// Stores the values of a column that is equal at all instants of `step` from `from` on. Forgets
  /// the columns of another step.
  void store_column(SampleField field, const estimates::PlayedStep& step, Nanos from,
                    const std::vector<double>& values) {
    store_values(columns_[static_cast<std::size_t>(field)], step, from, values);
  }
  /// Returns the number of micro-batches of each rank in `step`; null if it was not stored.
  const std::vector<double>* find_counts(const estimates::PlayedStep& step) const {
    return find_values(counts_, step, step.start());
  }
  /// Stores the number of micro-batches of each rank in `step`, as store_column().
  void store_counts(const estimates::PlayedStep& step, const std::vector<double>& counts) {
    store_values(counts_, step, step.start(), counts);
  }
  /// Forgets all columns, and keeps their memory. Call before the object of a step goes, and when
  /// the values of a step change.
  void forget_columns() {
    step_ = nullptr;
    for (Column& column : columns_) column.from = kNever;
    counts_.from = kNever;
  }

 private:
  struct Column {
    Nanos from = kNever;  ///< first instant at which the values are valid; kNever: no values
    std::vector<double> values;
  };
  const std::vector<double>* find_values(const Column& column, const estimates::PlayedStep& step,
                                         Nanos now) const {
    return step_ == &step && now >= column.from ? &column.values : nullptr;
  }
  void store_values(Column& column, const estimates::PlayedStep& step, Nanos from,
                    const std::vector<double>& values) {
    if (step_ != &step) forget_columns();
    step_ = &step;
    column.from = from;
    column.values = values;
  }

  std::shared_ptr<const SampleRows> ranks_, devices_;
  const estimates::PlayedStep* step_ = nullptr;  ///< step of the columns; null: no columns
  std::array<Column, kSampleFields> columns_;
  Column counts_;  ///< micro-batches of each rank
};

}  // namespace orrery::sim
