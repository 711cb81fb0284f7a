#include "sim/job_replay.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/seam/drive.hpp"
#include "policies/record/recorder.hpp"
#include "policies/run/registry.hpp"
#include "traces/report.hpp"

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

JobSpec spec_of(const TraceJob& job, std::uint32_t number) {
  JobSpec spec;
  spec.id = {number};
  spec.name = job.id;
  spec.pool = job.pool;
  spec.submit = job.submit_s * kNanosPerSecond;
  spec.gpus = job.gpus;
  spec.estimate = job.duration_s * kNanosPerSecond;  // the recorded truth: JobReplay.estimates
  spec.layout.data = job.gpus;
  return spec;
}

void check_fits(const std::vector<TraceJob>& jobs, const Cluster& cluster,
                const std::string& file) {
  for (const TraceJob& job : jobs) {
    if (job.gpus <= cluster.gpus()) continue;
    throw Error(SourcePlace{.file = file, .line = job.line, .line_text = ""},
                fmt::format("job {} needs {} GPUs, there are {}", job.id, job.gpus,
                            cluster.gpus()));
  }
}

double at_share(const std::vector<std::int64_t>& sorted, double share) {
  return static_cast<double>(
      sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size()))]);
}

}  // namespace

JobReplayBackend::JobReplayBackend(const std::vector<TraceJob>& jobs, const Cluster& cluster)
    : world_(cluster),
      gate_(world_, capabilities(), *this),
      trace_(jobs),
      order_(by_submission(jobs)),
      jobs_(jobs.size()) {}

std::optional<std::int64_t> JobReplayBackend::next_second() {
  while (!running_.empty() && jobs_[running_.top().job].starts != running_.top().start) {
    running_.pop();  // it was taken off its GPUs
  }
  std::optional<std::int64_t> next;
  if (arrived_ < jobs_.size()) next = recorded(arrived_).submit_s;
  if (!running_.empty()) {
    next = std::min(next.value_or(running_.top().second), running_.top().second);
  }
  if (gate_.next_wake() == kNever) return next;
  const std::int64_t wake = (gate_.next_wake() + kNanosPerSecond - 1) / kNanosPerSecond;
  return std::min(next.value_or(wake), wake);
}

void JobReplayBackend::happen(Event event) {
  world_.apply(event, now());
  events_.push_back(std::move(event));
}

void JobReplayBackend::end_jobs() {
  for (; !running_.empty() && running_.top().second <= now_s_; running_.pop()) {
    const End& end = running_.top();
    if (jobs_[end.job].starts != end.start) continue;
    jobs_[end.job].end_s = now_s_;
    happen(JobDone{{end.job}});
  }
}

void JobReplayBackend::submit_jobs() {
  for (; arrived_ < jobs_.size() && recorded(arrived_).submit_s <= now_s_; ++arrived_) {
    happen(JobSubmitted{spec_of(recorded(arrived_), static_cast<std::uint32_t>(arrived_))});
  }
}

std::optional<Observation> JobReplayBackend::next() {
  if (events_.empty()) {
    const std::optional<std::int64_t> second = next_second();
    if (!second) return {};
    now_s_ = std::max(now_s_, *second);
    end_jobs();
    submit_jobs();
    if (gate_.wake_due(now())) happen(Tick{});
  }
  shown_ = std::exchange(events_, {});
  return Observation{.now = now(), .sequence = sequence_++, .events = shown_,
                     .cluster = world_.cluster(), .state = world_.state(), .jobs = world_.jobs(),
                     .samples = samples_};
}

void JobReplayBackend::apply(const DecisionList& decisions) {
  world_.begin_batch();
  gate_.take(decisions, now());
}

std::string JobReplayBackend::refusal(const Decision& decision) const {
  const JobInfo* job = world_.jobs().find(job_of(decision.what));
  const bool moved = job != nullptr && job->placed() && !std::get<Assign>(decision.what).leaves();
  return moved ? "a recorded job stays where it was started until it leaves" : "";
}

void JobReplayBackend::carry_out(const Decision& decision) {
  const Assign& assign = std::get<Assign>(decision.what);
  Job& job = jobs_[assign.job.value];
  if (assign.leaves()) {
    Served& served = taken_off_.try_emplace(assign.job.value, Served{0, job.start_s}).first->second;
    served.served_s += now_s_ - served.since_s;
    ++job.starts;  // its end in the queue is void
    ++preemptions_;
    return happen(JobStopped{assign.job, 0});
  }
  if (job.start_s < 0) job.start_s = now_s_;
  std::int64_t left_s = recorded(assign.job.value).duration_s;
  if (const auto before = taken_off_.find(assign.job.value); before != taken_off_.end()) {
    left_s -= before->second.served_s;
    before->second.since_s = now_s_;
  }
  running_.push({now_s_ + left_s, assign.job.value, ++job.starts});
  happen(JobStarted{.job = assign.job, .epoch = {job.starts}, .from = 0,
                    .where = {assign.gpus, assign.layout}});
}

void JobReplayBackend::fill(JobsReport& report) const {
  std::vector<std::int64_t> completion;
  completion.reserve(jobs_.size());
  double waited = 0, completed = 0, work = 0;
  std::int64_t last_end = 0;
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    const Job& job = jobs_[i];
    const TraceJob& as_recorded = recorded(i);
    if (job.end_s < 0) continue;
    completion.push_back(job.end_s - as_recorded.submit_s);
    completed += static_cast<double>(completion.back());
    waited += static_cast<double>(job.start_s - as_recorded.submit_s);
    work += static_cast<double>(as_recorded.gpus) * static_cast<double>(as_recorded.duration_s);
    last_end = std::max(last_end, job.end_s);
  }
  report.set_jobs_in(jobs_.size());
  report.set_jobs_out(completion.size());
  report.set_preemptions(preemptions_);
  if (completion.empty()) return;
  std::sort(completion.begin(), completion.end());
  const auto count = static_cast<double>(completion.size());
  const auto makespan = static_cast<double>(last_end - recorded(0).submit_s);
  report.set_jct_mean_s(completed / count);
  report.set_jct_p50_s(at_share(completion, 0.5));
  report.set_jct_p99_s(at_share(completion, 0.99));
  report.set_queue_mean_s(waited / count);
  report.set_makespan_s(makespan);
  if (makespan > 0) report.set_utilization(work / (world_.cluster().gpus() * makespan));
}

JobsReport replay_jobs(const std::vector<TraceJob>& jobs, const JobReplay& replay, Policy& policy,
                       const std::string& record_path) {
  const Cluster cluster = cluster_of(replay);
  check_fits(jobs, cluster, replay.trace());
  JobReplayBackend backend(jobs, cluster);
  LogHeader header;
  header.set_version(version());
  header.set_mode("jobs");
  *header.mutable_replay() = replay;
  // What nobody asked for is not hashed: it costs more than the replay.
  Recorder recorder(backend, policy, header, {.path = record_path, .hash = !record_path.empty()});
  Rng rng = policy_rng(0);
  Context context{rng, {}};
  JobsReport report;
  report.set_decisions(drive(policy, recorder, context));
  recorder.finish();
  backend.fill(report);
  report.set_policy(replay.policy());
  report.set_placement(replay.placement());
  report.set_nodes(replay.nodes());
  report.set_gpus_per_node(replay.gpus_per_node());
  report.set_events(recorder.events());
  report.set_estimates("recorded");
  if (record_path.empty()) return report;
  report.set_decision_log_sha256(recorder.log_sha256());
  report.set_decision_trace_sha256(recorder.trace_sha256());
  return report;
}

JobsReport replay_jobs(const std::vector<TraceJob>& jobs, const JobReplay& replay,
                       const std::string& record_path) {
  return replay_jobs(jobs, replay, *make_stack(replay), record_path);
}

}  // namespace orrery
