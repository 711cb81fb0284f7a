// Order of the collectives between a step's workers. Used by sim/estimates/step/collective_queues
// and sim/estimates/step/flow_graph. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/estimates/plan/plan.hpp"
#include "sim/estimates/step/step_programs.hpp"

namespace orrery::estimates {

/// Collectives of one group of a plan in the order in which the group executes them. The longest
/// program of the group determines the order; a class with fewer micro-batches does not take part
/// in the collectives of the missing ones.
struct CollectiveOrder {
  std::vector<const Op*> ops;  ///< operations of the longest program
  /// Index in `ops` of each collective of a class's program, by class as in the plan's group;
  /// nothing if the program is the longest one, with equal indices.
  std::vector<std::optional<std::vector<std::uint32_t>>> places;

  /// Returns the index in `ops` of a class's collective `ordinal`; `of_class`: index of the class
  /// in the plan's group.
  std::uint32_t place_of(std::size_t of_class, std::uint32_t ordinal) const {
    return places[of_class] ? (*places[of_class])[ordinal] : ordinal;
  }
};

/// Returns the order of a group. The programs must outlive the result. Throws std::out_of_range if
/// the longest program lacks a collective of another class.
CollectiveOrder collective_order(const GroupPlan& group, const StepPrograms& programs);

}  // namespace orrery::estimates
