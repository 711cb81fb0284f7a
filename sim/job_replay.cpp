#include "sim/job_replay.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/drive.hpp"
#include "policies/recorder.hpp"
#include "policies/registry.hpp"
#include "traces/report.hpp"

namespace orrery {
namespace {

std::vector<TraceJob> by_submission(std::vector<TraceJob> jobs) {
  std::stable_sort(jobs.begin(), jobs.end(), [](const TraceJob& a, const TraceJob& b) {
    return a.submit_s < b.submit_s;
  });
  return jobs;
}

JobSpec spec_of(const TraceJob& job, std::uint32_t number) {
  JobSpec spec;
  spec.id = {number};
  spec.name = job.id;
  spec.pool = job.pool;
  spec.submit = job.submit_s * kNanosPerSecond;
  spec.gpus = job.gpus;
  spec.duration = job.duration_s * kNanosPerSecond;
  spec.data = job.gpus;
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
    : world_(cluster), trace_(by_submission(jobs)) {
  jobs_.reserve(trace_.size());
  for (const TraceJob& job : trace_) {
    jobs_.push_back({.submit_s = job.submit_s, .duration_s = job.duration_s, .gpus = job.gpus});
  }
}

Capabilities JobReplayBackend::capabilities() const {
  return {.signals = kJobs, .actions = action_bit(Action(PlaceJob{}).index())};
}

std::optional<std::int64_t> JobReplayBackend::next_second() const {
  std::optional<std::int64_t> next;
  if (arrived_ < jobs_.size()) next = jobs_[arrived_].submit_s;
  if (!running_.empty()) next = std::min(next.value_or(running_.top().first), running_.top().first);
  return next;
}

void JobReplayBackend::happen(Event event) {
  world_.apply(event);
  events_.push_back(std::move(event));
}

void JobReplayBackend::end_jobs() {
  for (; !running_.empty() && running_.top().first <= now_s_; running_.pop()) {
    const std::uint32_t job = running_.top().second;
    jobs_[job].end_s = now_s_;
    happen(JobDone{{job}});
  }
}

void JobReplayBackend::submit_jobs() {
  for (; arrived_ < jobs_.size() && jobs_[arrived_].submit_s <= now_s_; ++arrived_) {
    const auto number = static_cast<std::uint32_t>(arrived_);
    happen(JobSubmitted{.job = spec_of(trace_[arrived_], number)});
  }
}

std::optional<Observation> JobReplayBackend::next() {
  const std::optional<std::int64_t> second = next_second();
  if (!second && (outcomes_.empty() || last_word_)) return {};
  last_word_ = !second;
  now_s_ = std::max(now_s_, second.value_or(now_s_));
  events_ = std::move(outcomes_);  // they belong to the instant before, and came true then
  outcomes_.clear();
  end_jobs();
  submit_jobs();
  return Observation{.now = now_s_ * kNanosPerSecond,
                     .epoch = {},
                     .sequence = sequence_++,
                     .events = events_,
                     .devices = {},
                     .links = {},
                     .ranks = {},
                     .collectives = {},
                     .cluster = world_.cluster(),
                     .state = world_.state(),
                     .jobs = world_.jobs()};
}

void JobReplayBackend::apply(std::span<const Decision> decisions, bool /*at_rest*/) {
  for (const Decision& decision : decisions) {
    DecisionOutcome outcome{.decision = decision.number, .status = Outcome::applied, .reason = {}};
    outcome.reason = world_.objection(decision);
    const auto* place = std::get_if<PlaceJob>(&decision.what);
    if (outcome.reason.empty() && place == nullptr) outcome.reason = "a replay only places jobs";
    if (!outcome.reason.empty()) outcome.status = Outcome::rejected;
    world_.announce(decision);
    world_.apply(outcome);
    if (outcome.status == Outcome::applied) {
      Job& job = jobs_[place->job.value];
      job.start_s = now_s_;
      running_.emplace(now_s_ + job.duration_s, place->job.value);
    }
    outcomes_.push_back(std::move(outcome));
  }
}

void JobReplayBackend::fill(JobsReport& report) const {
  std::vector<std::int64_t> completion;
  double waited = 0, completed = 0, work = 0;
  std::int64_t last_end = 0;
  for (const Job& job : jobs_) {
    if (job.end_s < 0) continue;
    completion.push_back(job.end_s - job.submit_s);
    completed += static_cast<double>(completion.back());
    waited += static_cast<double>(job.start_s - job.submit_s);
    work += static_cast<double>(job.gpus) * static_cast<double>(job.duration_s);
    last_end = std::max(last_end, job.end_s);
  }
  report.set_jobs_in(jobs_.size());
  report.set_jobs_out(completion.size());
  report.set_preemptions(0);
  if (completion.empty()) return;
  std::sort(completion.begin(), completion.end());
  const auto count = static_cast<double>(completion.size());
  const auto makespan = static_cast<double>(last_end - jobs_.front().submit_s);
  report.set_jct_mean_s(completed / count);
  report.set_jct_p50_s(at_share(completion, 0.5));
  report.set_jct_p99_s(at_share(completion, 0.99));
  report.set_queue_mean_s(waited / count);
  report.set_makespan_s(makespan);
  if (makespan > 0) report.set_utilization(work / (world_.state().gpus.size() * makespan));
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
  Recorder recorder(backend, policy, header, record_path);
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
  report.set_decision_log_sha256(recorder.log_sha256());
  report.set_decision_trace_sha256(recorder.trace_sha256());
  return report;
}

JobsReport replay_jobs(const std::vector<TraceJob>& jobs, const JobReplay& replay,
                       const std::string& record_path) {
  return replay_jobs(jobs, replay, *make_stack(replay), record_path);
}

}  // namespace orrery
