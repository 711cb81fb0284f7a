// Savings of one queue policy against another, or against the log's own outcome, in operators'
// units: hours, GPU-hours and money. Pure functions of reports of the same jobs. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "traces/jobs/job_trace.hpp"
#include "traces/report.pb.h"

namespace orrery::sim {

/// Returns the outcome that the log itself has: the metrics of its jobs with a recorded start, by
/// their recorded starts and durations; without times if there are none. `gpus`: the cluster's.
JobsReport recorded_outcome(const std::vector<TraceJob>& jobs, std::uint32_t gpus);

/// Outcome that others are compared with.
struct Reference {
  std::string label;
  JobsReport report;
};

/// Returns what `report` saves against `reference`, positive if it is better; nothing if the two
/// are about different numbers of jobs, whose sums cannot be compared. `gpus`: number of GPUs of
/// both clusters, which is paid until the last end; nothing, and no money, if they differ.
std::optional<JobsSavings> savings(const JobsReport& report, const Reference& reference,
                                   std::optional<std::uint32_t> gpus,
                                   std::optional<double> usd_per_gpu_hour);

}  // namespace orrery::sim
