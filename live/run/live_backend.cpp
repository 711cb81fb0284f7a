#include "live/run/live_backend.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/machine/cuda_module.hpp"
#include "live/run/requirements.hpp"
#include "live/training/model.hpp"
#include "live/training/text.hpp"
#include "policies/handover/hand_over.hpp"
#include "policies/run/registry.hpp"
#include "policies/seam/fabric_rules.hpp"
#include "topologies/failure_domain.hpp"
#include "traces/scenario/live_fabric.hpp"
#include "traces/scenario/scenario.hpp"
#include "traces/workload/model.hpp"

namespace orrery::live {
namespace {

constexpr std::chrono::milliseconds kWatch{50};  // Interval at which processes are checked.
// Servers have read the renewed certificates by then.
constexpr Nanos kOpenAnewAfter = 3 * kNanosPerSecond;

/// Returns the memory traffic of a rank of nominal speed while it computes, in bytes per second.
double nominal_traffic(const Job& job) {
  return job.micro_batch() * memory_traffic(job.model().builtin(), job.sequence_length()) /
         to_seconds(std::max<Nanos>(job.pace().micro_batch(), 1));
}

const RunRequest& checked(const RunRequest& request) {
  check_request(request);
  return request;
}

/// Returns the reason why an operator cannot set a parameter; empty if the operator can.
std::string objection(const RunRequest& request, const Cluster& cluster, const ParameterSet& set) {
  if (request.policy_outside())
    return "expected policies of this run's process, found policies that decide in another process";
  try {
    check_parameter(request.scenario(), set, cluster);
  } catch (const Error& error) {
    return error.message();
  }
  return {};
}

std::uint32_t initial_ranks(const RunRequest& request) {
  return request.scenario().job().layout().data();
}

/// Returns the number of GPUs that can have a rank: those of the cluster, but with NCCL at most
/// those of this machine, and with a rendezvous those whose processes an engine has started.
std::uint32_t slots_of(const RunRequest& request, const Cluster& cluster) {
  const std::uint32_t ranks = initial_ranks(request);
  if (request.has_rendezvous()) return ranks;
  const std::uint32_t all = std::max(cluster.gpus(), ranks);
  return live_fabric(request) == LiveFabric::nccl ? std::clamp(probe_cuda().devices, ranks, all)
                                                  : all;
}

JobSpec job_spec(const RunRequest& request, const Needs& needs, std::uint32_t slots) {
  const Scenario& scenario = request.scenario();
  const Job& said = scenario.job();
  const std::uint32_t ranks = said.layout().data();
  JobSpec spec;
  spec.id = kLiveJob;
  spec.name = scenario.name();
  spec.gpus = ranks;
  spec.layout.data = ranks;
  spec.least_gpus = 1;
  spec.most_gpus = most_gpus(said, scenario.elastic(), slots);
  spec.micro_batches = micro_batches_of(said);
  spec.max_micro_batches = max_micro_batches(scenario, spec.micro_batches, ranks);
  spec.steps = scenario.run().steps();
  spec.nominal_micro_batch_time = said.pace().micro_batch();
  spec.can = settable(scenario);
  spec.settings = {
      loss_response(scenario, needs, hand_over_mode(request.mode()) != HandOverMode::shadow)};
  return spec;
}

void check_cores(double cores) {
  const double allowed = 0.5 * std::max(1u, std::thread::hardware_concurrency());
  if (cores <= allowed) return;
  throw Error(ErrorKind::environment,
              fmt::format("the ranks kept {:.2f} cores busy; on this machine paced ranks may use "
                          "{:.1f}: raise job.pace.micro_batch or use fewer ranks",
                          cores, allowed));
}

}  // namespace

LiveBackend::LiveBackend(const RunRequest& request, const Cluster& cluster, ProgressSink progress,
                         Supervision& supervision)
    : request_(checked(request)),  // Checked before any member relies on the request.
      cluster_(cluster),
      text_(Text::load(request_.scenario().live().text())),
      supervision_(supervision),
      journal_(supervision.start().folder() + "/journal", scenario_hash(request_.scenario()),
               static_cast<std::size_t>(request_.scenario().live().journal_tail()), {},
               run_rules(request_.scenario(), &cluster)),
      replay_(cluster, journal_.past()),
      placement_(replay_.world(), slots_of(request_, cluster)),
      clock_(journal_.state().started),
      account_(request_.scenario(), journal_.state(), std::move(progress)),
      checkpoints_(request_, text_, journal_.past(),
                   {.cluster = &cluster_, .folder = supervision.start().memory()}),
      failures_(journal_.state().losses),
      observations_(replay_.world(), placement_, clock_,
                    Telemetry(placement_.seats(), nominal_traffic(request_.scenario().job()),
                              declared_noise(request_.scenario().job())),
                    journal_),
      desk_(supervision.start().folder(), request_.scenario().live().metrics(),
            {.objection =
                 [this](const ParameterSet& set) { return objection(request_, cluster_, set); },
             .happen = [this](Event event) { driver_->emit_event(std::move(event)); },
             .announce =
                 [this](const RemovalOrder& order) { return driver_->announce_removal(order); }}) {
  // Decisions of another process and approvals cannot be replayed: no successor could continue from
  // the journal.
  if (request_.policy_outside() || hand_over_mode(request_.mode()) == HandOverMode::approve) {
    journal_.discard_file();
    desk_.set_without_takeover(
        "decisions and approvals from outside the process cannot be repeated");
  }
  journal_.on_failure([this](const std::string& why) { journal_is_gone(why); });
  const std::uint32_t ranks = initial_ranks(request_);
  if (cluster.gpus() < ranks) {
    throw Error(
        ErrorKind::bad_input,
        fmt::format(
            "expected at least one GPU per rank, found {} ranks and {} GPUs; use a larger cluster",
            ranks, cluster.gpus()));
  }
}

LiveBackend::~LiveBackend() = default;

Capabilities LiveBackend::capabilities() const {
  return {.actions = Kinds<Action>::all(),
          .settings = Kinds<Setting>::all() - Kinds<Setting>::of<PowerCap>()};
}

// ---- start ----

void LiveBackend::begin(const Needs& needs) {
  needs_ = needs;
  checkpoints_.open();
  const Assignment work = assignment();
  if (work.has_resume() && !journal_.past().resumed) {
    JournalRecord record;
    *record.mutable_resumed() = work.resume();
    journal_.append_record(record);
  }
  desk_.publish_status(status());
  driver_ = std::make_unique<StepDriver>(StepDriver::Run{.request = request_,
                                                         .world = replay_.world(),
                                                         .placement = placement_,
                                                         .clock = clock_,
                                                         .observations = observations_,
                                                         .desk = desk_,
                                                         .account = account_,
                                                         .checkpoints = checkpoints_,
                                                         .failures = failures_,
                                                         .journal = journal_},
                                         supervision_, supervision_.start(), work, capabilities(),
                                         needs_);
  restore_policies();
}

Assignment LiveBackend::assignment() const {
  Assignment assignment;
  *assignment.mutable_scenario() = request_.scenario();
  checkpoints_.fill(assignment);
  for (std::uint32_t rank = 0; rank < placement_.seats(); ++rank) {
    const FailureDomain domain = failure_domain(cluster_, {rank});
    Domain& said = *assignment.add_domains();
    said.set_rack(domain.rack);
    said.set_node(domain.node);
  }
  if (live_fabric(request_) == LiveFabric::nccl) assignment.set_gpus(probe_cuda().devices);
  return assignment;
}

// ---- observations and decisions ----

bool LiveBackend::advance_run() {
  if (replay_.has_more()) return true;
  if (replay_.end_replay()) resume_run();
  begin_journal_anew();
  if (stage_ == Stage::idle) return true;
  if (stage_ == Stage::waiting_for_start) start_training();
  if (is_training() && !observations_.has_pending()) wait_for_something();
  return !is_training() || observations_.has_pending();
}

std::optional<Observation> LiveBackend::next() {
  while (!advance_run()) {}
  if (replay_.has_more()) return replay();
  if (stage_ == Stage::idle) return submit_job();
  if (observations_.has_pending()) return observe();
  return finish_run();
}

bool LiveBackend::attend_operator() {
  if (const auto order = supervision_.take_stop()) driver_->stop(*order);
  if (const auto order = desk_.find_stop_order()) driver_->stop(*order);
  if (desk_.is_due()) desk_.publish_status(status());
  return driver_->is_stopping();
}

Observation LiveBackend::submit_job() {
  JobSpec spec = job_spec(request_, needs_, placement_.seats());
  if (checkpoints_.is_enabled()) {
    const std::uint64_t every = request_.scenario().checkpoints().every();
    spec.settings.push_back(CheckpointPlan{every, Tier::local_disk});
  }
  driver_->emit_event(JobSubmitted{spec});
  driver_->emit_event(JobStarted{.job = kLiveJob,
                                 .epoch = {1},
                                 .from = checkpoints_.first_step(),
                                 .where = {GpuRuns::range({0}, spec.gpus), spec.layout}});
  stage_ = Stage::waiting_for_start;
  return observe();
}

void LiveBackend::start_training() {
  stage_ = Stage::training;
  clock_.start();
  ticks_.begin(needs_.tick, 0);
  JournalRecord record;
  record.set_started(clock_.started());
  journal_.append_record(record);
  driver_->begin_next_step();
}

void LiveBackend::wait_for_something() {
  const Nanos look = clock_.now() + kWatch / std::chrono::nanoseconds(1);
  driver_->await_events(clock_.moment(std::min({look, ticks_.next(), driver_->next_instant()})));
  apply_orders();
  if (supervision_.take_renewed()) driver_->renew_connections_at(clock_.now() + kOpenAnewAfter);
  if (desk_.is_due()) desk_.publish_status(status());
  driver_->advance_run();
  if (driver_->is_over()) return;
  const Nanos now = clock_.now();
  const OpenStep& step = driver_->step();
  const bool ticks = ticks_.is_due(now, !step.is_current(), step.is_as_before(now));
  if (driver_->is_wake_due(now) || ticks) driver_->emit_event(Tick{});
}

void LiveBackend::apply_orders() {
  if (const auto order = supervision_.take_stop()) driver_->stop(*order);
  const auto order = desk_.apply_orders(clock_.now(), is_training(), !observations_.has_pending());
  if (order) driver_->stop(*order);
}

void LiveBackend::apply(const DecisionList& decisions) {
  ticks_.set_resting(decisions.is_resting());
  replay_.world().begin_batch();
  if (replay_.is_replaying() && replay_.is_answered()) return compare_answer(decisions);
  observations_.record_answer(decisions);
  if (!decisions.given_up().empty()) {
    JournalRecord record;
    record.set_given_up(decisions.given_up());
    journal_.append_record(record);
    desk_.add_warning(clock_.now(), decisions.given_up());
  }
  if (replay_.is_replaying()) return replay_.take_answer(decisions);
  driver_->accept_decisions(decisions, is_training());
}

// ---- end of the run ----

std::optional<Observation> LiveBackend::finish_run() {
  if (stage_ == Stage::ended) return std::nullopt;
  stage_ = Stage::ended;
  desk_.show_last(status());
  if (!driver_->finish_run()) return std::nullopt;
  // Ranks of other engines have machines of their own.
  if (!request_.has_rendezvous()) check_cores(account_.busy_cores());
  driver_->emit_job_done();
  return observe();
}

void LiveBackend::fill(Report& report) {
  account_.fill(report);
  report.set_ranks(initial_ranks(request_));
  failures_.fill(report);
  checkpoints_.fill(report);
  desk_.fill(report);
  report.set_controller_restarts(supervision_.start().restarts());
  report.set_unigram_entropy(text_.unigram_entropy());
  report.set_control_cpu_s(to_seconds(process_cpu()));
  driver_->fill(report);
}

RunStatus LiveBackend::status() const {
  RunStatus status = status_of(journal_.state(), request_.scenario());
  status.mode = request_.mode();
  // Losses that no observation has shown yet count, too.
  status.losses = std::max<std::uint64_t>(status.losses, failures_.all().size());
  status.controller_restarts = supervision_.start().restarts();
  if (policy_meter_ != nullptr) {
    status.policy_time_s = policy_meter_->total_s();
    status.policy_waiting_s = policy_meter_->waiting_s();
    if (status.policy_waiting_s) status.policy_asked = policy_meter_->name();
  }
  desk_.fill(status);
  if (driver_) driver_->fill(status);
  if (stage_ == Stage::ended) {
    status.phase = "over";
  } else if (stage_ != Stage::training) {
    status.phase = "starting";
  }
  return status;
}

std::unique_ptr<RunBackend> make_live_backend(const RunRequest& request, const Cluster& cluster,
                                              const ProgressSink& progress,
                                              Supervision& supervision) {
  return std::make_unique<LiveBackend>(request, cluster, progress, supervision);
}

}  // namespace orrery::live
