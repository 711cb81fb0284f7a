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
                           EstimateChoice estimates, RunConditions conditions)
    : trace_(std::move(jobs)),
      world_(world),
      happen_(std::move(happen)),
      estimates_(std::move(estimates)),
      conditions_(std::move(conditions)) {
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
  const bool work = !running_.empty() || next < kNever;
  if (!running_.empty()) next = std::min(next, running_.top().at);
  return std::min(next, conditions_.outages.next(work));
}

void RecordedJobs::pass(Nanos now, const Watch&) {
  hold_load(now);
  end_jobs(now);
  const std::vector<std::uint32_t> struck = strike(now);
  submit_jobs(now);
  for (const std::uint32_t number : struck) stop(number, now);
}

/// Who goes slower or faster because of what was decided, or of who has come and gone elsewhere.
void RecordedJobs::begin(Nanos now, const Watch&) {
  if (conditions_.paces == nullptr) return;
  for (const JobPaces::Change& change : conditions_.paces->changes(now)) {
    const std::uint32_t number = number_of(change.job);
    Way& way = ways_.at(number);
    way.course.set_pace(now, change.pace);
    expect_end(number, way);
  }
}

void RecordedJobs::expect_end(std::uint32_t number, Way& way) {
  way.end = way.course.due(duration(number));
  running_.push({way.end, number, jobs_[number].starts});
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
    if (const auto way = ways_.find(end.job); way != ways_.end()) {
      way->second.course.stop(now);
      way->second.end = now;
      if (conditions_.paces != nullptr) conditions_.paces->leave(id_of(end.job));
    }
    estimates_.ended(recorded(end.job), ran(end.job));
    happen_(JobDone{id_of(end.job)});
  }
}

std::vector<std::uint32_t> RecordedJobs::standing_on(std::uint32_t node) const {
  const std::uint32_t size = world_.cluster().shape().gpus_per_node;
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t gpu = node * size; gpu < (node + 1) * size; ++gpu) {
    const JobId owner = world_.state().owner[gpu];
    if (owner != ClusterState::kNobody) numbers.push_back(number_of(owner));
  }
  return numbers;
}

/// Nodes come back and go down. Who stands on these loses its GPUs, once all that has come is told,
/// and, where nobody had planned it, what it has done since its last checkpoint.
std::vector<std::uint32_t> RecordedJobs::strike(Nanos now) {
  std::vector<std::uint32_t> struck;
  if (!conditions_.outages.any()) return struck;
  for (const NodeOutages::Change& change : conditions_.outages.pass(now)) {
    const Health health = change.down ? Health::lost : Health::ok;
    happen_(PartChanged{{PartKind::node, change.node}, {.health = health}});
    if (!change.down) continue;
    for (const std::uint32_t number : standing_on(change.node)) {
      if (std::find(struck.begin(), struck.end(), number) == struck.end()) struck.push_back(number);
      if (!change.planned) fails_.insert(number);
    }
  }
  return struck;
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
    ++preemptions_;
    return stop(number, now);
  }
  ++job.starts;
  start(number, now);
  if (conditions_.paces != nullptr) {
    conditions_.paces->enter(assign.job, recorded(number), assign.gpus);
  }
  job.nodes = nodes_of(assign.gpus, world_.cluster()) & 0x7FFF'FFFFu;
  --waiting_.waiting_jobs;
  waiting_.waiting_gpus -= recorded(number).gpus;
  happen_(JobStarted{
      .job = assign.job, .epoch = {job.starts}, .from = 0, .where = {assign.gpus, assign.layout}});
}

/// It has its GPUs now. The first time its end is known, but where paces may change.
void RecordedJobs::start(std::uint32_t number, Nanos now) {
  Job& job = jobs_[number];
  const bool fresh = job.start < 0;
  if (fresh) job.start = now;
  if (fresh && conditions_.paces == nullptr) {
    return running_.push({now + duration(number), number, job.starts});
  }
  Way& way = ways_[number];
  way.course.start(now, fresh ? 0 : conditions_.restart_cost);
  expect_end(number, way);
}

/// It leaves its GPUs before its end.
void RecordedJobs::stop(std::uint32_t number, Nanos now) {
  Job& job = jobs_[number];
  const auto [known, first] = ways_.try_emplace(number);
  JobCourse& course = known->second.course;
  if (first) course.start(job.start, 0);
  course.stop(now);
  if (fails_.erase(number) > 0) {
    const Nanos each = conditions_.checkpoint_every.value_or(kNever);
    course.fall_back(course.done() / each * each);
    ++struck_;
  }
  if (conditions_.paces != nullptr) conditions_.paces->leave(id_of(number));
  ++job.starts;  // its end in the queue is void
  ++waiting_.waiting_jobs;
  waiting_.waiting_gpus += recorded(number).gpus;
  happen_(JobStopped{id_of(number), 0});
}

// ---- what became of them --------------------------------------------------------------------

Nanos RecordedJobs::ran(std::uint32_t number) const {
  const Way* const way = way_of(number);
  return way == nullptr ? duration(number) : way->course.served();
}

Nanos RecordedJobs::end(std::uint32_t number) const {
  const Way* const way = way_of(number);
  return way == nullptr ? jobs_[number].start + duration(number) : way->end;
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
  const std::uint32_t down = conditions_.outages.down() * world_.cluster().shape().gpus_per_node;
  waiting_.busy_gpus = world_.cluster().gpus() - world_.state().free - down;
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
  if (const Way* const way = way_of(number); way != nullptr) row.lost = way->course.lost();
  return row;
}

void RecordedJobs::fill(JobsReport& report) const {
  const JobResults results(
      rows(), [this](std::size_t i) { return row(i); }, world_.cluster().gpus());
  results.fill(report);
  report.set_preemptions(preemptions_);
  if (conditions_.any()) fill_conditions(report);
  if (jobs_.empty() || load_.now() == load_.begin()) return;
  const LoadSeries::Interval mean = load_.mean();
  report.set_queue_length_mean(mean.waiting_jobs);
  report.set_queue_length_max(load_.most_waiting());
  report.set_fragmentation_mean(mean.fragmentation);
}

void RecordedJobs::fill_conditions(JobsReport& report) const {
  double sum = 0, most = 0, lost_s = 0;
  std::size_t ended = 0;
  for (std::size_t i = 0; i < rows(); ++i) {
    const JobRow at = row(i);
    if (at.state != JobRow::State::completed) continue;
    lost_s += to_seconds(at.lost) * at.job->gpus;
    const Nanos whole = at.job->duration_s * kNanosPerSecond;
    const double slowdown =
        whole == 0 ? 1 : static_cast<double>(at.ran - at.lost) / static_cast<double>(whole);
    sum += slowdown;
    most = std::max(most, slowdown);
    ++ended;
  }
  report.set_lost_gpu_hours(lost_s / 3600);
  report.set_outages(conditions_.outages.outages());
  report.set_jobs_struck(struck_);
  report.set_speed(conditions_.paces == nullptr ? "recorded" : "simulated");
  if (ended == 0) return;
  report.set_slowdown_mean(sum / static_cast<double>(ended));
  report.set_slowdown_max(most);
}

void RecordedJobs::fill(Report& report, Nanos) {
  JobsReport& recorded = *report.mutable_recorded();
  fill(recorded);
  ReplayTables& tables = *report.mutable_replay_tables();
  tables.set_jobs(jobs_csv(rows(), [this](std::size_t i) { return row(i); }));
  tables.set_series(series_csv(load_, world_.cluster().gpus()));
  tables.set_groups(groups_csv(recorded));
}

void RecordedJobs::add_outcomes(Report& report) const {
  if (conditions_.any()) fill(*report.mutable_recorded());
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
