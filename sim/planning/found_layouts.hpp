// Layouts that the search of a plan has found for one cluster and size, as a text: other processes
// search, and the process of the plan prices and plays the found layouts again. Called by
// sim/planning/plan and the Python package. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/workload/layout_choices.hpp"

namespace orrery::sim {

/// Layouts of one cluster and size that are worth playing with all seeds, the earliest date first.
struct FoundLayouts {
  /// One layout on some of the nodes.
  struct Each {
    std::uint32_t job_nodes = 0, global_batch = 0;
    LayoutChoice choice;
  };
  std::string cluster;
  std::uint32_t gpus = 0;
  std::vector<Each> layouts;
};

/// Returns the layouts as JSON text. Example of a layout: {"nodes": 2, "batch": 256, "tensor": 8}.
std::string found_text(const FoundLayouts& found);

/// Returns the layouts of a text of found_text(). Throws bad_input for any other text.
FoundLayouts parse_found(const std::string& text);

}  // namespace orrery::sim
