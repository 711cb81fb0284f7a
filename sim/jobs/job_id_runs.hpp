// The ids that a world has given to the jobs of a log, which have numbers: they follow one another
// but where others' come in between. Kept by sim/jobs/recorded_jobs; one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ids.hpp"

namespace orrery::sim {

class JobIdRuns {
 public:
  /// Of the next number; numbers ascend.
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
  /// From this job on ids follow one another.
  struct Run {
    std::uint32_t number, id;
  };
  std::vector<Run> runs_;
};

}  // namespace orrery::sim
