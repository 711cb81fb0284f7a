// Job ids of the jobs of a log by number: consecutive except where other jobs were submitted in
// between. Kept by sim/jobs/recorded_jobs; one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ids.hpp"

namespace orrery::sim {

/// Map between the numbers of a log's jobs and their ids in the world.
class JobIdRuns {
 public:
  /// Adds the id of the next number; numbers ascend.
  void add(std::uint32_t number, JobId id) {
    if (runs_.empty() || id_of(number) != id) runs_.push_back({number, id.value});
  }
  JobId id_of(std::uint32_t number) const {
    auto run = runs_.end() - 1;
    while (run->number > number) --run;
    return {run->id + (number - run->number)};
  }
  std::uint32_t number_of(JobId id) const {
    auto run = runs_.end() - 1;
    while (run->id > id.value) --run;
    return run->number + (id.value - run->id);
  }

 private:
  /// First number and id of a run of consecutive ids.
  struct Run {
    std::uint32_t number, id;
  };
  std::vector<Run> runs_;
};

}  // namespace orrery::sim
