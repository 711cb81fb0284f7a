#include "sim/jobs/recorded_jobs.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "policies/seam/recorded_job.hpp"

namespace orrery {
namespace {

bool submitted_before(const TraceJob& a, const TraceJob& b) { return a.submit_s < b.submit_s; }

std::uint32_t nodes_of(const GpuRuns& gpus, const Cluster& cluster) {
  std::uint32_t nodes = 0;
  NodeId last{~0u};
  for (const GpuRuns::Run& run : gpus.runs()) {
    const NodeId first = cluster.node_of({run.first});
    const NodeId end = cluster.node_of({run.first + run.count - 1});
    nodes += end.value - first.value + (first == last ? 0 : 1);
    last = end;
  }
  return nodes;
}

}  // namespace

RecordedJobs::RecordedJobs(std::vector<TraceJob> jobs, const World& world, Happen happen,
                           EstimateChoice estimates)
    : trace_(std::move(jobs)),
      world_(world),
      happen_(std::move(happen)),
      estimates_(std::move(estimates)) {
  number();
  if (!estimates_.true_ones()) told_.resize(jobs_.size());
  if (!jobs_.empty()) load_ = LoadSeries(submission(0));
}

/// By submission; what can never run is left out. Most logs are in that order as they stand.
void RecordedJobs::number() {
  const auto fits = [this](const TraceJob& job) { return misfit(job).empty(); };
  const bool as_they_stand = std::is_sorted(trace_.begin(), trace_.end(), submitted_before) &&
                             std::all_of(trace_.begin(), trace_.end(), fits);
  jobs_.resize(trace_.size());
  if (as_they_stand) return;
  for (std::uint32_t i = 0; i < trace_.size(); ++i) {
    if (fits(trace_[i])) order_.push_back(i);
  }
  std::stable_sort(order_.begin(), order_.end(), [this](std::uint32_t a, std::uint32_t b) {
    return submitted_before(trace_[a], trace_[b]);
  });
  number_.assign(trace_.size(), kRejected);
  for (std::uint32_t i = 0; i < order_.size(); ++i) number_[order_[i]] = i;
  jobs_.resize(order_.size());
}

/// Why it can never run; empty if it can.
std::string RecordedJobs::misfit(const TraceJob& job) const {
  const std::uint32_t most = world_.cluster().gpus();
  return job.gpus <= most ? "" : fmt::format("needs {} GPUs, there are {}", job.gpus, most);
}

Nanos RecordedJobs::next_stop() const {
  while (!running_.empty() && is_void(running_.top())) running_.pop();
  Nanos next = arrived_ < jobs_.size() ? submission(arrived_) : kNever;
  if (!running_.empty()) next = std::min(next, running_.top().at);
  return next;
}

void RecordedJobs::pass(Nanos now, const Watch&) {
  hold_load(now);
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
    jobs_[end.job].over = 1;
    ++ended_;
    if (was_taken_off(end.job)) {
      Served& before = taken_off_.at(end.job);
      before.served += now - before.since;
      before.since = now;
    }
    estimates_.ended(recorded(end.job), ran(end.job));
    happen_(JobDone{id_of(end.job)});
  }
}

void RecordedJobs::submit_jobs(Nanos now) {
  for (; arrived_ < jobs_.size() && submission(arrived_) <= now; ++arrived_) {
    const JobId id{world_.jobs().submitted()};
    const auto number = static_cast<std::uint32_t>(arrived_);
    if (runs_.empty() || id_of(number) != id) runs_.push_back({number, id.value});
    const TraceJob& job = recorded(arrived_);
    if (!told_.empty()) told_[number] = estimates_.at_submission(job);
    ++waiting_.waiting_jobs;
    waiting_.waiting_gpus += job.gpus;
    happen_(JobSubmitted{recorded_job(job, id, told(number))});
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
    ++waiting_.waiting_jobs;
    waiting_.waiting_gpus += recorded(number).gpus;
    return happen_(JobStopped{assign.job, 0});
  }
  if (job.start < 0) job.start = now;
  Nanos left = duration(number);
  if (was_taken_off(number)) {
    Served& before = taken_off_.at(number);
    left -= before.served;
    before.since = now;
  }
  running_.push({now + left, number, ++job.starts});
  job.nodes = nodes_of(assign.gpus, world_.cluster()) & 0x7FFF'FFFFu;
  --waiting_.waiting_jobs;
  waiting_.waiting_gpus -= recorded(number).gpus;
  happen_(JobStarted{.job = assign.job, .epoch = {job.starts}, .from = 0,
                     .where = {assign.gpus, assign.layout}});
}

// ---- what became of them --------------------------------------------------------------------

Nanos RecordedJobs::ran(std::uint32_t number) const {
  return was_taken_off(number) ? taken_off_.at(number).served : duration(number);
}

Nanos RecordedJobs::end(std::uint32_t number) const {
  return was_taken_off(number) ? taken_off_.at(number).since
                               : jobs_[number].start + duration(number);
}

/// Share of the free GPUs that stand in nodes of which others are taken.
double RecordedJobs::fragmentation() const {
  const ClusterState& state = world_.state();
  const std::uint32_t size = world_.cluster().shape().gpus_per_node;
  if (state.free == 0) return 0;
  const auto idle = std::count(state.free_per_node.begin(), state.free_per_node.end(), size);
  return 1 - static_cast<double>(idle) * size / state.free;
}

/// What has held up to now.
void RecordedJobs::hold_load(Nanos now) {
  waiting_.busy_gpus = world_.cluster().gpus() - world_.state().free;
  load_.hold(waiting_, now, [this] { return fragmentation(); });
}

JobRow RecordedJobs::row(std::size_t index) const {
  JobRow row{.job = &trace_[index]};
  const std::uint32_t number = number_at(index);
  if (number == kRejected) {
    row.state = JobRow::State::rejected;
    row.reason = misfit(*row.job);
    return row;
  }
  const Job& job = jobs_[number];
  row.estimate = told(number);
  row.start = job.start;
  row.nodes = job.nodes;
  row.preemptions = job.starts / 2;  // each leave and each start after it counts one
  if (job.over == 0) return row;
  row.end = end(number);
  row.state = JobRow::State::completed;
  row.ran = ran(number);
  return row;
}

void RecordedJobs::fill(JobsReport& report) const {
  const JobResults results(
      rows(), [this](std::size_t i) { return row(i); }, world_.cluster().gpus());
  results.fill(report);
  report.set_preemptions(preemptions_);
  if (jobs_.empty() || load_.now() == load_.begin()) return;
  const LoadSeries::Interval mean = load_.mean();
  report.set_queue_length_mean(mean.waiting_jobs);
  report.set_queue_length_max(load_.most_waiting());
  report.set_fragmentation_mean(mean.fragmentation);
}

void RecordedJobs::add_outcomes(Report& report) const {
  for (std::size_t i = 0; i < rows(); ++i) {
    const JobRow at = row(i);
    JobOutcome& outcome = *report.add_jobs();
    outcome.set_name(at.job->id.str());
    outcome.set_kind("recorded");
    outcome.set_gpus(at.job->gpus);
    outcome.set_submitted_s(static_cast<double>(at.job->submit_s));
    if (at.start >= 0) outcome.set_started_s(to_seconds(at.start));
    if (at.end >= 0) outcome.set_ended_s(to_seconds(at.end));
  }
}

}  // namespace orrery
