#include "live/jobs/local_jobs.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "policies/seam/recorded_job.hpp"

namespace orrery::live {
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
      estimates_(std::move(estimates)),
      options_(options),
      gate_(world_, {Kinds<Action>::of<Assign>(), {}}, *this),
      submissions_(std::move(jobs), cluster_.gpus()),
      running_(options.patience, beat_of(cluster_)),
      outcomes_(submissions_.jobs().size()) {
  for (std::size_t i = 0; i < outcomes_.size(); ++i) {
    outcomes_[i].too_large = !submissions_.fits(i);
  }
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
  const bool moved = info != nullptr && info->is_placed() && !assign->is_release();
  return moved ? "a recorded job stays where it was started until it leaves" : "";
}

void LocalJobs::emit_event(Event event) {
  world_.apply(event, now_);
  events_.push_back(std::move(event));
}

void LocalJobs::apply(const DecisionList& decisions) {
  world_.begin_batch();
  gate_.accept_decisions(decisions, now_);
}

void LocalJobs::carry_out(const Decision& decision) {
  const auto& assign = std::get<Assign>(decision.what);
  const std::uint32_t number = assign.job.value;
  if (!assign.is_release()) return start(number, assign);
  running_.kill_job(number, now_);
  ++outcome(number).kills;
  emit_event(JobStopped{assign.job, 0});
}

void LocalJobs::start(std::uint32_t number, const Assign& assign) {
  const Nanos duration = submissions_.job(number).duration_s * kNanosPerSecond;
  const JobProcess& process = running_.start(number, assign.gpus, *clock_, now_, duration);
  Outcome& what = outcome(number);
  if (what.start < 0) what.start = now_;
  what.nodes = nodes_of(assign.gpus, cluster());
  if (started_) started_(process);
  const Epoch epoch{world_.jobs()[assign.job].epoch.value + 1};
  emit_event(JobStarted{
      .job = assign.job, .epoch = epoch, .from = 0, .where = {assign.gpus, assign.layout}});
}

// ---- time -----------------------------------------------------------------------------------

std::optional<Observation> LocalJobs::next() {
  if (!clock_) clock_.emplace(options_.speed, submissions_.count() == 0 ? 0 : submissions_.next());
  if (events_.empty() && !advance_clock()) {
    running_.kill_all();
    return {};
  }
  shown_ = std::exchange(events_, {});
  return Observation{.now = now_,
                     .sequence = calls_++,
                     .events = shown_,
                     .cluster = cluster_,
                     .state = world_.state(),
                     .jobs = world_.jobs(),
                     .samples = samples_};
}

/// Advances until an event must be shown; returns false if none will follow.
bool LocalJobs::advance_clock() {
  while (events_.empty()) {
    if (is_over()) return false;
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
    if (gate_.pop_due_wakes(now_)) emit_event(Tick{});
  }
  return true;
}

/// Returns the next stop by the knowledge so far.
Nanos LocalJobs::next_stop() const {
  const Nanos stop =
      std::min({submissions_.next(), gate_.next_wake(), std::max(running_.first_end(), now_)});
  return stop <= options_.until || running_.none() ? stop : options_.until + 1;
}

/// The next instant, once it has come; nothing if there is none.
std::optional<Nanos> LocalJobs::wait_for_stop() {
  while (true) {
    const Nanos stop = next_stop();
    if (stop == kNever && running_.none()) return {};
    if (stop != kNever && clock_->now() >= stop && running_.all_beyond(stop)) return stop;
    constexpr std::chrono::nanoseconds kPatient = std::chrono::seconds(1);
    const bool ahead = stop != kNever && clock_->now() < stop;
    running_.read_messages(ahead ? std::min(clock_->until(stop), kPatient) : kPatient);
  }
}

void LocalJobs::end_jobs() {
  for (const auto& [number, ran, failed] : running_.reap_ended(now_)) {
    Outcome& what = outcome(number);
    what.failed = failed;
    what.end = now_;
    what.ran = ran;
    ++ended_;
    if (estimates_.ended) estimates_.ended(submissions_.job(number), ran);
    emit_event(JobDone{{number}, failed ? Ending::failed : Ending::completed});
  }
}

void LocalJobs::submit_jobs() {
  while (const std::optional<std::uint32_t> number = submissions_.take_next(now_)) {
    const TraceJob& submitted = submissions_.job(*number);
    outcome(*number).estimate = estimates_.at_submission(submitted);
    emit_event(JobSubmitted{recorded_job(submitted, {*number}, outcome(*number).estimate)});
  }
}

}  // namespace orrery::live
