// Job ids of the jobs of a log, by number. The ids are consecutive except where other jobs were
// submitted in between. Owned by sim/replay/recorded_jobs; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/ids.hpp"

namespace orrery::sim {

/// Map between the numbers of a log's jobs and their ids in the world, stored as runs of
/// consecutive ids. For example, if a training job gets id 2, numbers 0, 1, 2, 3 have ids 0, 1, 3,
/// 4. Numbers that are added behind greater ones, as those of held jobs, are stored one by one.
class JobIdRuns {
 public:
  /// Adds the id of the job `number`; ids are added in ascending order.
  void add(std::uint32_t number, JobId id) {
    if (number < next_) {
      late_ids_[number] = id;
      late_numbers_[id] = number;
      return;
    }
    next_ = number + 1;
    if (runs_.empty() || id_in_runs(number) != id) runs_.push_back({number, id.value});
  }
  /// Returns the id of the job `number`, which must have been added.
  JobId id_of(std::uint32_t number) const {
    const auto late = late_ids_.find(number);
    return late == late_ids_.end() ? id_in_runs(number) : late->second;
  }
  /// Returns the number of the job `id`, which must have been added.
  std::uint32_t number_of(JobId id) const {
    const auto late = late_numbers_.find(id);
    if (late != late_numbers_.end()) return late->second;
    auto run = runs_.end() - 1;
    while (run->id > id.value) --run;
    return run->number + (id.value - run->id);
  }

 private:
  /// First number and first id of a run of consecutive ids.
  struct Run {
    std::uint32_t number, id;
  };
  JobId id_in_runs(std::uint32_t number) const {
    auto run = runs_.end() - 1;
    while (run->number > number) --run;
    return {run->id + (number - run->number)};
  }

  std::vector<Run> runs_;
  std::uint32_t next_ = 0;  ///< least number that is not late
  std::map<std::uint32_t, JobId> late_ids_;
  std::map<JobId, std::uint32_t> late_numbers_;
};

}  // namespace orrery::sim
