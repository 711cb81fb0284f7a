// Promise of `./dev bench own` for stacks of own runs, and the test of its results: five runs halve
// the median error of a family where it is above 15% with none, and make no other family worse by a
// point; the 80% intervals hold 70 to 90% of the other runs. A family that no predictor can halve
// from the columns of its table is excused. Called by own_main.cpp. Thread-safe: no state.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace orrery {

/// Results of one family for one number of own runs. Medians of absolute relative errors: without
/// own runs, with them, and a lower bound of any predictor that sees the columns of the table only.
struct FamilyResult {
  std::string name;
  std::size_t rows = 0;
  double before = 0, after = 0;
  double least = 0;
  double covered = 0;  ///< share of the other runs inside their 80% intervals
};

/// Errors above this one are to be halved, others are not to grow by more than a point.
inline constexpr double kLargeError = 0.15, kPoint = 0.01;
/// Number of own runs for which families are judged one by one.
inline constexpr std::size_t kJudgedRuns = 5;
/// Least number of families whose mean coverage is judged: one family moves it by a fifth at most.
inline constexpr std::size_t kLeastFamilies = 5;

/// Returns lower bounds of the absolute relative errors of one prediction for several runs, the
/// smallest first; the k-th bound holds for the k-th smallest error of every prediction. `values`:
/// logarithms of the measured times. For example, 0 and 0.1 give bounds of 0 and tanh(0.05).
std::vector<double> least_errors(std::vector<double> values);

/// Returns true if the error of a family is at most half of the one with none.
bool is_halved(const FamilyResult& of);
/// Returns true if a family is as promised: halved or excused above 15%, elsewhere not worse.
bool is_as_promised(const FamilyResult& of);
/// Returns the mean coverage of at least one family.
double mean_coverage(const std::vector<FamilyResult>& families);

/// Returns a line for each way in which the results of a table for `runs` own runs are not as
/// promised; nothing if they are.
std::vector<std::string> broken_promises(std::size_t runs,
                                         const std::vector<FamilyResult>& families);

}  // namespace orrery
