// Orders of an operator in a run's folder, except the order to stop. Each order is a JSON file that
// is written beside its final path and renamed; the names are in the order of arrival.
// Single-threaded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policies/handover/hand_over.hpp"
#include "policies/seam/event.hpp"

namespace orrery::live {

/// One order of the operator.
struct Order {
  std::string file;  ///< Path of the file, which exists until the order has been applied.
  /// Parameter to set: {"set": {"policy": .., "parameter": .., "value": ".."}}.
  std::optional<ParameterSet> set;
  /// Verdict on a decision: {"verdict": {"decision": 12, "accepted": true}}.
  std::optional<Verdict> verdict;
  std::string fault;  ///< Reason why the file is not a valid order.
};

/// Returns all orders in `folder`, in the order of arrival (of the file names), invalid ones with
/// their `fault` and neither `set` nor `verdict`; none if the folder cannot be read or holds no
/// order. Reads at most 64 KiB of a file. Deletes no file.
std::vector<Order> read_orders(const std::string& folder);

}  // namespace orrery::live
