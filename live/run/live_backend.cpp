#include "live/run/live_backend.hpp"

#include <algorithm>
#include <filesystem>
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
    : cluster_(cluster),
      supervision_(supervision),
      run_(request, cluster, supervision.start(), std::move(progress),
           {.objection =
                [this](const ParameterSet& set) { return objection(run_.request, cluster_, set); },
            .happen = [this](Event event) { driver_->emit_event(std::move(event)); },
            .announce =
                [this](const RemovalOrder& order) { return driver_->announce_removal(order); }}) {
  // Decisions of another process and approvals cannot be replayed: no successor could continue from
  // the journal.
  const bool approves = hand_over_mode(run_.request.mode()) == HandOverMode::approve;
  if (run_.request.policy_outside() || approves) {
    run_.journal.discard_file();
    run_.desk.set_without_takeover(
        "decisions and approvals from outside the process cannot be repeated");
  }
  run_.journal.on_failure([this](const std::string& why) { journal_is_gone(why); });
  const std::uint32_t ranks = run_.initial_ranks();
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
          .settings = Kinds<Setting>::all() - Kinds<Setting>::of<PowerCap, Prefetch>()};
}

// ---- start ----

void LiveBackend::begin(const Needs& needs) {
  needs_ = needs;
  run_.checkpoints.open();
  const Assignment work = assignment();
  if (work.has_resume() && !run_.journal.state().resumed) {
    JournalRecord record;
    *record.mutable_resumed() = work.resume();
    run_.journal.append_record(record);
  }
  run_.desk.publish_status(status());
  driver_ = std::make_unique<StepDriver>(run_, supervision_, supervision_.start(), work,
                                         capabilities(), needs_);
  run_.replay.load_memory(memory_.load);
}

Assignment LiveBackend::assignment() const {
  Assignment assignment;
  *assignment.mutable_scenario() = run_.scenario();
  run_.checkpoints.fill(assignment);
  for (std::uint32_t rank = 0; rank < run_.placement.seats(); ++rank) {
    const FailureDomain domain = failure_domain(cluster_, {rank});
    Domain& said = *assignment.add_domains();
    said.set_rack(domain.rack);
    said.set_node(domain.node);
  }
  if (live_fabric(run_.request) == LiveFabric::nccl) assignment.set_gpus(probe_cuda().devices);
  return assignment;
}

// ---- observations and decisions ----

bool LiveBackend::advance_run() {
  if (run_.replay.has_more()) return true;
  run_.replay.end_replay();
  if (is_new()) return true;
  if (stage_ == Stage::starting) start_training();
  begin_journal_anew();
  if (is_training() && !run_.observations.has_pending()) wait_for_something();
  return !is_training() || run_.observations.has_pending();
}

std::optional<Observation> LiveBackend::next() {
  while (!advance_run()) {}
  if (run_.replay.has_more()) return run_.replay.next();
  if (is_new()) return submit_job();
  if (run_.observations.has_pending()) return observe();
  return finish_run();
}

bool LiveBackend::attend_operator() {
  if (const auto order = supervision_.take_stop()) driver_->stop(*order);
  if (const auto order = run_.desk.find_stop_order()) driver_->stop(*order);
  if (run_.desk.is_due()) run_.desk.publish_status(status());
  return driver_->is_stopping();
}

Observation LiveBackend::submit_job() {
  JobSpec spec = job_spec(run_.request, needs_, run_.placement.seats());
  if (run_.checkpoints.is_enabled()) {
    const std::uint64_t every = run_.scenario().checkpoints().every();
    spec.settings.push_back(CheckpointPlan{every, Tier::local_disk});
  }
  driver_->emit_event(JobSubmitted{spec});
  driver_->emit_event(JobStarted{.job = kLiveJob,
                                 .epoch = {1},
                                 .from = run_.checkpoints.first_step(),
                                 .where = {GpuRuns::range({0}, spec.gpus), spec.layout}});
  return observe();
}

void LiveBackend::start_training() {
  stage_ = Stage::training;
  run_.clock.start();
  const RunState& state = run_.journal.state();
  ticks_.begin(needs_.tick, state.now);  // A tick that is overdue since then is due now.
  if (!state.started) {
    JournalRecord record;
    record.set_started(run_.clock.started());
    run_.journal.append_record(record);
  }
  driver_->begin_training(run_.replay.take_open());
}

void LiveBackend::wait_for_something() {
  const Nanos look = run_.clock.now() + kWatch / std::chrono::nanoseconds(1);
  const Nanos until = std::min({look, ticks_.next(), driver_->next_instant()});
  driver_->await_events(run_.clock.moment(until));
  apply_orders();
  if (supervision_.take_renewed()) driver_->renew_connections_at(run_.clock.now() + kOpenAnewAfter);
  if (run_.desk.is_due()) run_.desk.publish_status(status());
  driver_->advance_run();
  if (driver_->is_over()) return;
  const Nanos now = run_.clock.now();
  const OpenStep& step = driver_->step();
  const bool ticks = ticks_.is_due(now, !step.is_current(), step.is_as_before(now));
  if (driver_->is_wake_due(now) || ticks) driver_->emit_event(Tick{});
}

void LiveBackend::apply_orders() {
  if (const auto order = supervision_.take_stop()) driver_->stop(*order);
  const bool shown = !run_.observations.has_pending();
  const auto order = run_.desk.apply_orders(run_.clock.now(), is_training(), shown);
  if (order) driver_->stop(*order);
}

void LiveBackend::apply(const DecisionList& decisions) {
  ticks_.set_resting(decisions.is_resting());
  run_.world().begin_batch();
  if (run_.replay.is_replaying() && run_.replay.is_answered()) return compare_answer(decisions);
  run_.observations.record_answer(decisions);
  if (!decisions.given_up().empty()) {
    JournalRecord record;
    record.set_given_up(decisions.given_up());
    run_.journal.append_record(record);
    run_.desk.add_warning(run_.clock.now(), decisions.given_up());
  }
  if (run_.replay.is_replaying()) return run_.replay.take_answer(decisions);
  driver_->accept_decisions(decisions, is_training());
}

// ---- end of the run ----

std::optional<Observation> LiveBackend::finish_run() {
  if (stage_ == Stage::ended) return std::nullopt;
  stage_ = Stage::ended;
  run_.desk.show_last(status());
  const bool has_shown_end = run_.journal.state().at_end.has_value();
  if (!driver_->finish_run() || has_shown_end) return std::nullopt;
  // Ranks of other engines have machines of their own.
  if (!run_.request.has_rendezvous()) check_cores(run_.metrics.busy_cores());
  driver_->emit_job_done();
  return observe();
}

void LiveBackend::fill(Report& report) {
  run_.metrics.fill(report);
  report.set_ranks(run_.initial_ranks());
  run_.failures.fill(report);
  run_.checkpoints.fill(report);
  run_.desk.fill(report);
  report.set_controller_restarts(supervision_.start().restarts());
  report.set_unigram_entropy(run_.text.unigram_entropy());
  report.set_control_cpu_s(to_seconds(process_cpu()));
  driver_->fill(report);
}

RunStatus LiveBackend::status() const {
  RunStatus status = status_of(run_.journal.state(), run_.scenario());
  status.mode = run_.request.mode();
  const std::string& log = run_.request.record();
  if (!log.empty()) status.log = std::filesystem::absolute(log).string();
  // Losses that no observation has shown yet count, too.
  status.losses = std::max<std::uint64_t>(status.losses, run_.failures.all().size());
  status.controller_restarts = supervision_.start().restarts();
  if (policy_meter_ != nullptr) {
    status.policy_time_s = policy_meter_->total_s();
    status.policy_waiting_s = policy_meter_->waiting_s();
    if (status.policy_waiting_s) status.policy_asked = policy_meter_->name();
  }
  run_.desk.fill(status);
  if (driver_) driver_->fill(status);
  if (stage_ == Stage::ended || (driver_ && driver_->is_over())) {
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
