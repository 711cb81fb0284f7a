#include "sim/recorded_jobs.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"

namespace orrery {
namespace {

std::vector<std::uint32_t> by_submission(const std::vector<TraceJob>& jobs) {
  std::vector<std::uint32_t> order(jobs.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&jobs](std::uint32_t a, std::uint32_t b) {
    return jobs[a].submit_s < jobs[b].submit_s;
  });
  return order;
}

JobSpec spec_of(const TraceJob& job, JobId id) {
  JobSpec spec;
  spec.id = id;
  spec.name = job.id;
  spec.pool = job.pool;
  spec.submit = job.submit_s * kNanosPerSecond;
  spec.gpus = job.gpus;
  spec.estimate = job.duration_s * kNanosPerSecond;  // the recorded truth: JobsReport.estimates
  spec.layout.data = job.gpus;
  return spec;
}

double at_share(const std::vector<Nanos>& sorted, double share) {
  return to_seconds(
      sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size()))]);
}

}  // namespace

void check_fits(const std::vector<TraceJob>& jobs, const Cluster& cluster,
                const std::string& file) {
  for (const TraceJob& job : jobs) {
    if (job.gpus <= cluster.gpus()) continue;
    throw Error(SourcePlace{.file = file, .line = job.line, .line_text = ""},
                fmt::format("job {} needs {} GPUs, there are {}", job.id, job.gpus,
                            cluster.gpus()));
  }
}

RecordedJobs::RecordedJobs(std::vector<TraceJob> jobs, const World& world, Happen happen)
    : trace_(std::move(jobs)),
      world_(world),
      happen_(std::move(happen)),
      order_(by_submission(trace_)),
      jobs_(trace_.size()) {}

Nanos RecordedJobs::next_stop() const {
  while (!running_.empty() && is_void(running_.top())) running_.pop();
  Nanos next = arrived_ < jobs_.size() ? submission(arrived_) : kNever;
  if (!running_.empty()) next = std::min(next, running_.top().at);
  return next;
}

void RecordedJobs::pass(Nanos now, const Watch&) {
  end_jobs(now);
  submit_jobs(now);
}

JobId RecordedJobs::id_of(std::uint32_t number) const {
  auto run = runs_.end() - 1;
  while (run->number > number) --run;
  return {run->id + (number - run->number)};
}

std::uint32_t RecordedJobs::number_of(JobId id) const {
  auto run = runs_.end() - 1;
  while (run->id > id.value) --run;
  return run->number + (id.value - run->id);
}

void RecordedJobs::end_jobs(Nanos now) {
  for (; !running_.empty() && running_.top().at <= now; running_.pop()) {
    const End& end = running_.top();
    if (is_void(end)) continue;
    jobs_[end.job].end = now;
    ++ended_;
    happen_(JobDone{id_of(end.job)});
  }
}

void RecordedJobs::submit_jobs(Nanos now) {
  for (; arrived_ < jobs_.size() && submission(arrived_) <= now; ++arrived_) {
    const JobId id{world_.jobs().submitted()};
    const auto number = static_cast<std::uint32_t>(arrived_);
    if (runs_.empty() || id_of(number) != id) runs_.push_back({number, id.value});
    happen_(JobSubmitted{spec_of(recorded(arrived_), id)});
  }
}

std::string RecordedJobs::refusal(const Decision& decision) const {
  const auto* assign = std::get_if<Assign>(&decision.what);
  if (assign == nullptr) return "a recorded job has nothing to set and nothing to save";
  const JobInfo* job = world_.jobs().find(assign->job);
  const bool moved = job != nullptr && job->placed() && !assign->leaves();
  return moved ? "a recorded job stays where it was started until it leaves" : "";
}

void RecordedJobs::carry_out(const Decision& decision, Nanos now) {
  const Assign& assign = std::get<Assign>(decision.what);
  const std::uint32_t number = number_of(assign.job);
  Job& job = jobs_[number];
  if (assign.leaves()) {
    Served& served = taken_off_.try_emplace(number, Served{0, job.start}).first->second;
    served.served += now - served.since;
    ++job.starts;  // its end in the queue is void
    ++preemptions_;
    return happen_(JobStopped{assign.job, 0});
  }
  if (job.start < 0) job.start = now;
  Nanos left = duration(number);
  if (const auto before = taken_off_.find(number); before != taken_off_.end()) {
    left -= before->second.served;
    before->second.since = now;
  }
  running_.push({now + left, number, ++job.starts});
  happen_(JobStarted{.job = assign.job, .epoch = {job.starts}, .from = 0,
                     .where = {assign.gpus, assign.layout}});
}

void RecordedJobs::fill(JobsReport& report) const {
  std::vector<Nanos> completion;
  completion.reserve(jobs_.size());
  double waited = 0, completed = 0, work = 0;
  Nanos last_end = 0;
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    const Job& job = jobs_[i];
    const TraceJob& as_recorded = recorded(i);
    if (job.end < 0) continue;
    completion.push_back(job.end - submission(i));
    completed += to_seconds(completion.back());
    waited += to_seconds(job.start - submission(i));
    work += static_cast<double>(as_recorded.gpus) * static_cast<double>(as_recorded.duration_s);
    last_end = std::max(last_end, job.end);
  }
  report.set_jobs_in(jobs_.size());
  report.set_jobs_out(completion.size());
  report.set_preemptions(preemptions_);
  if (completion.empty()) return;
  std::sort(completion.begin(), completion.end());
  const auto count = static_cast<double>(completion.size());
  const double makespan = to_seconds(last_end - submission(0));
  report.set_jct_mean_s(completed / count);
  report.set_jct_p50_s(at_share(completion, 0.5));
  report.set_jct_p99_s(at_share(completion, 0.99));
  report.set_queue_mean_s(waited / count);
  report.set_makespan_s(makespan);
  if (makespan > 0) report.set_utilization(work / (world_.cluster().gpus() * makespan));
}

void RecordedJobs::add_outcomes(Report& report) const {
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    JobOutcome& outcome = *report.add_jobs();
    outcome.set_name(recorded(i).id);
    outcome.set_kind("recorded");
    outcome.set_gpus(recorded(i).gpus);
    outcome.set_submitted_s(static_cast<double>(recorded(i).submit_s));
    if (jobs_[i].start >= 0) outcome.set_started_s(to_seconds(jobs_[i].start));
    if (jobs_[i].end >= 0) outcome.set_ended_s(to_seconds(jobs_[i].end));
  }
}

}  // namespace orrery
