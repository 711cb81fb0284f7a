// How a published run was laid out over its GPUs, and how its states were sharded among replicas.
// A part of published_run.cpp; one thread.
#pragma once

#include <cstdint>

#include "traces/published/job_draft.hpp"

namespace orrery {

class LayoutReader {
 public:
  /// The draft outlives this.
  explicit LayoutReader(JobDraft& draft) : draft_(draft) {}

  // Throw Refusal for what is none that is known, or does not fit the GPUs.
  void take_layout();
  /// Behind the precision; buckets too.
  void take_sharding();

 private:
  void take_chunks();
  void take_expert_tensor();
  void take_mode(const std::string& text);
  void take_buckets();
  std::uint32_t least_group() const;

  const TableRow& row() const { return draft_.row(); }
  Layout& layout() const { return draft_.layout(); }

  JobDraft& draft_;
};

}  // namespace orrery
