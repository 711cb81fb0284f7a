#include "sim/replay/job_savings.hpp"

#include <algorithm>
#include <map>

#include "sim/replay/job_results.hpp"
#include "traces/jobs/job_dependencies.hpp"

namespace orrery::sim {
namespace {

constexpr double kSecondsPerHour = 3600;

double queue_hours(const JobsReport& report) {
  return report.queue_mean_s() * static_cast<double>(report.jobs_completed()) / kSecondsPerHour;
}

/// Groups by virtual cluster if there are several, else by size.
const auto& groups_of(const JobsReport& report) {
  return report.by_vc_size() > 1 ? report.by_vc() : report.by_size();
}

void add_groups(const JobsReport& report, const JobsReport& before, JobsSavings& saved) {
  std::map<std::string, double> waits;
  for (const JobGroup& group : groups_of(before)) waits[group.key()] = group.queue_mean_s();
  for (const JobGroup& group : groups_of(report)) {
    const auto known = waits.find(group.key());
    if (known == waits.end()) continue;
    JobGroupSaving& each = *saved.add_groups();
    each.set_key(group.key());
    each.set_queue_mean_s(known->second - group.queue_mean_s());
  }
}

/// Returns the time from the submission of a job until the recorded ends of the jobs that it waits
/// for, at most until its start.
Nanos recorded_hold(const std::vector<TraceJob>& jobs, const JobDependencies& dependencies,
                    std::size_t index) {
  const auto first = dependencies.after.find(index);
  if (first == dependencies.after.end()) return 0;
  const TraceJob& job = jobs[index];
  std::int64_t entered_s = job.submit_s;
  for (const std::size_t before : first->second) {
    const TraceJob& other = jobs[before];
    if (other.recorded_start_s < 0) continue;
    entered_s = std::max<std::int64_t>(entered_s, other.recorded_start_s + other.duration_s);
  }
  return (std::min<std::int64_t>(entered_s, job.recorded_start_s) - job.submit_s) *
         kNanosPerSecond;
}

}  // namespace

JobsReport recorded_outcome(const std::vector<TraceJob>& jobs, std::uint32_t gpus) {
  const JobDependencies dependencies = job_dependencies(jobs);
  const auto row_at = [&](std::size_t index) {
    const TraceJob& job = jobs[index];
    if (job.recorded_start_s < 0) return JobRow{.job = &job, .gpus = job.gpu_count()};
    const Nanos start = job.recorded_start_s * kNanosPerSecond;
    const Nanos ran = job.duration_s * kNanosPerSecond;
    return JobRow{.job = &job,
                  .gpus = job.gpu_count(),
                  .state = JobRow::State::completed,
                  .start = start,
                  .end = start + ran,
                  .ran = ran,
                  .held = recorded_hold(jobs, dependencies, index)};
  };
  JobsReport report;
  JobResults(jobs.size(), row_at, gpus).fill(report);
  return report;
}

std::optional<JobsSavings> savings(const JobsReport& report, const Reference& reference,
                                   std::optional<std::uint32_t> gpus,
                                   std::optional<double> usd_per_gpu_hour) {
  const JobsReport& before = reference.report;
  if (report.jobs_completed() == 0 || report.jobs_completed() != before.jobs_completed()) return {};
  JobsSavings saved;
  saved.set_against(reference.label);
  saved.set_queue_hours(queue_hours(before) - queue_hours(report));
  saved.set_queue_gpu_hours(before.queue_gpu_hours() - report.queue_gpu_hours());
  add_groups(report, before, saved);
  if (!gpus) return saved;
  const double hours = (before.makespan_s() - report.makespan_s()) / kSecondsPerHour;
  saved.set_cluster_gpu_hours(hours * *gpus);
  if (usd_per_gpu_hour) saved.set_usd(saved.cluster_gpu_hours() * *usd_per_gpu_hour);
  return saved;
}

}  // namespace orrery::sim
