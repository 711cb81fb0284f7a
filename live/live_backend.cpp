#include "live/live_backend.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/process.hpp"
#include "live/cuda_module.hpp"
#include "live/model.hpp"
#include "live/plan_codecs.hpp"
#include "live/requirements.hpp"
#include "live/text.hpp"
#include "policies/codec.hpp"
#include "traces/scenario.hpp"

namespace orrery::live {
namespace {

constexpr JobId kJob{0};
constexpr std::chrono::milliseconds kWatch{50};  // how often processes are looked at

std::uint32_t micro_batches_of(const Job& job) {
  return job.global_batch() / std::max(job.micro_batch(), 1u);
}

/// Memory traffic of a rank of nominal speed while it computes.
double nominal_traffic(const Job& job) {
  return job.micro_batch() * memory_traffic(job.model().builtin(), job.sequence_length()) /
         to_seconds(std::max<Nanos>(job.pace().micro_batch(), 1));
}

const RunRequest& checked(const RunRequest& request) {
  check_request(request);
  return request;
}

}  // namespace

LiveBackend::LiveBackend(const RunRequest& request, const Cluster& cluster, ProgressSink progress,
                         Supervision& supervision)
    : request_(checked(request)),  // before any member relies on what it says
      scenario_(request_.scenario()),
      cluster_(cluster),
      progress_(std::move(progress)),
      ranks_(scenario_.job().layout().data()),
      text_(Text::load(scenario_.live().text())),
      supervision_(supervision),
      journal_(supervision.start().folder() + "/journal", scenario_hash(scenario_)),
      reader_(cluster),
      ledger_(micro_batches_of(scenario_.job())),
      statistics_(scenario_),
      telemetry_(ranks_, nominal_traffic(scenario_.job())),
      wire_(scenario_.job().model()),
      checkpoints_(request_, text_, past()),
      faults_(scenario_, ranks_, checkpoints_.first_step()),
      step_(checkpoints_.first_step()),
      reports_(ranks_),
      cpu_at_start_(ranks_, -1),
      cpu_now_(ranks_, 0),
      cpu_before_(ranks_, 0) {
  if (cluster.gpus() < ranks_) {
    throw Error(ErrorKind::bad_input,
                fmt::format("the job has {} ranks, the cluster {} GPUs", ranks_, cluster.gpus()));
  }
}

LiveBackend::~LiveBackend() = default;

Capabilities LiveBackend::capabilities() const {
  return {.signals = kJobs | kSteps | kDevices | kLinks | kRanks | kCollectives | kMembership,
          .actions = action_bit(Action{SetCollectiveTable{}}.index()) |
                     (on_gpus() ? 0 : action_bit(Action{SetCodec{}}.index())) |
                     action_bit(Action{ShiftMicrobatches{}}.index()) |
                     action_bit(Action{Recover{}}.index()) |
                     action_bit(Action{WakeMe{}}.index())};
}

void LiveBackend::begin(const Needs& needs) {
  tick_period_ = needs.tick_period;
  checkpoints_.open();
  Assignment assignment;
  *assignment.mutable_scenario() = scenario_;
  checkpoints_.fill(assignment);
  if (assignment.has_resume() && !past().resumed) {
    JournalRecord record;
    *record.mutable_resumed() = assignment.resume();
    write_down(record);
  }
  if (on_gpus()) assignment.set_gpus(probe_cuda().devices);
  crew_ = std::make_unique<Crew>(supervision_, supervision_.start(), assignment, ranks_, journal_);
  restore();
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
  Observation seen = {.now = instant,
          .epoch = {crew_->epoch()},
          .sequence = sequence_++,
          .events = events_,
          .devices = telemetry_.devices(),
          .links = telemetry_.links(),
          .ranks = telemetry_.ranks(),
          .collectives = telemetry_.collectives(),
          .cluster = cluster_,
          .state = world_.state(),
          .jobs = world_.jobs()};
  JournalRecord record;
  encode(seen, *record.mutable_seen()->mutable_observation());
  for (JournalLoss& loss : failures_.take_changed()) {
    *record.mutable_seen()->add_losses() = std::move(loss);
  }
  write_down(record);
  return seen;
}

Observation LiveBackend::submit() {
  JobSubmitted submitted{.job = job_spec(), .placed = {}};
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) submitted.placed.push_back({rank});
  world_.apply(submitted);
  stage_ = Stage::waiting_for_start;
  return observe({submitted});
}

std::optional<Observation> LiveBackend::next() {
  if (replaying()) return replay(past().seen[replayed_++]);
  if (std::exchange(in_replay_, false)) resume();
  if (stage_ == Stage::idle) return submit();
  if (stage_ == Stage::waiting_for_start) start_training();
  while (stage_ == Stage::training && arriving_.empty()) wait_for_something();
  if (!arriving_.empty()) return observe(std::exchange(arriving_, {}));
  return finish();
}

void LiveBackend::start_training() {
  stage_ = Stage::training;
  start_ = Clock::now();
  next_tick_ = tick_period_ > 0 ? tick_period_ : kNever;
  JournalRecord record;
  record.set_started(start_.time_since_epoch() / std::chrono::nanoseconds(1));
  write_down(record);
  propose();  // what was decided before the run holds from its first step on
  go_on();
}

std::optional<Observation> LiveBackend::finish() {
  if (stage_ == Stage::ended) return std::nullopt;
  stage_ = Stage::ended;
  if (step_ < scenario_.run().steps()) return std::nullopt;
  gather_parameters();
  check_cores(busy_cores());
  happen(JobDone{kJob});
  return observe(std::exchange(arriving_, {}));
}

Clock::time_point LiveBackend::next_instant() const {
  Nanos at = std::min(next_tick_, now() + kWatch / std::chrono::nanoseconds(1));
  if (!wakes_.empty()) at = std::min(at, *wakes_.begin());
  at = std::min(at, faults_.next_instant(now()));
  return start_ + std::chrono::nanoseconds(at);
}

void LiveBackend::wait_for_something() {
  for (const CrewEvent& event : crew_->wait(next_instant())) {
    std::visit([this](const auto& each) { take_in(each); }, event);
  }
  note_checkpoints();
  if (stage_ == Stage::training && complete()) stage_ = Stage::over;
  propose();
  go_on();
  crew_->send_directives();
  if (stage_ != Stage::training) return;
  if (under_way_) inject_faults();
  const Nanos instant = now();
  bool due = instant >= next_tick_;
  while (instant >= next_tick_) next_tick_ += tick_period_;
  for (; !wakes_.empty() && *wakes_.begin() <= instant; wakes_.erase(wakes_.begin())) due = true;
  if (due) happen(Tick{});
}

void LiveBackend::take_in(const Incoming& incoming) {
  const std::uint32_t rank = incoming.rank;
  if (incoming.message->has_hello()) {
    const auto [known, first] = heard_lives_.emplace(rank, incoming.life);
    if (!first && known->second == incoming.life) return;  // the same process on a new stream
    known->second = incoming.life;
    cpu_before_[rank] += cpu_at_start_[rank] < 0 ? 0 : cpu_now_[rank] - cpu_at_start_[rank];
    cpu_at_start_[rank] = -1;
  } else if (incoming.message->has_heartbeat()) {
    const ProgressSample& sample = incoming.message->heartbeat().progress();
    if (cpu_at_start_[rank] < 0) cpu_at_start_[rank] = sample.cpu();
    cpu_now_[rank] = sample.cpu();
    wire_.sent(rank, incoming.life, sample.bytes_sent());
    telemetry_.progress(rank, sample, (incoming.at - start_) / std::chrono::nanoseconds(1));
  } else if (incoming.message->has_step_report()) {
    const StepReport& report = incoming.message->step_report();
    wire_.sent(rank, incoming.life, report.bytes_sent());
    const auto which = std::tuple(incoming.life, report.epoch(), report.step());
    const auto before = reported_.find(rank);
    if (before != reported_.end() && before->second == which) return;
    reported_[rank] = which;
    take_report(rank, report);
  } else if (incoming.message->has_shard()) {
    checkpoints_.take(incoming.message->shard());
  }
}

void LiveBackend::happen(const Event& event) {
  world_.apply(event);
  arriving_.push_back(event);
}

void LiveBackend::note_checkpoints() {
  constexpr auto kTier = static_cast<std::uint32_t>(CheckpointTier::local_disk);
  for (const Step step : checkpoints_.durable()) happen(CheckpointDone{kJob, step, kTier});
}

/// Every step is done, and what follows from the last one, too.
bool LiveBackend::complete() {
  if (step_ < scenario_.run().steps() || !crew_->ready()) return false;
  if (!checkpoints_.at_rest()) return false;
  // The ranks exchange what a sharded update has changed: a loss still takes a new epoch.
  return scenario_.job().layout().shard() != "optimizer" || crew_->settled();
}

// ---- steps --------------------------------------------------------------------------------

void LiveBackend::take_report(std::uint32_t rank, const StepReport& report) {
  for (const OpDone& op : report.ops()) {
    if (op.phase() == COMPUTE) ledger_.executed(report.step(), op.micro_batch());
  }
  const bool counts = report.epoch() == crew_->epoch() && report.step() == step_;
  if (!report.abandoned() && counts) reports_[rank] = report;
}

void LiveBackend::take_in(const membership::Committed& committed) {
  ensure(under_way_ && committed.step == step_, "the step under way is committed");
  const Nanos instant = now();
  std::vector<StepReport> reports;  // one that is lost has an empty one
  for (std::optional<StepReport>& report : reports_) {
    reports.push_back(std::exchange(report, {}).value_or(StepReport{}));
  }
  const Nanos before = statistics_.elapsed();
  statistics_.commit(reports, instant);
  telemetry_.step_done(reports, instant);
  ledger_.committed(step_);
  // In whole numbers they travel in no code, and in twice the bytes.
  if (!scenario_.live().reproducible()) {
    wire_.exchanged(world_.jobs()[kJob.value].codecs,
                    static_cast<std::uint32_t>(crew_->members().size()));
  }
  write_down_commit(reports, committed.epoch, instant);
  failures_.resumed(instant);
  const StepDone done{.job = kJob, .step = step_, .duration = instant - before};
  happen(done);
  checkpoints_.committed();
  under_way_ = false;
  ++step_;
  for (const Decision& decision : std::exchange(deferred_, {})) carry_out(decision);
  if (complete()) stage_ = Stage::over;
  notify_progress();
}

double LiveBackend::speed_of(std::uint32_t rank) const {
  return speed_at_step(scenario_, rank, step_);
}

/// Begins the next step once the ranks are ready for it and the policy has seen what has happened.
void LiveBackend::go_on() {
  if (stage_ != Stage::training || under_way_ || !crew_->ready() || !arriving_.empty()) return;
  if (step_ == scenario_.run().steps()) return;
  const std::vector<std::uint32_t> members = crew_->members();
  const JobInfo& job = world_.jobs()[kJob.value];
  StepPlan plan;
  plan.set_step(step_);
  plan.set_epoch(crew_->epoch());
  plan.set_checkpoint(checkpoints_.plan(step_, members));
  *plan.mutable_collectives() = encode_rules(kJob, job.collectives);
  std::uint64_t first = 0;
  for (const std::uint32_t rank : members) {
    Share& share = *plan.add_shares();
    share.set_first(first);
    share.set_count(job.per_replica[rank]);
    first += share.count();
  }
  ensure(first == job.spec.micro_batches, "the members do every micro-batch of the step");
  set_codecs(job.codecs, plan);
  under_way_ = true;
  crew_->work([&](std::uint32_t rank) {
    plan.set_speed(speed_of(rank));
    return plan;
  });
  const Nanos instant = now();
  failures_.working(instant);
  for (const std::uint32_t rank : members) failures_.replaced(rank, instant);
  inject_faults();
}

void LiveBackend::inject_faults() {
  const Nanos instant = now();
  for (const FaultSchedule::Strike& strike : faults_.due(step_, instant, crew_->members())) {
    JournalRecord record;
    record.mutable_strike()->set_fault(strike.fault);
    record.mutable_strike()->set_rank(strike.rank);
    record.mutable_strike()->set_at(instant);
    write_down(record);
    crew_->signal(strike.rank, strike.stop ? SIGSTOP : SIGKILL);
  }
}

// ---- losses -------------------------------------------------------------------------------

void LiveBackend::take_in(const RankDied& died) {
  const std::uint32_t rank = died.death.rank;
  if (stage_ != Stage::training) return;
  if (!died.was_member || world_.jobs()[kJob.value].ranks[rank] != Health::ok) {
    // A replacement that never joined, or one whose loss an earlier controller had told.
    if (!undecided_.contains(rank) && !left_out_.contains(rank)) crew_->replace(rank);
    return;
  }
  const Nanos noticed = now();
  failures_.lost(rank, faults_.noticed(rank).value_or(noticed), noticed, died.death.cause);
  checkpoints_.lost(rank);
  happen(RankLost{.job = kJob, .rank = {rank}});
  if (!can_go_on(world_.jobs()[kJob.value])) return give_up();
  undecided_.insert(rank);
}

void LiveBackend::take_in(const membership::Revoked&) {
  under_way_ = false;
  for (const Decision& decision : std::exchange(deferred_, {})) {
    answer(decision.number, Outcome::rejected, "membership has changed");
  }
}

void LiveBackend::take_in(const membership::Agreed&) {
  failures_.known(now());
}

/// What was done of the step is thrown away: all have said what they had done before they left
/// the old epoch.
void LiveBackend::take_in(const membership::Formed& formed) {
  ledger_.discarded(step_);
  reports_.assign(ranks_, std::nullopt);
  if (stage_ != Stage::training) return;
  std::set<std::uint32_t> there;
  for (const membership::Seat& member : formed.members) {
    there.insert(member.rank);
    if (world_.jobs()[kJob.value].ranks[member.rank] == Health::ok) continue;
    left_out_.erase(member.rank);
    happen(RankBack{.job = kJob, .rank = {member.rank}});
  }
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {  // of an earlier controller's members
    if (there.contains(rank) || world_.jobs()[kJob.value].ranks[rank] != Health::ok) continue;
    crew_->signal(rank, SIGKILL);
    take_in(RankDied{.death = {.rank = rank, .cause = "has not come back to the new controller"},
                     .was_member = true});
  }
}

void LiveBackend::take_in(const membership::Stuck&) {
  if (stage_ == Stage::training) give_up();
}

/// Nobody is left who could go on.
void LiveBackend::give_up() {
  ledger_.discarded(step_);
  for (auto& [number, decisions] : std::exchange(proposed_, {})) {
    for (const Decision& decision : decisions) {
      answer(decision.number, Outcome::rejected, "the run has ended");
    }
  }
  for (const Decision& decision : std::exchange(unproposed_, {})) {
    answer(decision.number, Outcome::rejected, "the run has ended");
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

// ---- the end ------------------------------------------------------------------------------

void LiveBackend::gather_parameters() {
  if (!past().parameters_sha256.empty()) {
    parameters_sha256_ = past().parameters_sha256;
    return;
  }
  const Crew::Parting parting = crew_->finish(step_);
  for (const RankDeath& death : parting.deaths) {
    failures_.lost(death.rank, now(), now(), death.cause);
  }
  for (const auto& [rank, hash] : parting.hashes) {
    ensure(hash == parting.hashes.begin()->second,
           "all ranks end with the same parameters, bit for bit");
    parameters_sha256_ = hash;
  }
  JournalRecord record;
  record.set_parameters_sha256(parameters_sha256_);
  if (!parameters_sha256_.empty()) write_down(record);
}

double LiveBackend::busy_cores() const {
  Nanos cpu = 0;
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    cpu += cpu_before_[rank];
    if (cpu_at_start_[rank] >= 0) cpu += cpu_now_[rank] - cpu_at_start_[rank];
  }
  return static_cast<double>(cpu) / static_cast<double>(std::max<Nanos>(statistics_.elapsed(), 1));
}

void LiveBackend::check_cores(double cores) const {
  const double allowed = 0.5 * std::max(1u, std::thread::hardware_concurrency());
  if (cores <= allowed || request_.has_rendezvous()) return;  // ranks have machines of their own
  throw Error(ErrorKind::environment,
              fmt::format("the ranks kept {:.2f} cores busy; on this machine paced ranks may use "
                          "{:.1f}: raise job.pace.micro_batch or use fewer ranks",
                          cores, allowed));
}

void LiveBackend::fill(Report& report) {
  statistics_.fill(report);
  wire_.fill(report);
  report.set_ranks(ranks_);
  report.set_micro_batches_lost(ledger_.lost());
  report.set_micro_batches_repeated(ledger_.repeated());
  report.set_micro_batches_recomputed(ledger_.recomputed());
  failures_.fill(report);
  checkpoints_.fill(report);
  report.set_controller_restarts(supervision_.start().restarts());
  report.set_unigram_entropy(text_.unigram_entropy());
  if (!parameters_sha256_.empty()) report.set_parameters_sha256(parameters_sha256_);
  report.set_real_cpu_cores(busy_cores());
  report.set_control_cpu_s(to_seconds(process_cpu()));
  report.set_faults_injected(faults_.injected());
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
                                              const ProgressSink& progress,
                                              Supervision& supervision) {
  return std::make_unique<LiveBackend>(request, cluster, progress, supervision);
}

}  // namespace orrery::live
