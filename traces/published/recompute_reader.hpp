// Reader of the recomputation of a published run in its backward passes: from the row, else from
// the framework's habits, else the least recomputation with which the step fits into the memory.
// Part of published_run.cpp; one thread.
#pragma once

#include <string>

#include "traces/published/job_draft.hpp"

namespace orrery {

/// Reader of the recomputation of a row.
class RecomputeReader {
 public:
  /// Constructs a reader; the draft must outlive it.
  explicit RecomputeReader(JobDraft& draft) : draft_(draft) {}

  /// Sets the recomputation of the draft, and records an assumption if the row does not give it.
  /// Call after all other columns and defaults.
  void apply_recompute();

 private:
  bool fits(const std::string& recompute) const;

  JobDraft& draft_;
};

}  // namespace orrery
