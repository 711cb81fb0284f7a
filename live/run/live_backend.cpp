#include "live/run/live_backend.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/process.hpp"
#include "live/machine/cuda_module.hpp"
#include "live/run/requirements.hpp"
#include "live/run/run_files.hpp"
#include "live/training/model.hpp"
#include "live/training/plan_codecs.hpp"
#include "live/training/text.hpp"
#include "policies/record/encoding.hpp"
#include "policies/seam/fabric_rules.hpp"
#include "topologies/failure_domain.hpp"
#include "traces/scenario/scenario.hpp"
#include "traces/training/model.hpp"

namespace orrery::live {
namespace {

constexpr std::chrono::milliseconds kWatch{50};        // how often processes are looked at
constexpr Nanos kOpenAnewAfter = 3 * kNanosPerSecond;  // servers have read them by then

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
      journal_(supervision.start().folder() + "/journal", scenario_hash(scenario_),
               static_cast<std::size_t>(scenario_.live().journal_tail())),
      replay_(cluster, past()),
      gate_(world_, capabilities(), *this, true),
      account_(scenario_),
      telemetry_(ranks_, nominal_traffic(scenario_.job())),
      checkpoints_(request_, text_, past()),
      step_(checkpoints_.first_step(), ranks_),
      desk_(supervision.start().folder(), scenario_.live().metrics(),
            {.objection = [this](const ParameterSet& set) { return objection(set); },
             .happen = [this](Event event) { happen(std::move(event)); }}) {
  // What was decided or approved elsewhere cannot be had again: nobody would go on from it.
  if (request_.policy_outside() || request_.mode() == "approve") journal_.stop();
  journal_.on_failure([this](const std::string& why) { journal_is_gone(why); });
  if (cluster.gpus() < ranks_) {
    throw Error(ErrorKind::bad_input,
                fmt::format("the job has {} ranks, the cluster {} GPUs", ranks_, cluster.gpus()));
  }
}

LiveBackend::~LiveBackend() = default;

Capabilities LiveBackend::capabilities() const {
  return {.actions = Kinds<Action>::all(), .settings = Kinds<Setting>::all()};
}

void LiveBackend::begin(const Needs& needs) {
  needs_ = needs;
  checkpoints_.open();
  desk_.show(status());
  Assignment assignment;
  *assignment.mutable_scenario() = scenario_;
  checkpoints_.fill(assignment);
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    const FailureDomain domain = failure_domain(cluster_, {rank});
    Domain& said = *assignment.add_domains();
    said.set_rack(domain.rack);
    said.set_node(domain.node);
  }
  if (assignment.has_resume() && !past().resumed) {
    JournalRecord record;
    *record.mutable_resumed() = assignment.resume();
    write_down(record);
  }
  if (assignment.has_resume()) resumed_ = assignment.resume();
  if (on_gpus()) assignment.set_gpus(probe_cuda().devices);
  crew_ = std::make_unique<Crew>(supervision_, supervision_.start(), assignment, ranks_, journal_);
  faults_.emplace(scenario_, cluster_, ranks_, checkpoints_.first_step(), *crew_, journal_);
  detector_.emplace(scenario_, !request_.has_rendezvous(), placement_, *faults_, *crew_,
                    [this](const std::string& what) { warn(what); });
  recovery_.emplace(placement_, *crew_, static_cast<Carrier&>(*this), gate_, clock_);
  restore();
}

// ---- observations -------------------------------------------------------------------------

JobSpec LiveBackend::job_spec() const {
  const Job& said = scenario_.job();
  const std::uint32_t total = micro_batches_of(said);
  JobSpec spec;
  spec.id = kLiveJob;
  spec.name = scenario_.name();
  spec.gpus = ranks_;
  spec.layout.data = ranks_;
  spec.least_gpus = 1;
  spec.most_gpus = ranks_;
  spec.micro_batches = total;
  spec.max_micro_batches =
      static_cast<std::uint32_t>(std::floor(said.max_share() * total / ranks_));
  spec.steps = scenario_.run().steps();
  spec.nominal_micro_batch_time = said.pace().micro_batch();
  spec.can = settable(scenario_);
  spec.settings = {loss_response(scenario_, needs_, request_.mode() != "shadow")};
  if (checkpoints_.kept()) {
    spec.settings.push_back(
        CheckpointPlan{scenario_.live().checkpoints().every(), Tier::local_disk});
  }
  return spec;
}

Observation LiveBackend::submit() {
  const JobSpec spec = job_spec();
  happen(JobSubmitted{spec});
  happen(JobStarted{.job = kLiveJob,
                    .epoch = {1},
                    .from = checkpoints_.first_step(),
                    .where = {GpuRuns::range({0}, ranks_), spec.layout}});
  stage_ = Stage::waiting_for_start;
  return observe();
}

std::optional<Observation> LiveBackend::next() {
  if (replay_.more()) return replay();
  if (replay_.finish()) resume();
  begin_journal_anew();
  if (stage_ == Stage::idle) return submit();
  if (stage_ == Stage::waiting_for_start) start_training();
  while (stage_ == Stage::training && !observations_.waiting()) wait_for_something();
  if (observations_.waiting()) return observe();
  return finish();
}

void LiveBackend::start_training() {
  stage_ = Stage::training;
  clock_.start();
  ticks_.begin(needs_.tick, 0);
  JournalRecord record;
  record.set_started(clock_.started());
  write_down(record);
  propose();  // what was decided before the run holds from its first step on
  go_on();
}

std::optional<Observation> LiveBackend::finish() {
  if (stage_ == Stage::ended) return std::nullopt;
  stage_ = Stage::ended;
  desk_.show_last(status());
  if (!end_.whole(step_.number())) return std::nullopt;
  end_.gather(*crew_, step_.number(), failures_, journal_, clock_);
  check_cores(account_.busy_cores());
  happen(JobDone{kLiveJob});
  gate_.job_gone(kLiveJob, now());
  return observe();
}

Clock::time_point LiveBackend::next_instant() const {
  Nanos at = std::min(ticks_.next(), now() + kWatch / std::chrono::nanoseconds(1));
  at = std::min(at, gate_.next_wake());
  at = std::min(at, faults_->next_instant(now()));
  return clock_.moment(at);
}

void LiveBackend::wait_for_something() {
  for (const CrewEvent& event : crew_->wait(next_instant())) {
    std::visit([this](const auto& each) { take_in(each); }, event);
  }
  note_checkpoints();
  hear_operator();
  if (supervision_.take_renewed()) open_anew_at_ = now() + kOpenAnewAfter;
  if (desk_.due()) desk_.show(status());
  if (stage_ == Stage::training && complete()) end_run();
  propose();
  go_on();
  set_hardware();
  crew_->send_directives();
  if (stage_ != Stage::training) return;
  if (step_.under_way()) inject_faults();
  if (step_.disturbed()) tell_parts();
  const Nanos instant = now();
  if (const auto suspected = detector_->suspect()) happen(*suspected);
  detector_->look(step_.number(), step_.under_way(), instant);
  if (waits_in_vain()) return give_up();
  const bool ticks = ticks_.due(instant, !step_.under_way(), step_.as_before(instant));
  if (gate_.wake_due(instant) || ticks) happen(Tick{});
}

void LiveBackend::take_in(const Incoming& incoming) {
  const std::uint32_t rank = incoming.rank;
  if (incoming.message->has_hello()) {
    account_.hello(rank, incoming.life);
  } else if (incoming.message->has_heartbeat()) {
    const ProgressSample& sample = incoming.message->heartbeat().progress();
    account_.heard(rank, incoming.life, sample);
    detector_->note(rank, incoming.life, incoming.message->heartbeat(), now());
    telemetry_.progress(rank, sample, clock_.at(incoming.at));
  } else if (incoming.message->has_step_report()) {
    const StepReport& report = incoming.message->step_report();
    account_.sent(rank, incoming.life, report.bytes_sent());
    if (step_.take(rank, incoming.life, report, crew_->epoch())) account_.executed(report);
  } else if (incoming.message->has_shard()) {
    checkpoints_.take(incoming.message->shard());
  }
}

void LiveBackend::note_checkpoints() {
  for (const RunCheckpoints::Durable& done : checkpoints_.durable()) {
    const auto since = saving_.find(done.step);
    happen(SaveDone{.job = kLiveJob,
                    .step = done.step,
                    .tier = Tier::local_disk,
                    .stalled = 0,
                    .took = since == saving_.end() ? 0 : now() - since->second,
                    .durable = done.whole});
    if (since != saving_.end()) saving_.erase(since);
  }
}

/// Every step is done, and what follows from the last one, too.
bool LiveBackend::complete() {
  const bool to_stop = end_.stopping() && !checkpoints_.asked();
  if (!end_.steps_done(step_.number()) && !to_stop) return false;
  if (!crew_->ready() || !checkpoints_.at_rest()) return false;
  if (!checkpoints_.missing().empty()) {
    if (!crew_->settled()) return false;
    const std::uint64_t attempt = checkpoints_.once_more(step_.number(), crew_->members());
    if (attempt != 0) {
      crew_->save(step_.number(), attempt);
      return false;
    }
  }
  // The ranks exchange what a sharded update has changed: a loss still takes a new epoch.
  return scenario_.job().layout().shard() != "optimizer" || crew_->settled();
}

// ---- steps --------------------------------------------------------------------------------

void LiveBackend::take_in(const membership::Committed& committed) {
  const Step done = step_.number();
  ensure(step_.under_way() && committed.step == done, "the step under way is committed");
  const Nanos instant = now();
  const std::vector<StepReport> reports = step_.commit(instant, account_.elapsed());
  account_.committed(done, reports, job().now.get<CodecRules>(),
                     static_cast<std::uint32_t>(crew_->members().size()), instant);
  telemetry_.step_done(done, sizeof(float) * parameter_count(scenario_.job().model()), reports,
                       instant);
  write_down_commit(done, reports, committed.epoch, instant);
  failures_.resumed(instant);
  detector_->step_done(step_.took());
  happen(StepsDone{.job = kLiveJob, .last = done, .count = 1, .duration = step_.took()});
  if (checkpoints_.planned() > 0) saving_[step_.number()] = instant;
  checkpoints_.committed();
  gate_.step_ended(kLiveJob, instant);
  if (complete()) end_run();
  notify_progress();
}

/// How the ranks' hardware stands now; they are told with the next directives.
void LiveBackend::set_hardware() {
  const Nanos instant = now();
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    crew_->set_hardware(rank, faults_->hardware(rank, step_.number(), instant));
  }
}

/// Begins the next step once the ranks are ready for it and the policy has seen what has happened.
void LiveBackend::go_on() {
  if (end_.stopping() && !checkpoints_.asked()) return;  // the run is to end here
  if (stage_ != Stage::training || step_.under_way()) return;
  if (!crew_->ready() || observations_.waiting()) return;
  if (end_.steps_done(step_.number()) || job().phase != JobPhase::running) return;
  const std::vector<std::uint32_t> members = crew_->members();
  if (now() >= open_anew_at_) {
    open_anew_at_ = kNever;
    desk_.note(now(), "certificates are renewed, all connections are opened anew");
    return crew_->open_anew();
  }
  if (!placement_.complete(members)) return;
  StepPlan plan;
  plan.set_step(step_.number());
  plan.set_epoch(crew_->epoch());
  plan.set_checkpoint(checkpoints_.plan(step_.number(), members));
  encode(job().now.get<CollectiveTable>(), *plan.mutable_collectives());
  std::uint64_t first = 0;
  for (const std::uint32_t seat : members) {
    Share& share = *plan.add_shares();
    share.set_first(first);
    share.set_count(placement_.share(seat));
    first += share.count();
  }
  ensure(first == job().spec.micro_batches, "the members do every micro-batch of the step");
  set_codecs(job().now.get<CodecRules>(), plan);
  set_hardware();
  crew_->work([&](std::uint32_t) { return plan; });
  const Nanos instant = now();
  step_.begin(instant);
  failures_.working(instant);
  for (const std::uint32_t seat : members) failures_.replaced(seat, instant);
  inject_faults();
}

void LiveBackend::inject_faults() {
  tell_parts();
  faults_->strike(step_.number(), now(), placement_.awaited());
}

// ---- losses -------------------------------------------------------------------------------

void LiveBackend::take_in(const membership::Revoked&) {
  step_.revoke();
  gate_.membership_changed(kLiveJob);
}

void LiveBackend::take_in(const membership::Agreed&) {
  failures_.known(now());
  if (stage_ == Stage::training) recovery_->tell_losses();
}

/// What was done of the step is thrown away: all have said what they had done before they left
/// the old epoch.
void LiveBackend::take_in(const membership::Formed& formed) {
  account_.discarded(step_.number());
  step_.discard();
  if (stage_ != Stage::training) return;
  std::vector<std::uint32_t> there;
  for (const membership::Seat& member : formed.members) there.push_back(member.rank);
  for (const std::uint32_t seat : recovery_->end_missing(there)) {
    take_in(RankDied{.death = {.rank = seat, .cause = "has not come back to the new controller"},
                     .was_member = true});
  }
  recovery_->tell_losses();
  recovery_->come_true(there, step_.number());
}

void LiveBackend::take_in(const membership::Stuck&) {
  if (stage_ == Stage::training) give_up();
}

void LiveBackend::take_in(const GivenUp& given_up) {
  warn(fmt::format("rank {} is started no more, its processes die before they join: {}",
                   given_up.rank, given_up.cause));
  if (stage_ != Stage::training) return;
  recovery_->give_up(given_up.rank, step_.number());
  if (recovery_->deserted()) give_up();
}

void LiveBackend::take_in(const StateGone& gone) {
  if (stage_ != Stage::training || end_.state_gone()) return;
  desk_.note(now(), end_.state_gone(gone.what));
  give_up();
}

/// Every step is done, or the operator has asked for the end.
void LiveBackend::end_run() {
  if (!end_.steps_done(step_.number())) return give_up();
  stage_ = Stage::over;
}

/// Nobody is left who could go on.
void LiveBackend::give_up() {
  account_.discarded(step_.number());
  recovery_->tell_losses();
  proposals_.reject(*this, "the run has ended");
  gate_.close("the run has ended");
  stage_ = Stage::over;
}

void LiveBackend::notify_progress() {
  if (!progress_) return;
  Progress progress;
  progress.set_steps_done(account_.steps());
  progress.set_steps(scenario_.run().steps());
  progress.set_elapsed_s(to_seconds(account_.elapsed()));
  progress_(progress);
}

// ---- the end ------------------------------------------------------------------------------

void LiveBackend::check_cores(double cores) const {
  const double allowed = 0.5 * std::max(1u, std::thread::hardware_concurrency());
  if (cores <= allowed || request_.has_rendezvous()) return;  // ranks have machines of their own
  throw Error(ErrorKind::environment,
              fmt::format("the ranks kept {:.2f} cores busy; on this machine paced ranks may use "
                          "{:.1f}: raise job.pace.micro_batch or use fewer ranks",
                          cores, allowed));
}

void LiveBackend::fill(Report& report) {
  account_.fill(report);
  report.set_ranks(ranks_);
  failures_.fill(report);
  checkpoints_.fill(report);
  desk_.fill(report);
  report.set_controller_restarts(supervision_.start().restarts());
  report.set_unigram_entropy(text_.unigram_entropy());
  end_.fill(report);
  std::string why = end_.unfinished(step_.number(), failures_, checkpoints_.missing());
  if (!why.empty()) report.set_unfinished(std::move(why));
  report.set_control_cpu_s(to_seconds(process_cpu()));
  faults_->fill(report, step_.number() > 0 ? step_.number() - 1 : 0, account_.elapsed());
}

std::unique_ptr<RunBackend> make_live_backend(const RunRequest& request, const Cluster& cluster,
                                              const ProgressSink& progress,
                                              Supervision& supervision) {
  return std::make_unique<LiveBackend>(request, cluster, progress, supervision);
}

}  // namespace orrery::live
