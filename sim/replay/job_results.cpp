#include "sim/replay/job_results.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/random.hpp"
#include "traces/files/csv.hpp"
#include "traces/jobs/slowdown.hpp"

namespace orrery::sim {
namespace {

constexpr std::size_t kMostClusters = 20, kMostRejected = 100;

double mean_s(const std::vector<Nanos>& values) {
  double sum = 0;
  for (const Nanos value : values) sum += to_seconds(value);
  return sum / static_cast<double>(values.size());
}

/// Returns element floor(share x n) of the sorted values, without a complete sort; changes the
/// order of `values`.
template <class Value>
Value at_share(std::vector<Value>& values, double share) {
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size()));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

/// Returns the recorded GPU-seconds of a job, of a variable job those that it worked.
double gpu_seconds_of(const JobRow& row) {
  if (row.is_variable) return row.used_gpu_s - row.lost_gpu_s;
  return row.gpus * static_cast<double>(row.job->duration_s);
}

/// Returns the factor between estimate and recorded duration: longer / shorter, each at least 1 s.
double factor_of(const JobRow& row) {
  const double truth = std::max(1.0, static_cast<double>(row.job->duration_s));
  const double told = std::max(1.0, to_seconds(row.estimate));
  return std::max(told / truth, truth / told);
}

/// Returns a number that depends on the digest so far and on the next value.
std::uint64_t mixed(std::uint64_t digest, std::uint64_t value) {
  return Rng(digest ^ value).next();
}

/// Returns the time in seconds as text; whole seconds have no decimal point.
std::string seconds(Nanos time) {
  return time % kNanosPerSecond == 0 ? std::to_string(time / kNanosPerSecond)
                                     : fmt::format("{}", to_seconds(time));
}

}  // namespace

std::uint32_t size_limit(const TraceJob& job) {
  return job.milli > 0 ? 0 : std::bit_ceil(job.gpus);
}

std::string size_class(std::uint32_t most) {
  if (most == 0) return "part";
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

JobResults::JobResults(std::size_t count, RowAt row, std::uint32_t gpus)
    : count_(count), row_(std::move(row)), gpus_(gpus) {
  completed_.reserve(count_);
  for (std::uint32_t i = 0; i < count_; ++i) {
    const JobRow each = row_(i);
    digest(i, each);
    if (each.state == JobRow::State::rejected) {
      rejected_.push_back(i);
      continue;
    }
    first_submit_ = std::min(first_submit_, each.submit_time());
    if (each.state == JobRow::State::unfinished) continue;
    last_end_ = std::max(last_end_, each.end);
    completed_.push_back(i);
  }
}

void JobResults::digest(std::uint32_t index, const JobRow& row) {
  for (const Nanos each : {static_cast<Nanos>(index), row.start, row.end}) {
    schedule_digest_ = mixed(schedule_digest_, static_cast<std::uint64_t>(each));
  }
  if (row.state != JobRow::State::completed) return;
  const std::uint64_t id = Rng(index).split_stream(row.job->id.view()).state();
  completed_digest_ = mixed(completed_digest_, id);
}

double JobResults::gpu_seconds(const Members& members) const {
  double sum = 0;
  for (const std::uint32_t member : members) sum += gpu_seconds_of(row_(member));
  return sum;
}

double JobResults::queue_gpu_hours() const {
  double sum = 0;
  for (const std::uint32_t member : completed_) {
    const JobRow row = row_(member);
    sum += to_seconds(row.waited()) * row.job->gpu_count();
  }
  return sum / 3600;
}

double JobResults::fill(JobGroup& into, const std::string& key, const Members& members) const {
  std::vector<Nanos> times;
  times.reserve(members.size());
  double gpu_s = 0;
  for (const std::uint32_t member : members) {
    const JobRow row = row_(member);
    times.push_back(row.completion());
    gpu_s += gpu_seconds_of(row);
  }
  into.set_key(key);
  into.set_jobs(members.size());
  into.set_gpu_hours(gpu_s / 3600);
  into.set_jct_mean_s(mean_s(times));
  into.set_jct_p50_s(to_seconds(at_share(times, 0.5)));
  into.set_jct_p99_s(to_seconds(at_share(times, 0.99)));
  times.clear();
  for (const std::uint32_t member : members) times.push_back(row_(member).waited());
  into.set_queue_mean_s(mean_s(times));
  into.set_queue_p99_s(to_seconds(at_share(times, 0.99)));
  return gpu_s;
}

template <class Key>
auto JobResults::grouped(const Key& key) const {
  std::map<decltype(key(*row_(0).job)), std::size_t> counts;
  for (const std::uint32_t i : completed_) ++counts[key(*row_(i).job)];
  std::map<decltype(key(*row_(0).job)), Members> groups;
  for (const auto& [of, count] : counts) groups[of].reserve(count);
  for (const std::uint32_t i : completed_) groups[key(*row_(i).job)].push_back(i);
  return groups;
}

void JobResults::fill_sizes(JobsReport& report) const {
  const auto by_size = grouped([](const TraceJob& job) { return size_limit(job); });
  for (const auto& [most, members] : by_size) {
    fill(*report.add_by_size(), size_class(most), members);
  }
}

std::set<Label> JobResults::largest_clusters() const {
  std::map<Label, double> gpu_s;
  for (std::uint32_t i = 0; i < count_; ++i) {
    const TraceJob& job = *row_(i).job;
    gpu_s[job.pool] += job.gpu_count() * static_cast<double>(job.duration_s);
  }
  std::vector<std::pair<double, Label>> sorted;
  for (const auto& [name, seconds] : gpu_s) sorted.emplace_back(seconds, name);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::set<Label> largest;
  for (const auto& [seconds, name] : sorted) {
    if (largest.size() < kMostClusters) largest.insert(name);
  }
  return largest;
}

/// A log with one virtual cluster only needs no sums by cluster: its group is that of all jobs.
void JobResults::fill_clusters(const JobGroup& all, JobsReport& report) const {
  const Label first = row_(completed_.front()).job->pool;
  if (std::all_of(completed_.begin(), completed_.end(),
                  [&](std::uint32_t i) { return row_(i).job->pool == first; })) {
    *report.add_by_vc() = all;
    return report.mutable_by_vc(0)->set_key(first.str());
  }
  const auto by_cluster = grouped([](const TraceJob& job) { return job.pool; });
  std::vector<std::pair<double, std::pair<Label, const Members*>>> sorted;
  for (const auto& [name, members] : by_cluster) {
    sorted.push_back({gpu_seconds(members), {name, &members}});
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  Members others;
  const std::set<Label> shown = largest_clusters();
  for (const auto& [gpu_s, group] : sorted) {
    const auto& [name, members] = group;
    if (shown.contains(name)) {
      fill(*report.add_by_vc(), name, *members);
    } else {
      others.insert(others.end(), members->begin(), members->end());
    }
  }
  if (!others.empty()) fill(*report.add_by_vc(), "(others)", others);
}

void JobResults::fill_counts(JobsReport& report) const {
  report.set_jobs_in(count_);
  report.set_jobs_out(completed_.size() + rejected_.size());
  report.set_jobs_completed(completed_.size());
  report.set_jobs_rejected(rejected_.size());
  report.set_completed_digest(fmt::format("{:016x}", completed_digest_));
  report.set_schedule_digest(fmt::format("{:016x}", schedule_digest_));
  for (std::size_t i = 0; i < std::min(rejected_.size(), kMostRejected); ++i) {
    const JobRow row = row_(rejected_[i]);
    RejectedRow& rejected = *report.add_rejected();
    rejected.set_line(static_cast<std::uint64_t>(row.job->line));
    rejected.set_job_id(row.job->id.str());
    rejected.set_reason(row.reason.str());
  }
}

void JobResults::fill_factors(JobsReport& report) const {
  std::vector<double> factors;
  factors.reserve(completed_.size());
  for (const std::uint32_t i : completed_) factors.push_back(factor_of(row_(i)));
  report.set_estimate_factor_p50(at_share(factors, 0.5));
  report.set_estimate_factor_p90(at_share(factors, 0.9));
}

double JobResults::slowdown_mean() const {
  double sum = 0;
  for (const std::uint32_t member : completed_) {
    const JobRow row = row_(member);
    sum += bounded_slowdown(row.completion(), row.job->duration_s * kNanosPerSecond);
  }
  return sum / static_cast<double>(completed_.size());
}

void JobResults::fill(JobsReport& report) const {
  fill_counts(report);
  if (completed_.empty()) return;
  JobGroup all;
  const double gpu_s = fill(all, "", completed_);
  const double makespan = to_seconds(last_end_ - first_submit_);
  report.set_jct_mean_s(all.jct_mean_s());
  report.set_jct_p50_s(all.jct_p50_s());
  report.set_jct_p99_s(all.jct_p99_s());
  report.set_queue_mean_s(all.queue_mean_s());
  report.set_bounded_slowdown_mean(slowdown_mean());
  report.set_queue_gpu_hours(queue_gpu_hours());
  report.set_makespan_s(makespan);
  if (makespan > 0) report.set_utilization(gpu_s / (gpus_ * makespan));
  fill_factors(report);
  fill_sizes(report);
  fill_clusters(all, report);
}

// ---- tables ---------------------------------------------------------------------------------

std::string jobs_header() {
  return "job_id,user,vc,name,num_gpus,submit_s,start_s,end_s,queue_s,jct_s,duration_s,"
         "estimate_s,preemptions,nodes,state,reason,line,ran_s,lost_s,recorded_start_s,resizes,"
         "used_gpu_s,gpu_kind\n";
}

void write_row(const JobRow& row, std::string& jobs) {
  const TraceJob& job = *row.job;
  const bool ended = row.end >= 0;
  const auto known = [](bool is, Nanos time) { return is ? seconds(time) : std::string(); };
  fmt::format_to(
      std::back_inserter(jobs),
      "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_field(job.id),
      csv_field(job.user.str()), csv_field(job.pool.str()), csv_field(job.name.str()),
      job.gpu_count(), std::int64_t{job.submit_s}, known(row.start >= 0, row.start),
      known(ended, row.end), known(ended, row.waited()), known(ended, row.completion()),
      std::int64_t{job.duration_s}, known(row.state != JobRow::State::rejected, row.estimate),
      row.preemptions, row.nodes, state_name(row.state), csv_field(row.reason.str()), job.line,
      known(ended, row.ran), known(ended, row.lost),
      known(job.recorded_start_s >= 0, job.recorded_start_s * kNanosPerSecond), row.resizes,
      ended ? fmt::format("{}", row.used_gpu_s) : std::string(), csv_field(row.gpu_kind.str()));
}

std::string jobs_csv(std::size_t count, const JobResults::RowAt& row) {
  std::string jobs = jobs_header();
  for (std::size_t i = 0; i < count; ++i) write_row(row(i), jobs);
  return jobs;
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
      "by,key,jobs,gpu_hours,jct_mean_s,jct_p50_s,jct_p99_s,queue_mean_s,queue_p99_s,"
      "recorded_jobs,recorded_gpu_hours,recorded_jct_mean_s,recorded_jct_p50_s,"
      "recorded_jct_p99_s,recorded_queue_mean_s,recorded_queue_p99_s\n";
  const auto figures = [](const JobGroup& group) {
    return fmt::format("{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g}", group.jobs(),
                       group.gpu_hours(), group.jct_mean_s(), group.jct_p50_s(), group.jct_p99_s(),
                       group.queue_mean_s(), group.queue_p99_s());
  };
  const auto write = [&](std::string_view by, const auto& all, const auto& recorded) {
    for (const JobGroup& group : all) {
      const JobGroup* const log = group_of(recorded, group.key());
      fmt::format_to(std::back_inserter(text), "{},{},{},{}\n", by, csv_field(group.key()),
                     figures(group), log == nullptr ? ",,,,,," : figures(*log));
    }
  };
  write("size", report.by_size(), report.recorded().by_size());
  write("vc", report.by_vc(), report.recorded().by_vc());
  return text;
}

const JobGroup* group_of(const google::protobuf::RepeatedPtrField<JobGroup>& groups,
                         const std::string& key) {
  const auto found = std::find_if(groups.begin(), groups.end(),
                                  [&key](const JobGroup& each) { return each.key() == key; });
  return found == groups.end() ? nullptr : &*found;
}

}  // namespace orrery::sim
