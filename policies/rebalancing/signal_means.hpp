// Means of the device and link signals of the ranks of a job in one step, and their changes from
// one step to the next. Used by job_watch; one thread.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "policies/rebalancing/signal_model.hpp"

namespace orrery {

/// Sums and counts of the signals of each rank over the samples of one step.
class StepSignals {
 public:
  /// Begins means of so many ranks without values.
  void clear(std::size_t ranks);
  /// Adds a value of a signal of a rank, which must be below the number of ranks.
  void add(std::size_t signal, std::size_t rank, double value) {
    signals_[signal].sum[rank] += value;
    signals_[signal].count[rank] += 1;
    signals_[signal].mean.clear();
  }
  /// Adds a value of a signal of each rank, by rank; ignores values outside of `least` to `most`.
  void add_values(std::size_t signal, std::span<const double> values, double least, double most);
  /// Computes the change of a signal from the mean of `before` to that of `current`, by rank, minus
  /// the change of the median rank: when one rank is late, all others wait, and their signals say
  /// nothing about them. Changes are limited to -1 to 1; 0 without a value in both steps. Both
  /// must have equally many ranks.
  static void compute_changes(const StepSignals& before, const StepSignals& current,
                              std::size_t signal, std::vector<double>& out);

  /// Writes the sums and counts of a rank to a ByteWriter, or reads them from a ByteReader.
  template <class Self, class Archive>
  static void fields(Self& self, std::size_t rank, Archive& archive) {
    for (auto& each : self.signals_) archive(each.sum[rank]);
    for (auto& each : self.signals_) archive(each.count[rank]);
  }

 private:
  struct Signal {
    std::vector<double> sum, count;
    mutable std::vector<double> mean;  ///< empty: not computed since the last value
  };
  std::array<Signal, kSignals> signals_;
};

}  // namespace orrery
