#include "live/live_backend.hpp"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/process.hpp"
#include "live/model.hpp"
#include "live/requirements.hpp"
#include "live/text.hpp"
#include "traces/scenario.hpp"

namespace orrery::live {
namespace {

constexpr JobId kJob{0};
constexpr std::chrono::milliseconds kWatch{50};  // how often processes are looked at
constexpr std::chrono::seconds kFinishPatience{10};
// Agents speak fifty times a second; one that is silent for this long is stopped or hangs.
constexpr Nanos kSilence = 10 * kNanosPerSecond;

std::uint32_t micro_batches_of(const Job& job) {
  return job.global_batch() / std::max(job.micro_batch(), 1u);
}

/// Memory traffic of a rank of nominal speed while it computes.
double nominal_traffic(const Job& job) {
  return job.micro_batch() * memory_traffic(job.sequence_length()) /
         to_seconds(std::max<Nanos>(job.pace().micro_batch(), 1));
}

}  // namespace

LiveBackend::LiveBackend(const RunRequest& request, const Cluster& cluster, ProgressSink progress)
    : request_(request),
      scenario_(request_.scenario()),
      cluster_(cluster),
      progress_(std::move(progress)),
      ranks_(scenario_.job().layout().data()),
      world_(cluster),
      ledger_(micro_batches_of(scenario_.job())),
      statistics_(scenario_),
      telemetry_(ranks_, nominal_traffic(scenario_.job())),
      reports_(ranks_),
      silence_(ranks_, kSilence),
      cpu_at_start_(ranks_, -1),
      cpu_now_(ranks_, 0) {
  check_request(request_);
  if (cluster.gpus() < ranks_) {
    throw Error(ErrorKind::bad_input,
                fmt::format("the job has {} ranks, the cluster {} GPUs", ranks_, cluster.gpus()));
  }
  unigram_entropy_ = Text::load(scenario_.live().text()).unigram_entropy();
}

LiveBackend::~LiveBackend() = default;

Capabilities LiveBackend::capabilities() const {
  return {.signals = kJobs | kSteps | kDevices | kLinks | kRanks | kCollectives | kMembership,
          .actions = action_bit(Action{ShiftMicrobatches{}}.index()) |
                     action_bit(Action{WakeMe{}}.index())};
}

void LiveBackend::begin(const Needs& needs) {
  tick_period_ = needs.tick_period;
  agents_ = std::make_unique<AgentGroup>(sibling_program("orrery-live"), scenario_, ranks_);
}

Nanos LiveBackend::now() const {
  return stage_ == Stage::idle || stage_ == Stage::waiting_for_start ? 0 : since(start_);
}

// ---- observations -------------------------------------------------------------------------

JobSpec LiveBackend::job_spec() const {
  const Job& job = scenario_.job();
  const std::uint32_t total = micro_batches_of(job);
  return {
      .id = kJob,
      .name = scenario_.name(),
      .pool = "",
      .submit = 0,
      .gpus = ranks_,
      .duration = 0,
      .tensor = 1,
      .pipeline = 1,
      .data = ranks_,
      .micro_batches = total,
      .max_micro_batches = static_cast<std::uint32_t>(std::floor(job.max_share() * total / ranks_)),
      .steps = scenario_.run().steps(),
      .nominal_micro_batch_time = job.pace().micro_batch()};
}

Observation LiveBackend::observe(std::vector<Event> events) {
  events_ = std::move(events);
  const Nanos instant = now();
  telemetry_.take(instant);
  return {.now = instant,
          .epoch = {},
          .sequence = sequence_++,
          .events = events_,
          .devices = telemetry_.devices(),
          .links = telemetry_.links(),
          .ranks = telemetry_.ranks(),
          .collectives = telemetry_.collectives(),
          .cluster = cluster_,
          .state = world_.state(),
          .jobs = world_.jobs()};
}

Observation LiveBackend::submit() {
  JobSubmitted submitted{.job = job_spec(), .placed = {}};
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) submitted.placed.push_back({rank});
  world_.apply(submitted);
  stage_ = Stage::waiting_for_start;
  return observe({submitted});
}

std::optional<Observation> LiveBackend::next() {
  if (stage_ == Stage::idle) return submit();
  if (stage_ == Stage::waiting_for_start) {
    stage_ = Stage::training;
    start_ = Clock::now();
    next_tick_ = tick_period_ > 0 ? tick_period_ : kNever;
    plan_next();
  }
  while (stage_ == Stage::training && arriving_.empty()) wait_for_something();
  if (!arriving_.empty()) return observe(std::exchange(arriving_, {}));
  return finish();
}

std::optional<Observation> LiveBackend::finish() {
  if (stage_ == Stage::ended) return std::nullopt;
  stage_ = Stage::ended;
  if (!failures_.empty()) {
    agents_->send_stop(failures_.back().cause(), false);
    return std::nullopt;
  }
  if (const auto lost = gather_parameters()) {
    note_failure(*lost, now());
    return observe(std::exchange(arriving_, {}));
  }
  check_cores(busy_cores());
  const JobDone done{kJob};
  world_.apply(done);
  return observe({done});
}

Clock::time_point LiveBackend::next_instant() const {
  Nanos at = std::min(next_tick_, now() + kWatch / std::chrono::nanoseconds(1));
  if (!wakes_.empty()) at = std::min(at, *wakes_.begin());
  return start_ + std::chrono::nanoseconds(at);
}

void LiveBackend::wait_for_something() {
  for (const Incoming& incoming : agents_->receive(next_instant())) {
    if (stage_ == Stage::training) take_in(incoming);
  }
  if (stage_ == Stage::training) look_for_the_dead();
  if (stage_ != Stage::training) return;
  const Nanos instant = now();
  bool due = instant >= next_tick_;
  while (instant >= next_tick_) next_tick_ += tick_period_;
  for (; !wakes_.empty() && *wakes_.begin() <= instant; wakes_.erase(wakes_.begin())) due = true;
  if (due) happen(Tick{});
}

void LiveBackend::look_for_the_dead() {
  const Nanos instant = now();
  if (const auto death = agents_->find_death()) return note_failure(*death, instant);
  if (const auto rank = silence_.find(instant)) {
    const std::string cause = fmt::format("has said nothing for {:.0f} s", to_seconds(kSilence));
    note_failure({.rank = *rank, .cause = cause}, instant);
  }
}

void LiveBackend::take_in(const Incoming& incoming) {
  const std::uint32_t rank = incoming.rank;
  silence_.heard(rank, now());
  if (!incoming.message || incoming.message->has_failed()) {
    const Nanos noticed = now();
    note_failure(agents_->explain(rank), noticed);
  } else if (incoming.message->has_progress()) {
    const ProgressSample& sample = incoming.message->progress();
    if (cpu_at_start_[rank] < 0) cpu_at_start_[rank] = sample.cpu();
    cpu_now_[rank] = sample.cpu();
    telemetry_.progress(rank, sample, (incoming.at - start_) / std::chrono::nanoseconds(1));
  } else if (incoming.message->has_step_report()) {
    take_report(rank, incoming.message->step_report());
  }
}

void LiveBackend::happen(const Event& event) {
  world_.apply(event);
  arriving_.push_back(event);
}

// ---- steps --------------------------------------------------------------------------------

void LiveBackend::take_report(std::uint32_t rank, const StepReport& report) {
  ensure(under_way_ && report.step() == step_ && !reports_[rank],
         "a rank reports the step under way, once");
  for (const OpDone& op : report.ops()) {
    if (op.phase() == COMPUTE) ledger_.executed(report.step(), op.micro_batch());
  }
  reports_[rank] = report;
  const auto here = [](const std::optional<StepReport>& each) { return each.has_value(); };
  if (std::all_of(reports_.begin(), reports_.end(), here)) commit();
}

void LiveBackend::commit() {
  const Nanos instant = now();
  std::vector<StepReport> reports;
  for (std::optional<StepReport>& report : reports_) reports.push_back(*std::exchange(report, {}));
  const Nanos before = statistics_.elapsed();
  statistics_.commit(reports, instant);
  telemetry_.step_done(reports, instant);
  ledger_.committed(step_);
  const StepDone done{.job = kJob, .step = step_, .duration = instant - before};
  happen(done);
  for (const std::uint64_t decision : std::exchange(deferred_, {})) {
    answer(decision, Outcome::applied, "");
  }
  under_way_ = false;
  ++step_;
  if (step_ == scenario_.run().steps()) stage_ = Stage::over;
  notify_progress();
}

double LiveBackend::speed_of(std::uint32_t rank) const {
  return speed_at_step(scenario_, rank, step_);
}

void LiveBackend::plan_next() {
  ControllerMessage message;
  StepPlan& plan = *message.mutable_step_plan();
  plan.set_step(step_);
  std::uint64_t first = 0;
  for (const std::uint32_t count : world_.jobs()[kJob.value].per_replica) {
    Share& share = *plan.add_shares();
    share.set_first(first);
    share.set_count(count);
    first += count;
  }
  under_way_ = true;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    plan.set_speed(speed_of(rank));
    agents_->send(rank, message);
  }
  for (int i = 0; i < scenario_.faults_size(); ++i) {
    const Fault& fault = scenario_.faults(i);
    if (fault.at_step() > step_ || !injected_.insert(i).second) continue;
    if (!fault.kill() || fault.rank() >= ranks_) continue;
    killed_at_[fault.rank()] = now();
    agents_->kill(fault.rank());
  }
}

void LiveBackend::note_failure(const RankDeath& death, Nanos noticed) {
  FailureReport failure;
  const auto killed = killed_at_.find(death.rank);
  failure.set_time_s(to_seconds(killed == killed_at_.end() ? noticed : killed->second));
  failure.set_detected_s(to_seconds(noticed));
  failure.set_cause(fmt::format("rank {} {}", death.rank, death.cause));
  failure.set_lost_steps(0);
  failures_.push_back(failure);
  ledger_.discarded(step_);
  const RankLost lost{.job = kJob, .rank = {death.rank}};
  happen(lost);
  for (const std::uint64_t decision : std::exchange(deferred_, {})) {
    answer(decision, Outcome::rejected, "the run has ended");
  }
  stage_ = Stage::over;
}

void LiveBackend::notify_progress() {
  if (!progress_) return;
  Progress progress;
  progress.set_steps_done(statistics_.steps());
  progress.set_steps(scenario_.run().steps());
  progress.set_elapsed_s(to_seconds(statistics_.elapsed()));
  progress_(progress);
}

// ---- decisions ----------------------------------------------------------------------------

void LiveBackend::answer(std::uint64_t decision, Outcome status, std::string reason) {
  happen(DecisionOutcome{decision, status, std::move(reason)});
}

void LiveBackend::decide(const Decision& decision) {
  world_.announce(decision);
  if (decision.expires < now()) return answer(decision.number, Outcome::expired, "too late");
  if (decision.if_epoch && *decision.if_epoch != Epoch{}) {
    return answer(decision.number, Outcome::rejected, "membership has changed");
  }
  if (std::string why = world_.objection(decision); !why.empty()) {
    return answer(decision.number, Outcome::rejected, std::move(why));
  }
  if (const auto* wake = std::get_if<WakeMe>(&decision.what)) {
    wakes_.insert(wake->at);
    return answer(decision.number, Outcome::applied, "");
  }
  if (!std::holds_alternative<ShiftMicrobatches>(decision.what)) {
    return answer(decision.number, Outcome::rejected, "not something that live mode carries out");
  }
  if (!under_way_ || decision.effective_at_step > step_) {
    return answer(decision.number, Outcome::applied, "");
  }
  if (decision.effective_at_step == 0) return deferred_.push_back(decision.number);
  answer(decision.number, Outcome::rejected, fmt::format("step {} has begun", step_));
}

void LiveBackend::apply(std::span<const Decision> decisions, bool) {
  for (const Decision& decision : decisions) decide(decision);
  if (stage_ == Stage::training && !under_way_) plan_next();
}

// ---- the end ------------------------------------------------------------------------------

std::optional<RankDeath> LiveBackend::gather_parameters() {
  agents_->send_stop("the run is complete", true);
  const auto deadline = Clock::now() + kFinishPatience;
  std::vector<std::string> hashes(ranks_);
  std::uint32_t missing = ranks_;
  while (missing > 0 && Clock::now() < deadline) {
    for (const Incoming& incoming : agents_->receive(Clock::now() + kWatch)) {
      const bool here = hashes[incoming.rank].empty();  // its stream ends after the hash
      if (here && (!incoming.message || incoming.message->has_failed())) {
        return agents_->explain(incoming.rank);
      }
      if (!incoming.message || !incoming.message->has_finished()) continue;
      if (hashes[incoming.rank].empty()) --missing;
      hashes[incoming.rank] = incoming.message->finished().parameters_sha256();
    }
  }
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    if (hashes[rank].empty()) return RankDeath{rank, "did not hand in its parameters"};
  }
  for (const std::string& hash : hashes) {
    ensure(hash == hashes.front(), "all ranks end with the same parameters, bit for bit");
  }
  parameters_sha256_ = hashes.front();
  return std::nullopt;
}

double LiveBackend::busy_cores() const {
  Nanos cpu = 0;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    if (cpu_at_start_[rank] >= 0) cpu += cpu_now_[rank] - cpu_at_start_[rank];
  }
  return static_cast<double>(cpu) / static_cast<double>(std::max<Nanos>(statistics_.elapsed(), 1));
}

void LiveBackend::check_cores(double cores) const {
  const double allowed = 0.5 * std::max(1u, std::thread::hardware_concurrency());
  if (cores <= allowed) return;
  throw Error(ErrorKind::environment,
              fmt::format("the ranks kept {:.2f} cores busy; on this machine paced ranks may use "
                          "{:.1f}: raise job.pace.micro_batch or use fewer ranks",
                          cores, allowed));
}

void LiveBackend::fill(Report& report) {
  statistics_.fill(report);
  report.set_ranks(ranks_);
  report.set_micro_batches_lost(ledger_.lost());
  report.set_micro_batches_repeated(ledger_.repeated());
  report.set_micro_batches_recomputed(ledger_.recomputed());
  for (const FailureReport& failure : failures_) *report.add_failures() = failure;
  report.set_unigram_entropy(unigram_entropy_);
  if (!parameters_sha256_.empty()) report.set_parameters_sha256(parameters_sha256_);
  report.set_real_cpu_cores(busy_cores());
  report.set_faults_injected(injected_.size());
  std::vector<double> speeds;
  const Step last = step_ > 0 ? step_ - 1 : 0;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    speeds.push_back(speed_at_step(scenario_, rank, last));
  }
  const Job& job = scenario_.job();
  report.set_ideal_step_time_s(
      ideal_makespan(speeds, micro_batches_of(job), to_seconds(job.pace().micro_batch())));
}

std::unique_ptr<RunBackend> make_live_backend(const RunRequest& request, const Cluster& cluster,
                                              const ProgressSink& progress) {
  return std::make_unique<LiveBackend>(request, cluster, progress);
}

}  // namespace orrery::live
