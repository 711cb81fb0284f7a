#include "sim/estimates/step/collective_order.hpp"

#include <algorithm>
#include <map>

namespace orrery::estimates {

CollectiveOrder collective_order(const GroupPlan& group, const StepPrograms& programs) {
  const auto list_of = [&](std::uint32_t of_class) -> const std::vector<std::uint32_t>& {
    return programs.index(of_class, group.stage).collectives(group.communicator);
  };
  const std::uint32_t longest = *std::max_element(
      group.classes.begin(), group.classes.end(),
      [&](std::uint32_t a, std::uint32_t b) { return list_of(a).size() < list_of(b).size(); });
  const std::vector<Op>& ops = programs.index(longest, group.stage).ops();
  CollectiveOrder order;
  std::map<ProgramIndex::CollectiveKey, std::uint32_t> place_of;
  for (const std::uint32_t op : list_of(longest)) {
    place_of[ProgramIndex::key_of(ops[op])] = static_cast<std::uint32_t>(order.ops.size());
    order.ops.push_back(&ops[op]);
  }
  for (const std::uint32_t of_class : group.classes) {
    order.places.emplace_back();
    if (&list_of(of_class) == &list_of(longest)) continue;
    std::vector<std::uint32_t>& places = order.places.back().emplace();
    const std::vector<Op>& own = programs.index(of_class, group.stage).ops();
    for (const std::uint32_t op : list_of(of_class)) {
      places.push_back(place_of.at(ProgramIndex::key_of(own[op])));
    }
  }
  return order;
}

}  // namespace orrery::estimates
