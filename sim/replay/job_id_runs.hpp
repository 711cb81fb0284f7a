// Job ids of the jobs of a log, by number. The ids are consecutive except where other jobs were
// submitted in between. Owned by sim/replay/recorded_jobs; one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ids.hpp"

namespace orrery::sim {

/// Map between the numbers of a log's jobs and their ids in the world, stored as runs of
/// consecutive ids. For example, if a training job gets id 2, numbers 0, 1, 2, 3 have ids 0, 1, 3,
/// 4.
class JobIdRuns {
 public:
  /// Adds the id of the job `number`. Numbers are added in ascending order, from the first one on.
  void add(std::uint32_t number, JobId id) {
    if (runs_.empty() || id_of(number) != id) runs_.push_back({number, id.value});
  }
  /// Returns the id of the job `number`, which must have been added.
  JobId id_of(std::uint32_t number) const {
    auto run = runs_.end() - 1;
    while (run->number > number) --run;
    return {run->id + (number - run->number)};
  }
  /// Returns the number of the job `id`, which must have been added.
  std::uint32_t number_of(JobId id) const {
    auto run = runs_.end() - 1;
    while (run->id > id.value) --run;
    return run->number + (id.value - run->id);
  }

 private:
  /// First number and first id of a run of consecutive ids.
  struct Run {
    std::uint32_t number, id;
  };
  std::vector<Run> runs_;
};

}  // namespace orrery::sim
