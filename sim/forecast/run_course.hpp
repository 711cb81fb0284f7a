// Course of a training run as its log tells it, for sim/forecast/run_twin: committed steps, losses
// and slow ranks up to an instant. The log may still be growing. One thread; nanoseconds of the
// policy clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "topologies/cluster.hpp"

namespace orrery::sim {

/// Commit of one step.
struct StepCommit {
  Step step = 0;
  Nanos at = 0;      ///< instant of the commit
  Nanos length = 0;  ///< duration of the step; of steps that were reported together the mean
  bool calm = true;  ///< false: ranks were lost, or the job was placed anew, since the step before
};

/// Course of the run's only job up to an instant.
struct RunCourse {
  Nanos now = 0;                         ///< instant of the newest observation
  std::vector<StepCommit> commits;       ///< steps in the order of their commits, some repeated
  std::uint64_t losses = 0;              ///< instants at which ranks were lost
  std::map<std::uint32_t, double> slow;  ///< factor on the compute time, of ranks above the others
  std::optional<Nanos> ended;            ///< instant at which the job was complete
};

/// Returns the course up to `until`. A rank is slow if the newest micro-batch times that a policy
/// has read are at least 10% above the median of the ranks; a loss of the rank forgets it.
/// `cluster`: that of the log. Throws as Past.
RunCourse read_course(const std::string& log, Nanos until, const Cluster& cluster);

/// End of a log that may still be growing.
struct LogTail {
  Nanos newest = -1;         ///< instant of the newest complete call; -1: none
  bool is_complete = false;  ///< the log has a footer
};
/// Returns the end of the log. A record that is cut short is not written yet. Throws bad_input if
/// the file cannot be opened.
LogTail read_tail(const std::string& log);

}  // namespace orrery::sim
