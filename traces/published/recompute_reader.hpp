// What a published run computed again in its backward passes: as the row says, else as the
// framework does, else as little as its memory allows. A part of published_run.cpp; one thread.
#pragma once

#include <string>

#include "traces/published/job_draft.hpp"

namespace orrery {

class RecomputeReader {
 public:
  /// The draft outlives this.
  explicit RecomputeReader(JobDraft& draft) : draft_(draft) {}

  /// Behind everything else, defaults included.
  void take();

 private:
  bool fits(const std::string& recompute) const;

  JobDraft& draft_;
};

}  // namespace orrery
