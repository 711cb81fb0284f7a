// Of the links that flows cross, those that decide: links that constrain the same flows in the
// same way are one, and links that cannot be full, whatever goes on at once, are left out. The
// rates that a fair network gives the flows are the same. Called by sim/plan. Pure; thread-safe.
// Bytes per second.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "sim/collectives.hpp"

namespace orrery {

struct BindingLinks {
  struct Link {
    LinkId link;  ///< the first of those that are one
    double bandwidth = 0;
  };
  std::vector<Link> links;
  std::map<std::uint32_t, std::uint32_t> pinned;  ///< LinkId -> place in `links`
  /// By flow: places in `links`, ascending, each as often as it counts.
  std::vector<std::vector<std::uint32_t>> of_flow;
};

/// `flows`: the links of each, ascending, below `link_count`. Links of `pinned` may change and are
/// kept as they are.
BindingLinks binding_links(const std::vector<std::vector<LinkLoad>>& flows,
                           std::uint32_t link_count,
                           const std::function<double(LinkId)>& bandwidth,
                           const std::set<std::uint32_t>& pinned);

}  // namespace orrery
