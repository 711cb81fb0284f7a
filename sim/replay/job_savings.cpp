#include "sim/replay/job_savings.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "sim/replay/job_results.hpp"
#include "traces/files/csv.hpp"
#include "traces/jobs/job_dependencies.hpp"

namespace orrery::sim {
namespace {

constexpr double kSecondsPerHour = 3600;

/// Returns true if the job of a row completed in both outcomes.
bool completed(const JobOutcomes& a, const JobOutcomes& b, std::size_t row) {
  return a.ends.at(row) >= 0 && b.ends.at(row) >= 0;
}

/// Sums of the waits of groups of jobs.
class WaitSums {
 public:
  WaitSums(const ComparedJobs& jobs, const JobOutcomes& now, const JobOutcomes& before)
      : jobs_(jobs), now_(now), before_(before) {}

  /// Returns the groups with a common property of their jobs, in the order of `Key`. `key`:
  /// property of a row; `name`: its name.
  template <class Key, class Name>
  std::vector<GroupWaits> grouped(WaitsBy by, const Key& key, const Name& name) const {
    std::map<decltype(key(jobs_.rows()[0])), GroupWaits> groups;
    for (std::size_t i = 0; i < jobs_.rows().size(); ++i) {
      if (!completed(now_, before_, i)) continue;
      const ComparedJobs::Row& row = jobs_.rows()[i];
      GroupWaits& group = groups[key(row)];
      const double wait = to_seconds(now_.waits[i]), earlier = to_seconds(before_.waits[i]);
      ++group.jobs;
      group.wait_s += wait;
      group.wait_before_s += earlier;
      group.wait_gpu_s += wait * row.gpus;
      group.wait_gpu_before_s += earlier * row.gpus;
    }
    std::vector<GroupWaits> out;
    for (auto& [of, group] : groups) {
      group.by = by;
      group.key = name(of);
      out.push_back(std::move(group));
    }
    return out;
  }

 private:
  const ComparedJobs& jobs_;
  const JobOutcomes& now_;
  const JobOutcomes& before_;
};

/// Returns the last end of the jobs that completed in both outcomes.
Nanos last_common_end(const JobOutcomes& of, const JobOutcomes& other) {
  Nanos last = 0;
  for (std::size_t i = 0; i < of.ends.size(); ++i) {
    if (completed(of, other, i)) last = std::max(last, of.ends[i]);
  }
  return last;
}

/// Adds the mean savings of the virtual clusters if there are several, else of the sizes.
void add_groups(Saved& saved) {
  const auto several = std::count_if(saved.groups.begin(), saved.groups.end(),
                                     [](const auto& each) { return each.by == WaitsBy::vc; });
  const WaitsBy shown = several > 1 ? WaitsBy::vc : WaitsBy::size;
  for (const GroupWaits& group : saved.groups) {
    if (group.by != shown) continue;
    JobGroupSaving& each = *saved.savings.add_groups();
    each.set_key(group.key);
    each.set_queue_mean_s(group.saved_mean_s());
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
  return (std::min<std::int64_t>(entered_s, job.recorded_start_s) - job.submit_s) * kNanosPerSecond;
}

}  // namespace

ComparedJobs::ComparedJobs(const std::vector<TraceJob>& jobs) {
  rows_.reserve(jobs.size());
  for (const TraceJob& job : jobs) {
    rows_.push_back({job.gpu_count(), size_limit(job), job.pool, job.user});
  }
}

LogOutcome recorded_outcome(const std::vector<TraceJob>& jobs, std::uint32_t gpus) {
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
  LogOutcome outcome{.label = "as recorded"};
  JobResults(jobs.size(), row_at, gpus).fill(outcome.report);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const JobRow row = row_at(i);
    const bool is_known = row.state == JobRow::State::completed;
    outcome.jobs.waits.push_back(is_known ? row.waited() : -1);
    outcome.jobs.ends.push_back(is_known ? row.end : -1);
  }
  return outcome;
}

void set_recorded(const JobsReport& recorded, JobsReport& report) {
  if (recorded.jobs_completed() == 0) return;
  RecordedOutcome& into = *report.mutable_recorded();
  into.set_jobs_completed(recorded.jobs_completed());
  into.set_jct_mean_s(recorded.jct_mean_s());
  into.set_jct_p50_s(recorded.jct_p50_s());
  into.set_jct_p99_s(recorded.jct_p99_s());
  into.set_queue_mean_s(recorded.queue_mean_s());
  into.set_queue_gpu_hours(recorded.queue_gpu_hours());
  into.set_makespan_s(recorded.makespan_s());
  if (recorded.has_utilization()) into.set_utilization(recorded.utilization());
  *into.mutable_by_size() = recorded.by_size();
  *into.mutable_by_vc() = recorded.by_vc();
  into.set_completed_digest(recorded.completed_digest());
}

std::optional<Saved> savings(const ComparedJobs& jobs, const LogOutcome& outcome,
                             const LogOutcome& before, const SavingsTerms& terms) {
  Saved saved;
  const WaitSums sums(jobs, outcome.jobs, before.jobs);
  const auto text = [](Label label) { return label.str(); };
  const std::vector<GroupWaits> all = sums.grouped(
      WaitsBy::size, [](const auto&) { return 0; }, [](int) { return ""; });
  if (all.empty()) return {};
  saved.groups = sums.grouped(
      WaitsBy::vc, [](const auto& row) { return row.vc; }, text);
  for (auto& more : {sums.grouped(
                         WaitsBy::size, [](const auto& row) { return row.size; }, size_class),
                     sums.grouped(
                         WaitsBy::user, [](const auto& row) { return row.user; }, text)}) {
    saved.groups.insert(saved.groups.end(), more.begin(), more.end());
  }
  JobsSavings& into = saved.savings;
  const GroupWaits& sum = all.front();
  into.set_against(before.label);
  into.set_jobs(sum.jobs);
  into.set_queue_hours((sum.wait_before_s - sum.wait_s) / kSecondsPerHour);
  into.set_queue_gpu_hours((sum.wait_gpu_before_s - sum.wait_gpu_s) / kSecondsPerHour);
  if (terms.usd_per_gpu_hour) into.set_queue_usd(into.queue_gpu_hours() * *terms.usd_per_gpu_hour);
  add_groups(saved);
  if (!terms.gpus) return saved;
  const Nanos earlier =
      last_common_end(before.jobs, outcome.jobs) - last_common_end(outcome.jobs, before.jobs);
  into.set_cluster_gpu_hours(to_seconds(earlier) / kSecondsPerHour * *terms.gpus);
  if (terms.usd_per_gpu_hour) into.set_usd(into.cluster_gpu_hours() * *terms.usd_per_gpu_hour);
  return saved;
}

bool have_same_jobs(const JobsReport& a, const JobsReport& b) {
  return a.jobs_completed() == b.jobs_completed() && a.completed_digest() == b.completed_digest();
}

std::string waits_csv(const Saved& saved) {
  std::string text =
      "by,key,jobs,queue_mean_s,before_queue_mean_s,saved_queue_mean_s,saved_queue_hours,"
      "saved_queue_gpu_hours\n";
  for (const GroupWaits& group : saved.groups) {
    const auto jobs = static_cast<double>(group.jobs);
    const char* const by = group.by == WaitsBy::vc     ? "vc"
                           : group.by == WaitsBy::size ? "size"
                                                       : "user";
    text +=
        fmt::format("{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g}\n", by, csv_field(group.key),
                    group.jobs, group.wait_s / jobs, group.wait_before_s / jobs,
                    group.saved_mean_s(), (group.wait_before_s - group.wait_s) / kSecondsPerHour,
                    (group.wait_gpu_before_s - group.wait_gpu_s) / kSecondsPerHour);
  }
  return text;
}

}  // namespace orrery::sim
