// Kinds of GPUs that the jobs of a log may use: the columns gpu_kind and speeds of the canonical
// form, and the kinds that other tables name. Called by the readers of logs and by sim/replay. Pure
// functions and plain values; thread-safe.
//
// gpu_kind has names between bars, `A100|V100`; empty: any kind. speeds has a relative speed for
// each of them, `A100:1 V100:0.45`, in any unit; without speeds, a job is as fast on every kind.
// The duration of a job is that on the first kind of gpu_kind, or of speeds if gpu_kind is empty.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// Columns of a row about kinds of GPUs, as texts; empty: absent.
struct KindColumns {
  std::string_view gpu_kind, speeds;
};

/// Names of these columns, in the order of KindColumns.
constexpr std::array<std::string_view, 2> kKindColumns{"gpu_kind", "speeds"};

/// Exception of gpu_kinds(): a column has an impossible value.
struct KindProblem {
  std::string_view column;  ///< one of kKindColumns
  std::string reason;       ///< reason for a message
};

/// Kind of GPU that a job may use.
struct KindSpeed {
  std::string kind;
  double speed = 1;  ///< speed of the job over its speed on the kind of its duration; above 0
};

/// Kinds that a job may use. For example, a job of `V100|A100` with the speeds `A100:1 V100:0.5`
/// takes half of its duration on an A100, which it prefers.
class GpuKinds {
 public:
  /// Reads a text of gpu_kinds(), which must not be empty.
  explicit GpuKinds(const std::string& text);

  /// Returns the kinds, the fastest first; equally fast ones in the order of the column gpu_kind.
  const std::vector<KindSpeed>& by_speed() const { return by_speed_; }
  /// Returns the speed on a kind; null if the job may not use the kind.
  const double* speed_on(std::string_view kind) const;
  /// Returns true if the speed is not the same on all kinds.
  bool has_speeds() const { return by_speed_.front().speed != by_speed_.back().speed; }
  const std::string& gpu_kind() const { return gpu_kind_; }  ///< column gpu_kind
  const std::string& speeds() const { return speeds_; }      ///< column speeds; empty: none

 private:
  std::vector<KindSpeed> by_speed_;
  std::string gpu_kind_, speeds_;
};

/// Returns the kinds of a job as one text, which GpuKinds reads; empty if both columns are. Throws
/// a KindProblem if a column is malformed, or speeds lacks a kind of gpu_kind.
std::string gpu_kinds(const KindColumns& columns);

}  // namespace orrery
