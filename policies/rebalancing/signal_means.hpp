// Means of the device and link signals of the ranks of a job in one step, and their changes from
// one step to the next. Used by job_watch; one thread.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "policies/rebalancing/signal_model.hpp"
#include "policies/seam/lower_median.hpp"

namespace orrery {

/// Changes of one signal from one step to the next, by rank. One object serves computation after
/// computation: the change of the median rank at the last one is a guess for the next one.
struct ChangeColumn {
  std::vector<double> values;  ///< minus the change of the median rank; undefined if `small`
  bool small = false;          ///< true: no square of a change exceeds the limit
  double common = 0;           ///< change of the median rank when it was computed last
  MedianGuess guess;
  std::vector<double> known;  ///< buffer for the known changes
  /// Returns the change of a rank; 0 if all changes are small.
  double change_of(std::size_t rank) const { return small ? 0 : values[rank]; }
};

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
                              std::size_t signal, ChangeColumn& out);
  /// Computes the changes as compute_changes() does, unless bounds of the change of the median rank
  /// show that no square of a change exceeds `limit`: then `small` is true and no median is
  /// computed. For example, while a step goes on as the step before did.
  static void compute_large_changes(const StepSignals& before, const StepSignals& current,
                                    std::size_t signal, double limit, ChangeColumn& out);

  /// Writes the sums and counts of a rank to a ByteWriter, or reads them from a ByteReader.
  template <class Self, class Archive>
  static void fields(Self& self, std::size_t rank, Archive& archive) {
    static_assert(kSignals == 3);
    auto &a = self.signals_[0], &b = self.signals_[1], &c = self.signals_[2];
    archive(a.sum[rank], b.sum[rank], c.sum[rank], a.count[rank], b.count[rank], c.count[rank]);
  }

 private:
  struct Signal {
    std::vector<double> sum, count;
    mutable std::vector<double> mean;  ///< empty: not computed since the last value
  };
  /// Returns the means of a signal.
  static const std::vector<double>& means_of(const Signal& signal);

  std::array<Signal, kSignals> signals_;
};

}  // namespace orrery
