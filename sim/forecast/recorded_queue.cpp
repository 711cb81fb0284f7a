#include "sim/forecast/recorded_queue.hpp"

#include <algorithm>
#include <iterator>
#include <memory>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/record/encoding.hpp"
#include "policies/record/log_reader.hpp"
#include "policies/run/registry.hpp"
#include "sim/forecast/queue_forecast.hpp"
#include "topologies/part.hpp"

namespace orrery::sim {
namespace {

LogHeader header_of(const std::string& path) {
  LogReader log(path);
  LogHeader header = read_header(log);
  if (!header.has_replay()) {
    log.refuse_last("is of a training run: expected the log of a queue of jobs");
  }
  return header;
}

/// Policy that forwards to another one and reads the course of its queue.
class FollowedPolicy : public Policy {
 public:
  FollowedPolicy(Policy& inner, CourseReader& course, const QueueSnapshot& begin)
      : inner_(inner), course_(course), begin_(begin) {}

  Needs needs() const override {
    Needs needs = inner_.needs();
    if (needs.tick == 0) return needs;
    throw Error(ErrorKind::bad_input,
                "--under: expected a queue policy, which needs no ticks, found one with a tick");
  }
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override {
    inner_.start(context, cluster, parameters);
    if (!has_running_job(begin_.world().jobs())) return;
    Archive empty;  // the policy rebuilds its queue from the table of jobs
    inner_.save(empty);
    inner_.load(empty);
  }
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override {
    course_.add_observation(seen);
    if (seen.sequence == 0) start_running(seen.now);
    inner_.observe(context, seen, decisions);
    course_.add_decisions(decisions.items(), seen.now);
  }

 private:
  void start_running(Nanos now) {
    for (std::uint32_t id = 0; id < begin_.jobs().size(); ++id) {
      if (begin_.jobs()[id].is_running) course_.start_job({id}, now);
    }
  }

  Policy& inner_;
  CourseReader& course_;
  const QueueSnapshot& begin_;
};

/// Event of a course that a decision may depend on; `job`: kNoJob for a change of a part.
struct Occurrence {
  Nanos at = 0;
  std::size_t job = 0;
  std::string what;
};
constexpr std::size_t kNoJob = ~std::size_t{0};

void add_occurrences(const QueueCourse& course, std::vector<Occurrence>& out) {
  for (std::size_t i = 0; i < course.jobs.size(); ++i) {
    const JobInQueue& job = course.jobs[i];
    out.push_back({job.arrived, i, "submission of " + job.spec.name});
    if (job.end != kNever) out.push_back({job.end, i, "end of " + job.spec.name});
  }
}

/// Returns the nearest occurrence of another job at another instant than `at`; `all` ascends.
CompetingEvent nearest_to(Nanos at, std::size_t job, const std::vector<Occurrence>& all) {
  const auto competes = [at, job](const Occurrence& each) {
    return each.at != at && each.job != job;
  };
  const auto middle = std::partition_point(all.begin(), all.end(),
                                           [at](const Occurrence& each) { return each.at < at; });
  CompetingEvent nearest;
  const auto after = std::find_if(middle, all.end(), competes);
  if (after != all.end()) nearest = {after->what, after->at - at};
  const auto before = std::find_if(std::make_reverse_iterator(middle), all.rend(), competes);
  if (before != all.rend() && at - before->at < nearest.distance) {
    nearest = {before->what, at - before->at};
  }
  return nearest;
}

}  // namespace

// ---- courses --------------------------------------------------------------------------------

Nanos JobInQueue::served_in(Nanos unit) const {
  Nanos sum = 0;
  for (std::size_t run = 0; run < stops.size(); ++run) {
    sum += rounded_to(stops[run], unit) - rounded_to(starts[run], unit);
  }
  return sum;
}

double QueueCourse::mean_wait_s() const {
  double sum = 0;
  for (const JobInQueue& job : jobs) {
    sum += to_seconds(std::min(job.end, end) - job.spec.submit - job.served);
  }
  return jobs.empty() ? 0 : sum / static_cast<double>(jobs.size());
}

std::size_t QueueCourse::unended() const {
  const auto count = std::count_if(jobs.begin(), jobs.end(),
                                   [](const JobInQueue& job) { return job.end == kNever; });
  return static_cast<std::size_t>(count);
}

void CourseReader::add_observation(const Observation& seen) {
  has_lost_part_ = false;
  for (const Event& event : seen.events) add_event(event, seen.now);
}

void CourseReader::add_event(const Event& event, Nanos now) {
  if (const auto* submitted = std::get_if<JobSubmitted>(&event)) {
    jobs_.push_back({.spec = submitted->job, .arrived = now, .starts = {}, .stops = {}});
    standing_.emplace_back();
  } else if (const auto* outcome = std::get_if<Decided>(&event)) {
    add_outcome(*outcome);
  } else if (const auto* started = std::get_if<JobStarted>(&event)) {
    Standing& standing = standing_[started->job.value];
    if (!standing.given && !standing.since) ++undecided_;
    start_job(started->job, standing.given.value_or(now));
    standing.given.reset();
  } else if (const auto* stopped = std::get_if<JobStopped>(&event)) {
    stop_job(stopped->job, now);
  } else if (const auto* done = std::get_if<JobDone>(&event)) {
    jobs_[done->job.value].end = now;
    standing_[done->job.value].taken.reset();
    stop_job(done->job, now);
  } else if (const auto* change = std::get_if<PartChanged>(&event)) {
    has_lost_part_ = has_lost_part_ || change->to.health == Health::lost;
    changes_.parts.emplace_back(now, *change);
  }
}

void CourseReader::add_outcome(const Decided& outcome) {
  const auto open = open_.extract(outcome.decision);
  if (!open || outcome.status != Outcome::applied) return;
  Standing& standing = standing_[open.mapped().job.value];
  (open.mapped().is_release ? standing.taken : standing.given) = open.mapped().at;
}

void CourseReader::add_decisions(std::span<const Decision> decisions, Nanos now) {
  for (const Decision& decision : decisions) {
    const auto* assign = std::get_if<Assign>(&decision.what);
    if (assign != nullptr) open_[decision.id] = {assign->job, now, assign->is_release()};
  }
}

void CourseReader::start_job(JobId job, Nanos now) {
  Standing& standing = standing_[job.value];
  if (standing.since) return;
  standing.since = now;
  standing.taken.reset();
  jobs_[job.value].starts.push_back(now);
}

/// A stop of a job without GPUs is that of an order that was withdrawn. An order that the policy
/// itself withdrew had the GPUs until then; the backend withdraws an order that has failed.
void CourseReader::stop_job(JobId job, Nanos now) {
  Standing& standing = standing_[job.value];
  if (!standing.since && standing.given && standing.taken) {
    const Nanos taken = *standing.taken;
    start_job(job, *standing.given);
    standing.taken = taken;
  }
  if (standing.since) {
    if (!standing.taken && has_lost_part_ && jobs_[job.value].end == kNever) {
      changes_.stop_jobs = true;
    }
    end_run(job, standing.taken.value_or(now));
  }
  standing = {};
}

void CourseReader::end_run(JobId job, Nanos at) {
  jobs_[job.value].stops.push_back(at);
  jobs_[job.value].served += at - *standing_[job.value].since;
}

QueueCourse CourseReader::finish_course(Nanos end) {
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    if (standing_[i].since) end_run({static_cast<std::uint32_t>(i)}, end);
  }
  return {std::move(jobs_), end};
}

// ---- the recorded queue ---------------------------------------------------------------------

RecordedQueue::RecordedQueue(const std::string& path)
    : header_(header_of(path)), cluster_(cluster_of(header_.replay())) {
  read_log(path);
}

void RecordedQueue::read_log(const std::string& path) {
  LogReader log(path);
  read_header(log);
  ObservationReader reader(cluster_);
  NoSamples samples;
  CourseReader course;
  LogRecord record;
  Nanos end = 0;
  std::size_t first_changes = 0;
  while (true) {
    if (!log.next(record)) log.refuse_log("is cut short");
    if (record.has_footer()) break;
    if (!record.has_call()) log.refuse_last("is neither a call nor a footer");
    try {
      const Observation seen = reader.read(record.call().observation(), samples);
      course.add_observation(seen);
      if (!begin_) {
        begin_.emplace(seen);
        known_ = seen.jobs.submitted();
        first_changes = course.later_changes().parts.size();
      }
      std::vector<Decision> decisions;
      for (const DecisionRecord& decision : record.call().decisions()) {
        decisions.push_back(decode(decision));
        reader.world().announce_decision(decisions.back());
      }
      course.add_decisions(decisions, seen.now);
      end = seen.now;
    } catch (const Error& error) {
      log.refuse_last(error.message());
    }
  }
  undecided_ = course.undecided();
  changes_ = course.later_changes();
  changes_.parts.erase(changes_.parts.begin(),
                       changes_.parts.begin() + static_cast<std::ptrdiff_t>(first_changes));
  recorded_ = course.finish_course(end);
}

/// Returns the job as a later arrival of the simulation.
LaterJob RecordedQueue::later_job(const JobInQueue& job) const {
  LaterJob later{.spec = job.spec, .duration = job.served, .seen = job.arrived};
  if (job.end == kNever) later.duration = kNever;
  if (job.end != kNever && job.starts.empty()) {  // cancelled before a start
    later.duration = kNever;
    later.leaves = job.end;
  }
  return later;
}

/// Returns an instant at which all jobs have ended if they can run, one after the other.
Nanos RecordedQueue::simulated_until() const {
  if (recorded_.unended() > 0) return recorded_.end;
  Nanos until = recorded_.end;
  for (const JobInQueue& job : recorded_.jobs) {
    until = std::min(until, kNever / 2 - job.served) + job.served;
  }
  return until;
}

QueueCourse RecordedQueue::simulate_under(Policy& policy) const {
  if (!begin_) return recorded_;
  std::vector<std::size_t> known_as;  // index in the log, by id in the simulation
  std::vector<Nanos> left;
  for (const QueueSnapshot::Job& job : begin_->jobs()) {
    known_as.push_back(job.known_as.value);
    const Nanos duration = later_job(recorded_.jobs[job.known_as.value]).duration;
    left.push_back(duration == kNever ? kNever : std::max<Nanos>(duration - job.served, 1));
  }
  std::vector<LaterJob> later;
  for (std::size_t i = known_; i < recorded_.jobs.size(); ++i) {
    known_as.push_back(i);
    later.push_back(later_job(recorded_.jobs[i]));
  }
  const Nanos until = simulated_until();
  ForkedQueue queue(*begin_, left, later, until, changes_);
  CourseReader reader;
  FollowedPolicy followed(policy, reader, *begin_);
  run_future(queue, followed);
  QueueCourse simulated = reader.finish_course(until);
  QueueCourse out{recorded_.jobs, until};
  for (std::size_t i = 0; i < simulated.jobs.size(); ++i) {
    JobInQueue& job = out.jobs[known_as[i]];
    simulated.jobs[i].arrived = job.arrived;
    job = std::move(simulated.jobs[i]);
  }
  return out;
}

std::vector<StartDifference> RecordedQueue::differences(const QueueCourse& simulated) const {
  std::vector<StartDifference> out;
  const auto start = [](const JobInQueue& job, std::size_t number) {
    return number < job.starts.size() ? job.starts[number] : kNever;
  };
  for (std::size_t i = 0; i < recorded_.jobs.size(); ++i) {
    const JobInQueue &was = recorded_.jobs[i], &is = simulated.jobs[i];
    for (std::size_t k = 0; k < std::max(was.starts.size(), is.starts.size()); ++k) {
      StartDifference each{.job = i,
                           .start = k + 1,
                           .recorded = start(was, k),
                           .simulated = start(is, k),
                           .nearest = {}};
      // The record does not show the outcomes of the decisions of its last instant.
      const bool is_open = was.end == kNever && each.at() >= recorded_.end;
      if (each.recorded != each.simulated && !is_open) out.push_back(std::move(each));
    }
  }
  if (out.empty()) return out;
  std::vector<Occurrence> all;
  add_occurrences(recorded_, all);
  add_occurrences(simulated, all);
  for (const auto& [at, change] : changes_.parts) {
    all.push_back({at, kNoJob, "change of " + part_name(change.part)});
  }
  std::sort(all.begin(), all.end(),
            [](const Occurrence& a, const Occurrence& b) { return a.at < b.at; });
  for (StartDifference& each : out) each.nearest = nearest_to(each.at(), each.job, all);
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.at() < b.at(); });
  return out;
}

}  // namespace orrery::sim
