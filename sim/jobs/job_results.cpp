#include "sim/jobs/job_results.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "traces/files/csv.hpp"

namespace orrery {
namespace {

constexpr std::size_t kMostClusters = 20, kMostRejected = 100;

double mean_s(const std::vector<Nanos>& values) {
  double sum = 0;
  for (const Nanos value : values) sum += to_seconds(value);
  return sum / static_cast<double>(values.size());
}

/// sorted[floor(share n)], without sorting all of them.
template <class Value>
Value at_share(std::vector<Value>& values, double share) {
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size()));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

/// Whole seconds without a point.
std::string seconds(Nanos time) {
  return time % kNanosPerSecond == 0 ? std::to_string(time / kNanosPerSecond)
                                     : fmt::format("{}", to_seconds(time));
}

}  // namespace

std::string size_class(std::uint32_t most) {
  return most <= 2 ? std::to_string(most) : fmt::format("{}-{}", most / 2 + 1, most);
}

std::string_view state_name(JobRow::State state) {
  switch (state) {
    case JobRow::State::completed: return "completed";
    case JobRow::State::rejected: return "rejected";
    case JobRow::State::unfinished: return "unfinished";
  }
  return "";
}

void JobResults::add(const JobRow& row) {
  ++in_;
  if (row.state == JobRow::State::rejected) {
    ++rejections_;
    if (rejected_.size() >= kMostRejected) return;
    RejectedRow& rejected = rejected_.emplace_back();
    rejected.set_line(static_cast<std::uint64_t>(row.job->line));
    rejected.set_job_id(row.job->id);
    rejected.set_reason(row.reason);
    return;
  }
  first_submit_ = std::min(first_submit_, row.submit());
  if (row.state == JobRow::State::unfinished) return;
  last_end_ = std::max(last_end_, row.end);
  const double work = static_cast<double>(row.job->gpus) * static_cast<double>(row.job->duration_s);
  for (Group* group :
       {&all_, &by_size_[std::bit_ceil(row.job->gpus)], &by_cluster_[row.job->pool]}) {
    group->completion.push_back(row.completion());
    group->waited.push_back(row.waited());
    group->gpu_s += work;
  }
  const double truth = std::max(1.0, static_cast<double>(row.job->duration_s));
  const double told = std::max(1.0, to_seconds(row.estimate));
  factors_.push_back(std::max(told / truth, truth / told));
}

void JobResults::fill(JobGroup& into, const std::string& key, Group& group) {
  into.set_key(key);
  into.set_jobs(group.completion.size());
  into.set_gpu_hours(group.gpu_s / 3600);
  into.set_jct_mean_s(mean_s(group.completion));
  into.set_jct_p50_s(to_seconds(at_share(group.completion, 0.5)));
  into.set_jct_p99_s(to_seconds(at_share(group.completion, 0.99)));
  into.set_queue_mean_s(mean_s(group.waited));
  into.set_queue_p99_s(to_seconds(at_share(group.waited, 0.99)));
}

void JobResults::fill_sizes(JobsReport& report) {
  for (auto& [most, group] : by_size_) fill(*report.add_by_size(), size_class(most), group);
}

/// Those with most work by name, the others together.
void JobResults::fill_clusters(JobsReport& report) {
  std::vector<std::pair<std::string, Group*>> sorted;
  for (auto& [name, group] : by_cluster_) sorted.emplace_back(name, &group);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second->gpu_s > b.second->gpu_s; });
  Group others;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    Group& group = *sorted[i].second;
    if (i < kMostClusters) {
      fill(*report.add_by_vc(), sorted[i].first, group);
      continue;
    }
    std::copy(group.completion.begin(), group.completion.end(),
              std::back_inserter(others.completion));
    std::copy(group.waited.begin(), group.waited.end(), std::back_inserter(others.waited));
    others.gpu_s += group.gpu_s;
  }
  if (!others.completion.empty()) fill(*report.add_by_vc(), "(others)", others);
}

void JobResults::fill(JobsReport& report) {
  const std::size_t completed = all_.completion.size();
  report.set_jobs_in(in_);
  report.set_jobs_out(completed + rejections_);
  report.set_jobs_completed(completed);
  report.set_jobs_rejected(rejections_);
  for (const RejectedRow& row : rejected_) *report.add_rejected() = row;
  if (completed == 0) return;
  JobGroup all;
  fill(all, "", all_);
  const double makespan = to_seconds(last_end_ - first_submit_);
  report.set_jct_mean_s(all.jct_mean_s());
  report.set_jct_p50_s(all.jct_p50_s());
  report.set_jct_p99_s(all.jct_p99_s());
  report.set_queue_mean_s(all.queue_mean_s());
  report.set_makespan_s(makespan);
  if (makespan > 0) report.set_utilization(all_.gpu_s / (gpus_ * makespan));
  report.set_estimate_factor_p50(at_share(factors_, 0.5));
  report.set_estimate_factor_p90(at_share(factors_, 0.9));
  fill_sizes(report);
  fill_clusters(report);
}

// ---- tables ---------------------------------------------------------------------------------

std::string jobs_header() {
  return "job_id,user,vc,name,num_gpus,submit_s,start_s,end_s,queue_s,jct_s,duration_s,"
         "estimate_s,preemptions,nodes,state,reason,line\n";
}

void write_row(const JobRow& row, std::string& jobs) {
  const TraceJob& job = *row.job;
  const bool ended = row.end >= 0;
  const auto known = [](bool is, Nanos time) { return is ? seconds(time) : std::string(); };
  fmt::format_to(std::back_inserter(jobs), "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
                 csv_field(job.id), csv_field(job.user), csv_field(job.pool), csv_field(job.name),
                 job.gpus, job.submit_s, known(row.start >= 0, row.start), known(ended, row.end),
                 known(ended, row.waited()), known(ended, row.completion()), job.duration_s,
                 known(row.state != JobRow::State::rejected, row.estimate), row.preemptions,
                 row.nodes, state_name(row.state), csv_field(row.reason), job.line);
}

std::string series_csv(const LoadSeries& load, std::uint32_t gpus) {
  std::string text =
      "begin_s,end_s,busy_gpus,utilization,waiting_jobs,waiting_gpus,fragmentation\n";
  Nanos begin = load.begin();
  for (const LoadSeries::Interval& each : load.intervals()) {
    const Nanos end = std::min(begin + load.width(), load.now());
    fmt::format_to(std::back_inserter(text), "{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g}\n",
                   seconds(begin), seconds(end), each.busy_gpus, each.busy_gpus / gpus,
                   each.waiting_jobs, each.waiting_gpus, each.fragmentation);
    begin = end;
  }
  return text;
}

std::string groups_csv(const JobsReport& report) {
  std::string text =
      "by,key,jobs,gpu_hours,jct_mean_s,jct_p50_s,jct_p99_s,queue_mean_s,"
      "queue_p99_s\n";
  const auto write = [&text](std::string_view by, const auto& all) {
    for (const JobGroup& group : all) {
      fmt::format_to(
          std::back_inserter(text), "{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g}\n", by,
          csv_field(group.key()), group.jobs(), group.gpu_hours(), group.jct_mean_s(),
          group.jct_p50_s(), group.jct_p99_s(), group.queue_mean_s(), group.queue_p99_s());
    }
  };
  write("size", report.by_size());
  write("vc", report.by_vc());
  return text;
}

}  // namespace orrery
