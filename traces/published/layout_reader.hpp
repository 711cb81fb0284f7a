// Reader of the layout of a published run over its GPUs, and of the sharding of its states among
// replicas. Part of published_run.cpp; one thread.
#pragma once

#include <cstdint>

#include "traces/published/job_draft.hpp"

namespace orrery {

/// Reader of the layout columns of a row.
class LayoutReader {
 public:
  /// Constructs a reader; the draft must outlive it.
  explicit LayoutReader(JobDraft& draft) : draft_(draft) {}

  /// Sets the parallel sizes of the draft. Throws Refusal if a required column is missing or the
  /// sizes do not fit the number of GPUs.
  void read_layout();
  /// Sets the sharding of the draft. Call after read_layout() and once the draft has
  /// its framework's habits, its model, its cluster and its precision (not checked). Throws Refusal
  /// for an unknown sharding.
  void read_sharding();

 private:
  void read_chunks();
  void read_context();
  void read_mode(const std::string& text);
  std::uint32_t least_group() const;

  const TableRow& row() const { return draft_.row(); }
  Layout& layout() const { return draft_.layout(); }

  JobDraft& draft_;
};

}  // namespace orrery
