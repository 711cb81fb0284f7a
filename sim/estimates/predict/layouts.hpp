// Which layout of a job is the fastest on a cluster: all of them priced and ranked, each with its
// memory and intervals, and why the first one wins. Layouts that do not fit are not priced. Called
// by `orrery layouts` and orrery.layouts(). One thread; no state between calls. Seconds, bytes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/estimates/predict/estimate.hpp"
#include "sim/estimates/predict/interval.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"
#include "traces/training/layout_choices.hpp"

namespace orrery::estimates {

struct PricedLayout {
  enum class Status { ok, out_of_memory, impossible } status{};
  LayoutChoice choice;
  StepEstimate estimate;  ///< out of memory: its memory only
  Interval interval;
  std::string reason;     ///< what would make it fit, or why it cannot be
};
const char* name_of(PricedLayout::Status status);

struct LayoutSearch {
  std::vector<PricedLayout> layouts;  ///< the fastest first, then those without room
  std::size_t fitting = 0;            ///< how many of them are ok
  double tokens = 0;                  ///< of a step
  std::string why;  ///< the first against the second, and against one that divides otherwise
};

/// Of `job`, resolved, on all GPUs of the cluster.
LayoutSearch search_layouts(const Job& job, const Cluster& cluster);

/// The first `top` layouts (0: all): one object, or one row each under a header.
std::string layouts_json(const LayoutSearch& search, const std::vector<std::string>& assumed,
                         std::size_t top);
std::string layouts_csv(const LayoutSearch& search, std::size_t top);

}  // namespace orrery::estimates
