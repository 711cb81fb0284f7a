// Sizes of the elastic jobs of a log: the columns min_gpus, max_gpus and scaling of the canonical
// form and of other tables. Called by the readers of logs and by sim/replay/recorded_jobs. Pure
// functions and plain values; thread-safe.
//
// scaling is a number or a table. A number from 0.5 to 1 is the efficiency of a doubling: twice the
// GPUs give twice that number times the speed, so the speed on n GPUs is n^(1 + log2(scaling)). A
// table has GPUs and speeds, `1:60 2:110 8:380`, in any unit; speeds between two of its entries lie
// on a straight line. Without scaling, a job is as fast as its GPUs are many (efficiency 1).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "traces/jobs/label.hpp"

namespace orrery {

/// Columns of a row about sizes, as texts; empty: absent.
struct SizeColumns {
  std::string_view min_gpus, max_gpus, scaling;
};

/// Names of these columns, in the order of SizeColumns.
constexpr std::array<std::string_view, 3> kSizeColumns{"min_gpus", "max_gpus", "scaling"};

/// Exception of elastic_sizes(): a column has an impossible value.
struct SizeProblem {
  std::string_view column;  ///< one of kSizeColumns
  std::string reason;       ///< reason for a message
};

/// Sizes that a job may have, and its speed on each. For example, a job of 8 GPUs with min_gpus 2
/// and the scaling 0.9 has 1 / (2 x 0.9)^2 = 0.31 of its speed on 2 GPUs.
class ElasticSizes {
 public:
  /// Reads a text of elastic_sizes(), which must not be empty.
  explicit ElasticSizes(const std::string& text);

  std::uint32_t least() const { return least_; }  ///< smallest number of GPUs
  std::uint32_t most() const { return most_; }    ///< largest number of GPUs
  /// Returns the column scaling; empty: none.
  const std::string& scaling() const { return scaling_; }
  /// Returns the speed on `gpus` GPUs over the speed on `asked` GPUs, both from least() to most().
  /// Above 0.
  double relative_speed(std::uint32_t gpus, std::uint32_t asked) const;

 private:
  double speed(std::uint32_t gpus) const;

  std::uint32_t least_ = 0, most_ = 0;
  std::string scaling_;
  double exponent_ = 1;  ///< exponent of the number of GPUs, without a table
  std::vector<std::pair<std::uint32_t, double>> table_;  ///< GPUs, ascending, and speeds
};

/// Returns the sizes of a job that asks for `gpus` GPUs as one text, which ElasticSizes reads;
/// empty if all columns are. An absent min_gpus or max_gpus is `gpus`. Throws a SizeProblem if a
/// column is malformed, `gpus` is not between min_gpus and max_gpus, or the table lacks some of the
/// sizes.
std::string elastic_sizes(const SizeColumns& columns, std::uint32_t gpus);

}  // namespace orrery
