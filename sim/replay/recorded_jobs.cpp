#include "sim/replay/recorded_jobs.hpp"

#include <algorithm>
#include <utility>

#include "policies/seam/recorded_job.hpp"
#include "traces/report/report.hpp"
#include "traces/scenario/replay_conditions.hpp"

namespace orrery::sim {
namespace {

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

/// Returns the number of GPUs with so many slices of a cluster.
std::uint32_t real_gpus(std::uint32_t slices, const Cluster& cluster) {
  return slices / cluster.shape().slices_per_gpu;
}

/// Returns the largest number of GPUs that a job may have.
std::uint32_t usable_gpus(const Cluster& cluster, const SitePower& power) {
  const std::uint32_t all = real_gpus(cluster.gpus(), cluster);
  return power.has_limits() ? std::min(all, power.most_gpus_lasting()) : all;
}

NumberedTrace::KindSizes kind_sizes(const Cluster& cluster) {
  NumberedTrace::KindSizes sizes;
  for (const NodesOfKind& each : cluster.shape().kinds) {
    sizes[each.kind] += each.nodes * real_gpus(cluster.shape().gpus_per_node, cluster);
  }
  return sizes;
}

}  // namespace

RecordedJobs::RecordedJobs(std::vector<TraceJob> jobs, const World& world, Happen happen,
                           EstimateChoice estimates, RunConditions conditions)
    : world_(world),
      happen_(std::move(happen)),
      trace_(std::move(jobs), usable_gpus(world.cluster(), conditions.power),
             kind_sizes(world.cluster())),
      estimates_(std::move(estimates)),
      conditions_(std::move(conditions)),
      runs_(trace_, {.restart_cost = conditions_.restart_cost,
                     .paced = conditions_.paces != nullptr,
                     .limited = conditions_.enforce_limits,
                     .clocked = conditions_.power.changes_clock()}),
      held_(trace_),
      load_(world),
      closed_(world) {
  if (!estimates_.are_recorded_durations()) told_.resize(trace_.size());
  if (trace_.size() == 0) return;
  load_.begin(trace_.submission(0));
  conditions_.power.begin(trace_.submission(0));
}

Nanos RecordedJobs::next_event_time() const {
  const std::optional<Nanos> end = runs_.next_end();
  const Nanos arrival = arrived_ < trace_.size() ? trace_.submission(arrived_) : kNever;
  const bool work = end || arrival < kNever;
  return std::min({arrival, end.value_or(kNever), conditions_.outages.next(work),
                   conditions_.power.next_change(work), closed_.next_choice_time()});
}

std::uint32_t RecordedJobs::busy_gpus() const {
  const Cluster& cluster = world_.cluster();
  const std::uint32_t down = conditions_.outages.down() * cluster.shape().gpus_per_node;
  return cluster.gpus() - world_.state().free - down - closed_.count();
}

void RecordedJobs::advance_to(Nanos now, const Watch&) {
  load_.hold_load(now, busy_gpus());
  conditions_.power.hold_until(now);
  end_jobs(now);
  const std::vector<std::uint32_t> struck = struck_jobs(now);
  submit_jobs(now);
  for (const std::uint32_t number : struck) end_job(number, now);
  if (conditions_.power.has_limits()) keep_limits(now);
}

/// Closes GPUs at the begin of a lower limit, and opens them when it ends. A job that must leave
/// its GPUs keeps its work.
void RecordedJobs::keep_limits(Nanos now) {
  const auto pause = [this, now](JobId job) {
    conditions_.power.count_pause();
    end_job(ids_.number_of(job), now);
  };
  closed_.choose_gpus({.most = conditions_.power.most_gpus(),
                  .down = conditions_.outages.down(),
                  .outages = conditions_.outages.outages(),
                  .departures = ended_ + preemptions_ + struck_},
                 pause, happen_);
}

/// Applies new paces: of jobs affected by decisions, or by starts and ends elsewhere.
void RecordedJobs::begin(Nanos now, const Watch&) {
  if (conditions_.power.is_known()) {
    const double clock = conditions_.power.set_work(busy_gpus());
    if (conditions_.power.changes_clock()) runs_.set_clock(now, clock);
  }
  if (conditions_.paces == nullptr) return;
  for (const JobPaces::Change& change : conditions_.paces->drain_changes(now)) {
    runs_.set_pace(ids_.number_of(change.job), now, change.pace);
  }
}

void RecordedJobs::end_jobs(Nanos now) {
  for (;;) {
    const std::uint32_t number = runs_.end_one(now);
    if (number == RecordedRuns::kNone) return;
    ++ended_;
    conditions_.power.count_end();
    const JobId id = ids_.id_of(number);
    if (conditions_.paces != nullptr) conditions_.paces->remove_job(id);
    // The run time of a variable job says nothing about its duration on the GPUs of the log.
    estimates_.record_end(trace_[number], runs_.is_variable(number) ? runs_.work_time(number)
                                                                    : runs_.run_time(number));
    held_.record_end(number);
    happen_(JobDone{id});
  }
}

std::vector<std::uint32_t> RecordedJobs::standing_on(std::uint32_t node) const {
  const std::uint32_t size = world_.cluster().shape().gpus_per_node;
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t gpu = node * size; gpu < (node + 1) * size; ++gpu) {
    const JobId owner = world_.state().owner[gpu];
    if (owner != ClusterState::kNobody) numbers.push_back(ids_.number_of(owner));
  }
  return numbers;
}

/// Applies node outages. A job on a failing node loses its GPUs, after all other events of the
/// instant, and, if the outage was not planned, its work since its last checkpoint.
std::vector<std::uint32_t> RecordedJobs::struck_jobs(Nanos now) {
  std::vector<std::uint32_t> struck;
  if (!conditions_.outages.any()) return struck;
  for (const NodeOutages::Change& change : conditions_.outages.advance_to(now)) {
    const Health health = change.down ? Health::lost : Health::ok;
    happen_(PartChanged{{PartKind::node, change.node},
                        {.health = health, .rate = change.down ? 0.0 : 1.0}});
    if (!change.down) continue;
    for (const std::uint32_t number : standing_on(change.node)) {
      if (std::find(struck.begin(), struck.end(), number) == struck.end()) struck.push_back(number);
      if (!change.planned) fails_.insert(number);
    }
  }
  return struck;
}

/// Jobs that enter the queue at one instant do so in the order of the log.
void RecordedJobs::submit_jobs(Nanos now) {
  std::vector<std::uint32_t> numbers = held_.drain_released();
  for (const std::uint32_t number : numbers) entered_[number] = now;
  for (; arrived_ < trace_.size() && trace_.submission(arrived_) <= now; ++arrived_) {
    const auto number = static_cast<std::uint32_t>(arrived_);
    if (held_.record_arrival(number)) numbers.push_back(number);
  }
  if (!entered_.empty()) std::sort(numbers.begin(), numbers.end());
  for (const std::uint32_t number : numbers) submit_job(number, now);
}

void RecordedJobs::submit_job(std::uint32_t number, Nanos now) {
  const JobId id{world_.jobs().submitted()};
  ids_.add(number, id);
  const TraceJob& job = trace_[number];
  if (!told_.empty()) told_[number] = estimates_.at_submission(job);
  load_.wait(slices_of(job));
  JobSpec spec = recorded_job(job, id, told_duration(number));
  spec.gpus = spec.layout.data = slices_of(job);
  if (entered_.contains(number)) spec.submit = now;
  if (trace_.is_elastic(number) && runs_.is_variable(number)) {
    const ElasticSizes& sizes = sizes_of(number);
    const std::uint32_t slices = world_.cluster().shape().slices_per_gpu;
    spec.least_gpus = sizes.least() * slices;
    spec.most_gpus = std::min(sizes.most(), world_.cluster().gpus() / slices) * slices;
  }
  const GpuKinds* const kinds = trace_.kinds_of(job);
  if (kinds != nullptr && (kinds->has_speeds() || world_.cluster().gpu_kinds().size() > 1)) {
    for (const KindSpeed& each : kinds->by_speed()) spec.gpu_kinds.push_back(each.kind);
  }
  happen_(JobSubmitted{std::move(spec)});
}

std::string RecordedJobs::refusal(const Decision& decision) const {
  const auto* assign = std::get_if<Assign>(&decision.what);
  if (assign == nullptr) return "a recorded job has nothing to set and nothing to save";
  const JobInfo* job = world_.jobs().find(assign->job);
  const std::string kinds = job == nullptr ? "" : kind_objection(job->spec, assign->gpus);
  if (!kinds.empty()) return kinds;
  const std::string part = job == nullptr ? "" : part_objection(job->spec, assign->gpus);
  if (!part.empty()) return part;
  const bool moved = job != nullptr && job->is_placed() && !assign->is_release() &&
                     assign->gpus.size() == job->gpus.size();
  return moved ? "a recorded job stays where it was started until it leaves, or, if it is elastic, "
                 "until its number of GPUs changes"
               : "";
}

std::string RecordedJobs::kind_objection(const JobSpec& job, const GpuRuns& gpus) const {
  const Cluster& cluster = world_.cluster();
  std::optional<std::string> kind;
  for (const GpuRuns::Run& run : gpus.runs()) {
    if (cluster.shape().kinds.empty()) return "";
    const std::uint32_t last = cluster.node_of({run.first + run.count - 1}).value;
    for (std::uint32_t node = cluster.node_of({run.first}).value; node <= last; ++node) {
      const std::string& here = cluster.gpu_kind({node});
      if (kind.value_or(here) != here) return "a recorded job has GPUs of one kind at a time";
      kind = here;
    }
  }
  const std::vector<std::string>& may = job.gpu_kinds;
  const bool good = !kind || may.empty() || std::find(may.begin(), may.end(), *kind) != may.end();
  return good ? "" : "the job may not use GPUs of the kind " + *kind;
}

std::string RecordedJobs::part_objection(const JobSpec& job, const GpuRuns& gpus) const {
  const std::uint32_t slices = world_.cluster().shape().slices_per_gpu;
  if (slices == 1 || gpus.empty()) return "";
  if (job.gpus < slices) {
    const std::uint32_t gpu = gpus.front().value / slices;
    const bool together = std::all_of(gpus.begin(), gpus.end(), [&](GpuId slice) {
      return slice.value / slices == gpu;
    });
    return together ? "" : "a job of a part of a GPU has slices of one GPU";
  }
  for (const GpuRuns::Run& run : gpus.runs()) {
    if (run.first % slices == 0 && run.count % slices == 0) continue;
    return "a job of whole GPUs has all slices of each of its GPUs";
  }
  return "";
}

const ElasticSizes& RecordedJobs::sizes_of(std::uint32_t number) {
  const Label text = trace_[number].sizes;
  const auto known = sizes_.find(text);
  return known != sizes_.end() ? known->second : sizes_.emplace(text, text.str()).first->second;
}

RunSize RecordedJobs::size_on(std::uint32_t number, const GpuRuns& gpus) {
  if (!runs_.is_variable(number)) return {};
  const std::uint32_t slices = world_.cluster().shape().slices_per_gpu;
  RunSize size{.gpus = static_cast<double>(gpus.size()) / slices};
  if (trace_.is_elastic(number)) {
    size.pace = sizes_of(number).relative_speed(static_cast<std::uint32_t>(gpus.size()) / slices,
                                                trace_[number].gpus);
  }
  if (const GpuKinds* const kinds = trace_.kinds_of(trace_[number])) {
    const Cluster& cluster = world_.cluster();
    const double* const speed = kinds->speed_on(cluster.gpu_kind(cluster.node_of(*gpus.begin())));
    if (speed != nullptr) size.pace *= *speed;
  }
  return size;
}

void RecordedJobs::carry_out(const Decision& decision, Nanos now) {
  const Assign& assign = std::get<Assign>(decision.what);
  const std::uint32_t number = ids_.number_of(assign.job);
  if (assign.is_release()) {
    ++preemptions_;
    closed_.record_departure(now);
    return end_job(number, now);
  }
  const Cluster& cluster = world_.cluster();
  const std::uint32_t nodes = nodes_of(assign.gpus, cluster);
  const RunSize size = size_on(number, assign.gpus);
  if (!cluster.shape().kinds.empty()) {
    kind_[number] = cluster.gpu_kind(cluster.node_of(*assign.gpus.begin()));
  }
  if (world_.jobs()[assign.job].is_placed()) {
    runs_.resize(number, now, nodes, size);
  } else {
    runs_.start(number, now, nodes, size);
    const TraceJob& job = trace_[number];
    if (conditions_.paces != nullptr) conditions_.paces->enter_job(assign.job, job, assign.gpus);
    load_.serve_job(slices_of(job));
  }
  happen_(JobStarted{.job = assign.job,
                     .epoch = {runs_.move_count(number)},
                     .from = 0,
                     .where = {assign.gpus, assign.layout}});
}

/// Stops a job before its end. The job keeps all of its work, unless its node failed.
void RecordedJobs::end_job(std::uint32_t number, Nanos now) {
  const bool fails = fails_.erase(number) > 0;
  if (fails) ++struck_;
  runs_.stop(number, now,
             fails ? std::optional(conditions_.checkpoint_every.value_or(kNever)) : std::nullopt);
  const JobId id = ids_.id_of(number);
  if (conditions_.paces != nullptr) conditions_.paces->remove_job(id);
  load_.wait(slices_of(trace_[number]));
  happen_(JobStopped{id, 0});
}

// ---- what became of them --------------------------------------------------------------------

JobRow RecordedJobs::row(std::size_t index) const {
  JobRow row{.job = &trace_.row(index)};
  row.gpus = static_cast<double>(slices_of(*row.job)) / world_.cluster().shape().slices_per_gpu;
  const std::uint32_t number = trace_.number_of_row(index);
  if (number == NumberedTrace::kRejected) {
    row.state = JobRow::State::rejected;
    row.reason = trace_.misfit(*row.job);
    return row;
  }
  row.estimate = told_duration(number);
  if (const auto entered = entered_.find(number); entered != entered_.end()) {
    row.held = entered->second - trace_.submission(number);
  }
  row.start = runs_.first_start(number);
  row.nodes = runs_.nodes(number);
  if (const auto kind = kind_.find(number); kind != kind_.end()) row.gpu_kind = kind->second;
  row.resizes = runs_.resizes(number);
  row.preemptions = runs_.move_count(number) / 2 - row.resizes;
  if (!runs_.over(number)) return row;
  row.end = runs_.end(number);
  row.state = JobRow::State::completed;
  if (runs_.is_timed_out(number)) row.reason = Label("time limit");
  row.ran = runs_.run_time(number);
  row.lost = runs_.lost_time(number);
  row.used_gpu_s = to_seconds(row.ran) * row.gpus;
  row.lost_gpu_s = to_seconds(row.lost) * row.gpus;
  if (const auto gpu_time = runs_.gpu_time(number)) {
    row.used_gpu_s = gpu_time->used;
    row.lost_gpu_s = gpu_time->lost;
    row.is_variable = true;
  }
  return row;
}

void RecordedJobs::fill(JobsReport& report) const {
  const JobResults results(
      rows(), [this](std::size_t i) { return row(i); },
      real_gpus(world_.cluster().gpus(), world_.cluster()));
  results.fill(report);
  report.set_preemptions(preemptions_);
  if (conditions_.any()) fill_conditions(report);
  if (trace_.size() == 0) return;
  load_.fill(report);
  conditions_.power.fill(report);
}

void RecordedJobs::fill_conditions(JobsReport& report) const {
  double sum = 0, most = 0, lost_s = 0;
  std::size_t ended = 0, timed_out = 0;
  for (std::size_t i = 0; i < rows(); ++i) {
    const JobRow at = row(i);
    if (at.state != JobRow::State::completed) continue;
    if (!at.reason.str().empty()) {
      ++timed_out;
      continue;
    }
    lost_s += at.lost_gpu_s;
    const Nanos whole = at.job->duration_s * kNanosPerSecond;
    const double slowdown =
        whole == 0 ? 1 : static_cast<double>(at.ran - at.lost) / static_cast<double>(whole);
    sum += slowdown;
    most = std::max(most, slowdown);
    ++ended;
  }
  report.set_lost_gpu_hours(lost_s / 3600);
  if (conditions_.enforce_limits) report.set_jobs_timed_out(timed_out);
  report.set_outages(conditions_.outages.outages());
  report.set_jobs_struck(struck_);
  report.set_speed(std::string(
      name_of(conditions_.paces == nullptr ? JobSpeed::recorded : JobSpeed::simulated)));
  if (ended == 0) return;
  report.set_slowdown_mean(sum / static_cast<double>(ended));
  report.set_slowdown_max(most);
}

void RecordedJobs::fill(Report& report, Nanos) {
  JobsReport& recorded = *report.mutable_recorded();
  fill(recorded);
  ReplayTables& tables = *report.mutable_replay_tables();
  tables.set_jobs(jobs_csv(rows(), [this](std::size_t i) { return row(i); }));
  tables.set_series(series_csv(load(), real_gpus(world_.cluster().gpus(), world_.cluster())));
  const JobOutcomes all = outcomes();
  tables.mutable_waits()->Assign(all.waits.begin(), all.waits.end());
  tables.mutable_ends()->Assign(all.ends.begin(), all.ends.end());
}

JobOutcomes RecordedJobs::outcomes() const {
  JobOutcomes all;
  all.waits.reserve(rows());
  all.ends.reserve(rows());
  for (std::size_t i = 0; i < rows(); ++i) {
    const JobRow each = row(i);
    const bool is_known = each.state == JobRow::State::completed;
    all.waits.push_back(is_known ? each.waited() : -1);
    all.ends.push_back(is_known ? each.end : -1);
  }
  return all;
}

void RecordedJobs::add_outcomes(Report& report) const {
  if (conditions_.any()) fill(*report.mutable_recorded());
  for (std::size_t i = 0; i < rows(); ++i) {
    const JobRow at = row(i);
    JobOutcome& outcome = *report.add_jobs();
    outcome.set_name(at.job->id.str());
    outcome.set_kind(std::string(name_of(OutcomeKind::recorded)));
    outcome.set_gpus(at.job->gpus);
    outcome.set_submitted_s(static_cast<double>(at.job->submit_s));
    if (at.start >= 0) outcome.set_started_s(to_seconds(at.start));
    if (at.end >= 0) outcome.set_ended_s(to_seconds(at.end));
  }
}

}  // namespace orrery::sim
