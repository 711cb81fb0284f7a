// Orders of an operator in a run's folder, except the order to stop. Each order is a JSON file that
// is written beside its final path and renamed; the names are in the order of arrival.
// Single-threaded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policies/handover/hand_over.hpp"
#include "policies/seam/event.hpp"
#include "topologies/part.hpp"

namespace orrery::live {

/// Order to announce the removal of a GPU or node.
struct RemovalOrder {
  Part part;
  Nanos notice = 0;                 ///< Time until the removal, above 0.
  std::optional<Nanos> lasts = {};  ///< Time from the removal to the return; none: no return.
  bool test = false;                ///< The part is tested when it returns.
};

/// One order of the operator.
struct Order {
  std::string file;  ///< Path of the file, which exists until the order has been applied.
  /// Parameter to set: {"set": {"policy": .., "parameter": .., "value": ".."}}.
  std::optional<ParameterSet> set;
  /// Verdict on a decision: {"verdict": {"decision": 12, "accepted": true}}.
  std::optional<Verdict> verdict;
  /// Removal to announce: {"drain": {"part": "node", "index": 1, "in_s": 30, "for_s": 600, "test":
  /// true}}, without for_s if the part does not return.
  std::optional<RemovalOrder> removal;
  std::string fault;  ///< Reason why the file is not a valid order.
};

/// Returns all orders in `folder`, in the order of arrival (of the file names), invalid ones with
/// their `fault` alone; none if the folder cannot be read or holds no
/// order. Reads at most 64 KiB of a file. Deletes no file.
std::vector<Order> read_orders(const std::string& folder);

}  // namespace orrery::live
