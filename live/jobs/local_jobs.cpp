#include "live/jobs/local_jobs.hpp"

#include <poll.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "policies/seam/recorded_job.hpp"

namespace orrery {
namespace {

/// Many processes that say often that they are alive would have no time for anything else.
std::chrono::nanoseconds beat_of(const Cluster& cluster) {
  constexpr std::uint32_t kFew = 64;
  return std::chrono::milliseconds(20) * (1 + cluster.gpus() / kFew);
}

std::uint32_t nodes_of(const GpuRuns& gpus, const Cluster& cluster) {
  std::set<NodeId> nodes;
  for (const GpuId gpu : gpus) nodes.insert(cluster.node_of(gpu));
  return static_cast<std::uint32_t>(nodes.size());
}

}  // namespace

LocalJobs::LocalJobs(Cluster cluster, std::vector<TraceJob> jobs, Estimates estimates,
                     Options options)
    : cluster_(std::move(cluster)),
      world_(cluster_),
      trace_(std::move(jobs)),
      estimates_(std::move(estimates)),
      options_(options),
      gate_(world_, {Kinds<Action>::of<Assign>(), {}}, *this),
      outcomes_(trace_.size()) {
  for (std::uint32_t i = 0; i < trace_.size(); ++i) {
    outcomes_[i].too_large = trace_[i].gpus > cluster_.gpus();
    if (!outcomes_[i].too_large) order_.push_back(i);
  }
  std::stable_sort(order_.begin(), order_.end(), [this](std::uint32_t a, std::uint32_t b) {
    return trace_[a].submit_s < trace_[b].submit_s;
  });
  served_.resize(order_.size());
}

void LocalJobs::begin(const Needs& needs) {
  if (needs.tick == 0) return;
  throw Error(ErrorKind::bad_input, "jobs of a log run under queue policies, which want no ticks");
}

// ---- decisions ------------------------------------------------------------------------------

std::string LocalJobs::refusal(const Decision& decision) const {
  const auto* assign = std::get_if<Assign>(&decision.what);
  if (assign == nullptr) return "a recorded job has nothing to set and nothing to save";
  const JobInfo* info = world_.jobs().find(assign->job);
  const bool moved = info != nullptr && info->placed() && !assign->leaves();
  return moved ? "a recorded job stays where it was started until it leaves" : "";
}

void LocalJobs::happen(Event event) {
  world_.apply(event, now_);
  events_.push_back(std::move(event));
}

void LocalJobs::apply(const DecisionList& decisions) {
  world_.begin_batch();
  gate_.take(decisions, now_);
}

void LocalJobs::carry_out(const Decision& decision) {
  const auto& assign = std::get<Assign>(decision.what);
  const std::uint32_t number = assign.job.value;
  if (!assign.leaves()) return start(number, assign);
  const auto running = running_.find(number);
  ensure(running != running_.end(), "a job that leaves its GPUs has a process");
  running->second.process.kill();
  served_[number] += now_ - running->second.since;
  running_.erase(running);
  ++outcome(number).kills;
  happen(JobStopped{assign.job, 0});
}

void LocalJobs::start(std::uint32_t number, const Assign& assign) {
  const Nanos left = job(number).duration_s * kNanosPerSecond - served_[number];
  const JobProcess::Order order{assign.gpus, now_, left, beat_of(cluster())};
  const auto started =
      running_.emplace(number, Running{JobProcess(slots_, *clock_, order), now_}).first;
  ++processes_;
  Outcome& what = outcome(number);
  if (what.start < 0) what.start = now_;
  what.nodes = nodes_of(assign.gpus, cluster());
  if (started_) started_(started->second.process);
  const Epoch epoch{world_.jobs()[assign.job].epoch.value + 1};
  happen(JobStarted{.job = assign.job, .epoch = epoch, .from = 0,
                    .where = {assign.gpus, assign.layout}});
}

// ---- time -----------------------------------------------------------------------------------

std::optional<Observation> LocalJobs::next() {
  if (!clock_) clock_.emplace(options_.speed, order_.empty() ? 0 : submission(0));
  if (events_.empty() && !advance()) {
    running_.clear();  // kills
    return {};
  }
  shown_ = std::exchange(events_, {});
  return Observation{.now = now_, .sequence = calls_++, .events = shown_,
                     .cluster = cluster_, .state = world_.state(), .jobs = world_.jobs(),
                     .samples = samples_};
}

/// Until something has happened that is to be shown; false if nothing will.
bool LocalJobs::advance() {
  while (events_.empty()) {
    if (over()) return false;
    const std::optional<Nanos> stop = wait_for_stop();
    if (!stop) {  // jobs wait, and nobody will ever decide
      gate_.close("the run has ended");
      return !events_.empty();
    }
    if (*stop > options_.until) return false;
    most_behind_ = std::max(most_behind_, clock_->real(clock_->now() - *stop));
    now_ = *stop;
    end_jobs();
    submit_jobs();
    if (gate_.wake_due(now_)) happen(Tick{});
  }
  return true;
}

/// By what is known so far.
Nanos LocalJobs::next_stop() const {
  Nanos stop = arrived_ < order_.size() ? submission(arrived_) : kNever;
  stop = std::min(stop, gate_.next_wake());
  for (const auto& [number, job] : running_) {
    if (const auto ended = job.process.ended()) stop = std::min(stop, std::max(*ended, now_));
  }
  return stop <= options_.until || running_.empty() ? stop : options_.until + 1;
}

/// No process can still end at that instant, or before it, but those that have said so.
bool LocalJobs::all_beyond(Nanos at) const {
  return std::all_of(running_.begin(), running_.end(), [at](const auto& entry) {
    const JobProcess& process = entry.second.process;
    return process.ended().has_value() || process.alive_at() >= at;
  });
}

/// The next instant, once it has come; nothing if there is none.
std::optional<Nanos> LocalJobs::wait_for_stop() {
  while (true) {
    const Nanos stop = next_stop();
    if (stop == kNever && running_.empty()) return {};
    if (stop != kNever && clock_->now() >= stop && all_beyond(stop)) return stop;
    constexpr std::chrono::nanoseconds kPatient = std::chrono::seconds(1);
    const bool ahead = stop != kNever && clock_->now() < stop;
    listen(ahead ? std::min(clock_->until(stop), kPatient) : kPatient);
  }
}

void LocalJobs::listen(std::chrono::nanoseconds at_most) {
  std::vector<pollfd> channels;
  for (const auto& [number, job] : running_) {
    if (!job.process.ended()) channels.push_back({job.process.channel(), POLLIN, 0});
  }
  const timespec timeout{at_most.count() / 1'000'000'000, at_most.count() % 1'000'000'000};
  ppoll(channels.data(), channels.size(), &timeout, nullptr);
  for (auto& [number, job] : running_) {
    if (job.process.ended()) continue;
    job.process.hear();
    const bool silent = !job.process.ended() && job.process.silent() > options_.patience;
    if (silent) job.process.give_up();
  }
}

void LocalJobs::end_jobs() {
  for (auto entry = running_.begin(); entry != running_.end();) {
    auto& [number, running] = *entry;
    const std::optional<Nanos> ended = running.process.ended();
    if (!ended || *ended > now_) {
      ++entry;
      continue;
    }
    running.process.reap();
    Outcome& what = outcome(number);
    what.failed = running.process.failed();
    what.end = now_;
    what.ran = served_[number] + now_ - running.since;
    ++ended_;
    if (estimates_.ended) estimates_.ended(job(number), what.ran);
    happen(JobDone{{number}, what.failed ? Ending::failed : Ending::completed});
    entry = running_.erase(entry);
  }
}

void LocalJobs::submit_jobs() {
  for (; arrived_ < order_.size() && submission(arrived_) <= now_; ++arrived_) {
    const TraceJob& submitted = job(arrived_);
    outcome(arrived_).estimate = estimates_.at_submission(submitted);
    happen(JobSubmitted{recorded_job(submitted, {arrived_}, outcome(arrived_).estimate)});
  }
}

}  // namespace orrery
