// Orders that an operator has left in a run's folder, but for the one to stop: each a file of JSON,
// written beside its place and renamed, whose name says in which order they came. One thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policies/handover/hand_over.hpp"
#include "policies/seam/event.hpp"

namespace orrery::live {

struct Order {
  std::string file;                 ///< where it stands, until it has been carried out
  std::optional<ParameterSet> set;  ///< {"set": {"policy": .., "parameter": .., "value": ".."}}
  std::optional<Verdict> verdict;   ///< {"verdict": {"decision": 12, "accepted": true}}
  std::string fault;                ///< why it is no order
};

/// All that are there, in their order.
std::vector<Order> read_orders(const std::string& folder);

}  // namespace orrery::live
