// Reader of the recomputation of a published run in its backward passes: from the row, else from
// the framework's habits, else from the memory: none if the step fits without, otherwise selective.
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

  /// Sets the recomputation of the draft, and records an assumption if the row does not give it:
  /// none if the step then fits into the memory, otherwise selective, whether or not it fits then;
  /// full only for a framework that recomputes to fit. Sets the offload of activations too if the
  /// row names it there and no other offload. Call after all other columns and defaults.
  void apply_recompute();

 private:
  bool fits(const std::string& recompute) const;

  JobDraft& draft_;
};

}  // namespace orrery
