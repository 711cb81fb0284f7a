#include "live/run/losses/part_tests.hpp"

#include <algorithm>

namespace orrery::live {

bool PartTests::is_tested(const PartChanged& change) const {
  return change.to.health == Health::ok && world_.state().is_lost(change.part) &&
         faults_.has_test(change.part);
}

std::vector<std::uint32_t> PartTests::seats_of(Part part) const {
  std::vector<std::uint32_t> seats;
  for (const GpuId gpu : gpus_of(world_.cluster(), part)) {
    const bool used = placement_.job().gpus.contains(gpu);
    if (gpu.value < placement_.seats() && !used) seats.push_back(gpu.value);
  }
  return seats;
}

std::vector<std::uint32_t> PartTests::seats(Step step, Nanos now) const {
  std::vector<std::uint32_t> all;
  for (const PartChanged& change : faults_.part_changes(world_.state(), step, now)) {
    if (!is_tested(change)) continue;
    const std::vector<std::uint32_t> seats = seats_of(change.part);
    all.insert(all.end(), seats.begin(), seats.end());
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::vector<std::uint32_t> PartTests::waiting_seats(std::uint32_t warm, Step step,
                                                    Nanos now) const {
  std::vector<std::uint32_t> waiting = placement_.spare_seats(warm);
  const std::vector<std::uint32_t> tested = seats(step, now);
  waiting.insert(waiting.end(), tested.begin(), tested.end());
  return waiting;
}

std::vector<PartChanged> PartTests::part_changes(Step step, Nanos now) const {
  std::vector<PartChanged> changes = faults_.part_changes(world_.state(), step, now);
  std::erase_if(changes, [this](const PartChanged& change) {
    const std::vector<std::uint32_t> seats = seats_of(change.part);
    return is_tested(change) && !std::all_of(seats.begin(), seats.end(), [this](auto seat) {
             return control_.states().at(seat).is_answering_spare;
           });
  });
  return changes;
}

}  // namespace orrery::live
