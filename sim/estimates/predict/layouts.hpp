// Search for the fastest layout of a job on a cluster. Called by `orrery layouts` and
// orrery.layouts(). One thread; no state between calls. Seconds, bytes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/estimates/predict/estimate.hpp"
#include "sim/estimates/predict/interval.hpp"
#include "sim/estimates/prices/machine_costs.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"
#include "traces/workload/layout_choices.hpp"

namespace orrery::estimates {

/// Layout with its estimate and interval, or with the reason against it.
struct PricedLayout {
  enum class Status { ok, out_of_memory, impossible } status{};
  LayoutChoice choice;
  StepEstimate estimate;  ///< estimate; only its memory if out of memory
  Interval interval;
  std::string reason;  ///< remedy for a layout without room, or the objection to an impossible one
};
/// Returns the name of a status: "ok", "out-of-memory" or "impossible".
const char* name_of(PricedLayout::Status status);

/// Result of a search: all layouts priced and ranked, with the reason why the first one wins.
/// Layouts that do not fit are not priced.
struct LayoutSearch {
  /// Fastest first, then layouts without room, then impossible ones.
  std::vector<PricedLayout> layouts;
  std::size_t fitting = 0;  ///< number of layouts with status ok
  double tokens = 0;        ///< tokens of a step
  /// Comparison of the first layout with the second, and with the first one that divides the GPUs
  /// otherwise; empty if fewer than two layouts fit.
  std::string why;
};

/// Basis of a search beside the job.
struct LayoutBasis {
  /// Framework whose choices each layout takes (apply_habits()); null: the values of the job.
  const FrameworkHabits* habits = nullptr;
  bool complete = true;       ///< false: values that a time depends on were assumed (interval_of())
  MachineCosts machine = {};  ///< values that replace the catalogue's prices
};

/// Returns one layout of `job`, which must be resolved, priced as search_layouts() prices it; the
/// reason of a layout that does not fit names no remedy.
PricedLayout price_layout(const Job& job, const Cluster& cluster, const LayoutBasis& basis,
                          LayoutChoice choice);

/// Returns why the step of `first` is shorter than that of `second`, both with status ok: the part
/// with the most savings, the part with the most losses, and the memory.
std::string compare_layouts(const PricedLayout& first, const PricedLayout& second);

/// Returns the ranked layouts of `job`, which must be resolved, on all GPUs of the cluster: by step
/// time, those without room by the memory that they need. The reason of a layout that does not fit
/// names a remedy; an Error of one layout makes it impossible and is not thrown.
LayoutSearch search_layouts(const Job& job, const Cluster& cluster, const LayoutBasis& basis = {});

/// Returns the first `top` layouts (0: all) as one JSON object; `assumed` is copied into it. Values
/// that a layout lacks are null.
std::string layouts_json(const LayoutSearch& search, const std::vector<std::string>& assumed,
                         std::size_t top);
/// Returns the first `top` layouts (0: all) as CSV: one row each, under a header; "" without
/// layouts.
std::string layouts_csv(const LayoutSearch& search, std::size_t top);

}  // namespace orrery::estimates
