#include "live/run/step_driver.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/training/model.hpp"
#include "live/training/plan_codecs.hpp"
#include "policies/record/encoding.hpp"
#include "policies/record/wire.hpp"
#include "policies/seam/fabric_rules.hpp"
#include "policies/seam/part_changes.hpp"
#include "traces/workload/sharding.hpp"

namespace orrery::live {
namespace {

// Heartbeat timeouts to wait for silent ranks that hold the training state alone, if there is a
// checkpoint.
constexpr Nanos kTimeoutsOfHolders = 10;

/// Returns the time to wait for silent ranks that hold the training state alone. `saved`: a
/// complete checkpoint exists, which makes their state less precious than the time of the others.
Nanos patience_with_holders(const Survival& survival, bool saved) {
  const Nanos short_wait = kTimeoutsOfHolders * survival.heartbeat_timeout();
  return saved ? std::min(survival.hold_limit(), short_wait) : survival.hold_limit();
}

/// Returns the tier of the checkpoints that the decision asks for; nothing if it asks for none.
std::optional<Tier> tier_of(const Decision& decision) {
  if (const auto* save = std::get_if<Save>(&decision.what)) return save->tier;
  const auto* configure = std::get_if<Configure>(&decision.what);
  const auto* plan = configure != nullptr ? std::get_if<CheckpointPlan>(&configure->what) : nullptr;
  return plan != nullptr ? std::optional(plan->tier) : std::nullopt;
}

std::optional<Nanos> hold_limit(const Scenario& scenario, const Needs& needs) {
  if (!needs.actions.has<Assign>()) return {};
  return scenario.survival().hold_limit();
}

/// Returns true if the policies are to be called although no rank works: at a wake-up, or because a
/// part of the cluster changes.
bool is_call_due(const RunState& state, const FaultInjector& faults, const ClusterState& known,
                 Step step, Nanos now) {
  return next_wake(state) != kNever || faults.has_coming_changes(known, step, now);
}

}  // namespace

StepDriver::StepDriver(const Run& run, AgentProcesses& processes, const ControllerStart& place,
                       const Assignment& assignment, const Capabilities& offered,
                       const Needs& needs)
    : run_(run),
      scenario_(run.request.scenario()),
      crew_(processes, place, assignment, run.placement.seats(), run.journal),
      gate_(run.world, offered, *this, true),
      faults_(scenario_, run.world.cluster(), run.placement.seats(), run.checkpoints.first_step(),
              crew_, run.journal),
      tests_(run.world, faults_, run.placement, crew_),
      detector_(scenario_, !run.request.has_rendezvous(), run.placement, faults_, crew_,
                [this](const std::string& what) { run_.desk.add_warning(run_.clock.now(), what); }),
      replicas_(
          crew_, [this](const std::string& what) { run_.desk.add_warning(run_.clock.now(), what); },
          [this](const std::string& what) { abandon_run(what); }),
      recovery_(
          run.placement, crew_, *this, gate_, run.clock, run.journal.state().held_since,
          hold_limit(scenario_, needs),
          [this](std::uint32_t replicas) {
            return replicas_objection(scenario_.job(), replicas).empty();
          },
          sharding_of(scenario_.job().layout()) == Sharding::optimizer ? &run.world.cluster()
                                                                       : nullptr,
          [this](std::uint32_t seat) { return run_.checkpoints.waits_for_rank(seat); }),
      proposals_(
          gate_, run.clock, [this](std::uint64_t number) { crew_.propose_decision(number); },
          run.journal.past().core.decided),
      step_(run.journal.state().core.committed, run.placement.seats()),
      saves_(run.checkpoints),
      end_(scenario_.run().steps()),
      release_{.account = run.account,
               .checkpoints = run.checkpoints,
               .placement = run.placement,
               .clock = run.clock,
               .crew = crew_,
               .detector = detector_,
               .recovery = recovery_,
               .proposals = proposals_,
               .step = step_,
               .saves = saves_,
               .gate = gate_,
               .carrier = *this} {}

// ---- start ----

void StepDriver::resume_work(const std::vector<StepsDone>& unseen,
                             const std::vector<Decision>& open) {
  for (const StepsDone& done : unseen) {
    emit_event(done);
    gate_.settle_deferred(kLiveJob, run_.clock.now());
  }
  const std::uint32_t warm = scenario_.survival().warm();
  crew_.set_spares(tests_.waiting_seats(warm, step_.number(), run_.clock.now()));
  crew_.fence_former_members(
      [this](std::uint32_t seat) { return run_.placement.is_working(seat); });
  recovery_.resume_interrupted();
  gate_.resume_decisions(open, run_.clock.now());
  recovery_.activate_when_ready(step_.is_current(), step_.number());
  faults_.repeat_injections();
  emit_event(Tick{});  // A scheduled call may have been missed.
}

// ---- events ----

void StepDriver::commit_step(const membership::Committed& committed) {
  const Step done = step_.number();
  ensure(step_.is_current() && committed.step == done, "expected the commit of the current step");
  const Nanos now = run_.clock.now();
  std::vector<StepReport> reports = step_.commit_step(now, run_.account.elapsed());
  for (StepReport& report : reports) report.clear_hashes();  // compared; the journal needs none
  const Job& job = scenario_.job();
  run_.observations.telemetry().record_step(
      done, std::uint64_t{run_.placement.job().micro_batches()} * job.micro_batch(),
      sizeof(float) * parameter_count(job.model()), reports, now);
  JournalRecord record;
  JournalCommit& kept = *record.mutable_commit();
  kept.set_step(done);
  kept.set_epoch(committed.epoch);
  kept.set_at(now);
  kept.mutable_reports()->Add(reports.begin(), reports.end());
  run_.account.record_commit(run_.placement.job().now,
                             static_cast<std::uint32_t>(crew_.members().size()), kept);
  kept.set_checkpoint(run_.checkpoints.planned());
  kept.set_tier(wire::to_record<TierRecord>(run_.checkpoints.planned_tier()));
  run_.journal.append_record(record);
  run_.failures.mark_resumed(now);
  detector_.step_done(step_.newest_duration());
  emit_event(
      StepsDone{.job = kLiveJob, .last = done, .count = 1, .duration = step_.newest_duration()});
  saves_.on_commit(step_.number(), now);
  gate_.settle_deferred(kLiveJob, now);
  recovery_.activate_when_ready(step_.is_current(), step_.number());
  end_if_complete();
  run_.account.send_progress();
}

void StepDriver::handle_loss(const RankDied& died) {
  const std::uint32_t seat = died.death.rank;
  if (over_ || !recovery_.record_exit(seat, died.was_member)) return;
  const Nanos noticed = run_.clock.now();
  run_.failures.add_loss(seat, faults_.take_hit_time(seat).value_or(noticed), noticed,
                         died.death.cause);
  run_.checkpoints.record_lost_rank(seat);
  if (recovery_.is_nobody_left()) recovery_.emit_losses();
}

void StepDriver::handle_new_epoch(const membership::Formed& formed) {
  run_.account.record_discard(step_.number());
  step_.discard_reports(formed.epoch);
  if (over_) return;
  std::vector<std::uint32_t> there;
  for (const membership::Seat& member : formed.members) there.push_back(member.rank);
  for (const std::uint32_t seat : recovery_.fence_missing(there)) {
    handle_loss({.death = {.rank = seat, .cause = "did not connect to the new controller"},
                 .was_member = true});
  }
  if (recovery_.has_unreported()) recovery_.emit_losses();
  recovery_.return_ranks(there);
  recovery_.end_strays(there);
  recovery_.activate_assignment(there, step_.number());
}

void StepDriver::omit_rank(const GivenUp& given_up) {
  run_.desk.add_warning(
      run_.clock.now(),
      fmt::format("rank {} is not started again, because its processes die before they join: {}",
                  given_up.rank, given_up.cause));
  if (over_) return;
  recovery_.abandon_seat(given_up.rank, step_.number());
  if (run_.placement.counted() == 0 && run_.placement.job().next) {
    const auto left = static_cast<std::uint32_t>(run_.placement.pending_placement().gpus.size());
    crew_.await_ranks(left);
  }
  const bool is_due = is_call_due(run_.journal.state(), faults_, run_.world.state(),
                                  step_.number(), run_.clock.now());
  if (recovery_.is_deserted() && !recovery_.can_be_assigned(is_due)) abandon_run(kWholeState);
}

/// No decision of a policy could continue the run: only the newest checkpoint can.
void StepDriver::abandon_run(std::string what) {
  if (over_ || end_.is_state_gone()) return;
  if (end_.is_stopping() && !end_.are_steps_done(step_.number())) return end_early();
  recovery_.emit_losses();
  if (!run_.failures.empty()) what += fmt::format(" ({})", run_.failures.cause());
  run_.desk.add_line(run_.clock.now(), end_.end_without_state(what));
  crew_.record_lost_state();
  end_early();
}

// ---- next step ----

void StepDriver::advance_run() {
  if (!over_) end_if_complete();
  const std::uint32_t warm = scenario_.survival().warm();
  if (!over_) crew_.set_spares(tests_.waiting_seats(warm, step_.number(), run_.clock.now()));
  faults_.continue_stopped(run_.clock.now());
  const bool may_return = !end_.is_stopping() || crew_.waits_for_fenced();
  if (!over_ && may_return) recovery_.review_heard_ranks();
  begin_next_step();
  send_hardware();
  crew_.send_directives();
  if (over_) return;
  // Faults that fall into the wait of a job without GPUs end no rank later.
  if (step_.is_current() || !run_.placement.job().is_placed()) {
    emit_part_changes();
    faults_.inject_due(step_.number(), run_.clock.now(), run_.placement.awaited_seats());
  }
  if (step_.is_disturbed()) emit_part_changes();
  const Nanos now = run_.clock.now();
  const bool saved = run_.checkpoints.written() > 0 || run_.checkpoints.first_step() > 0;
  crew_.set_patience_with_holders(patience_with_holders(scenario_.survival(), saved));
  if (const auto suspected = detector_.new_suspects()) emit_event(*suspected);
  detector_.check_progress(step_.number(), step_.is_current(), now);
  const JobInfo& job = run_.placement.job();
  const bool replaces = job.next || proposals_.has_open() || gate_.has_unagreed();
  const std::string cause = run_.failures.empty() ? std::string() : run_.failures.cause();
  const RankCount count{run_.placement.counted(), run_.journal.state().wanted_ranks};
  const auto lacks = ranks_.find_warning(count, replaces, cause, now);
  if (lacks) run_.desk.add_warning(now, *lacks);
  const bool shown = !run_.observations.has_pending();
  if (recovery_.is_nobody_left() && shown) {
    if (recovery_.has_unreported()) return recovery_.emit_losses();  // the policies decide first
    const bool is_due =
        is_call_due(run_.journal.state(), faults_, run_.world.state(), step_.number(), now);
    if (!end_.is_stopping() && restore_job(release_)) {
      run_.desk.add_line(now, fmt::format("no rank has the training state any more: all ranks "
                                          "restart from the state of step {}",
                                          step_.number()));
    } else if (end_.is_stopping() || !recovery_.can_be_assigned(is_due)) {
      return abandon_run(kWholeState);
    } else if (std::exchange(deserted_in_, job.epoch) != job.epoch) {
      run_.desk.add_warning(
          now, fmt::format("no rank has the training state any more: the job waits for GPUs from a "
                           "policy, at most {:g} s (survival.hold_limit), to restart from the "
                           "checkpoint of step {}",
                           to_seconds(scenario_.survival().hold_limit()), job.saved));
    }
  }
  const bool stops = recovery_.is_held() && end_.is_stopping();
  end_.set_waiting(!job.is_placed());
  if (stops && run_.checkpoints.is_requested()) {
    run_.desk.add_warning(now, "the job is on hold: the run ends without the requested checkpoint");
  }
  if (stops || recovery_.is_hold_unanswerable(shown)) end_early();
}

Nanos StepDriver::next_instant() const {
  const Nanos now = run_.clock.now();
  return std::min(
      {next_wake(run_.journal.state()), faults_.next_instant(now), step_.next_begin(now)});
}

void StepDriver::begin_next_step() {
  if (crew_.is_epoch_formed()) proposals_.propose_waiting();
  // A checkpoint that failed or took too long no longer delays a move.
  if (!over_ && !step_.is_current()) recovery_.activate_when_ready(false, step_.number());
  begin_step();
}

void StepDriver::begin_step() {
  if (end_.is_stopping() && !run_.checkpoints.is_requested()) return;  // The run ends here.
  if (over_ || step_.is_current() || !crew_.is_ready() || run_.observations.has_pending()) return;
  const bool runs = run_.placement.job().phase == JobPhase::running;
  if (end_.are_steps_done(step_.number()) || !runs) return;
  if (run_.clock.now() >= renew_connections_at_) {
    renew_connections_at_ = kNever;
    run_.desk.add_line(run_.clock.now(), "certificates are renewed; all ranks reconnect");
    return crew_.renew_connections();
  }
  const std::vector<std::uint32_t> members = crew_.members();
  if (!run_.placement.is_complete(members)) return;
  const Nanos delay = to_nanos(run_.placement.job().now.get<Delay>().seconds);
  const Nanos at = run_.clock.now();
  if (at < step_.delay(delay, at)) return;
  const StepPlan planned = plan(members);
  send_hardware();
  crew_.start_step([&](std::uint32_t) { return planned; });
  const Nanos now = run_.clock.now();
  step_.begin(now);
  run_.failures.mark_working(now);
  for (const std::uint32_t seat : members) run_.failures.mark_replaced(seat, now);
  emit_part_changes();
  faults_.inject_due(step_.number(), run_.clock.now(), run_.placement.awaited_seats());
}

StepPlan StepDriver::plan(const std::vector<std::uint32_t>& members) {
  const JobInfo& job = run_.placement.job();
  StepPlan plan;
  plan.set_step(step_.number());
  plan.set_epoch(crew_.epoch());
  if (run_.checkpoints.is_enabled()) {
    run_.checkpoints.set_plan(job.now.get<CheckpointPlan>());
  }
  run_.checkpoints.plan(step_.number(), members);
  run_.checkpoints.fill(plan);
  encode(job.now.get<CollectiveTable>(), *plan.mutable_collectives());
  std::uint64_t first = 0;
  for (const std::uint32_t seat : members) {
    Share& share = *plan.add_shares();
    share.set_first(first);
    share.set_count(run_.placement.share(seat));
    first += share.count();
  }
  ensure(first == job.micro_batches(),
         "expected the members' shares to cover every micro-batch of the step");
  set_codecs(job.now.get<CodecRules>(), plan);
  plan.set_learning_rate_factor(job.now.get<orrery::Batch>().learning_rate_factor);
  return plan;
}

void StepDriver::send_hardware() {
  const Nanos now = run_.clock.now();
  for (const std::uint32_t rank : run_.placement.awaited_seats()) {
    crew_.set_hardware(rank, faults_.hardware(rank, step_.number(), now));
  }
}

void StepDriver::emit_part_changes() {
  for (const PartChanged& part : tests_.part_changes(step_.number(), run_.clock.now())) {
    const bool is_lost_node = part.part.kind == PartKind::node && part.to.health == Health::lost;
    if (is_lost_node) run_.checkpoints.record_lost_node({part.part.index});
    emit_event(part);
    if (is_lost_node) choose_checkpoint_again(release_);
  }
}

// ---- decisions ----

void StepDriver::accept_decisions(const DecisionList& decisions, bool trains) {
  for (const Decision& decision : decisions.items()) run_.world.announce_decision(decision);
  gate_.resume_decisions(decisions.items(), run_.clock.now());
  if (!over_) recovery_.activate_when_ready(step_.is_current(), step_.number());
  if (!trains) return;
  begin_next_step();
  crew_.send_directives();
}

std::string StepDriver::refusal(const Decision& decision) const {
  const auto* assign = std::get_if<Assign>(&decision.what);
  const std::uint32_t slots = run_.placement.seats();
  for (const GpuId gpu : assign != nullptr ? assign->gpus : GpuRuns()) {
    if (gpu.value < slots) continue;
    return fmt::format("expected GPUs below {}, which can have a process in this run, found GPU {}",
                       slots, gpu.value);
  }
  const std::optional<Tier> tier = tier_of(decision);
  if (tier && is_in_memory(*tier) && run_.checkpoints.is_enabled() &&
      !run_.checkpoints.has_tier(*tier)) {
    return "this run has no memory for checkpoints, which ranks of several machines and a machine "
           "without /dev/shm lack: use the tier local-disk";
  }
  const Placement& placement = run_.placement;
  return fabric_refusal(scenario_, decision,
                        placement.is_submitted() && placement.job().is_placed());
}

void StepDriver::carry_out(const Decision& decision) {
  if (const auto* what = std::get_if<Assign>(&decision.what)) {
    if (what->is_release()) return release_job(release_);
    if (run_.placement.job().is_restarting) restart_job(release_, what->state);
    recovery_.accept_assignment(*what);
    // Ranks that load their state begin together.
    if (run_.placement.counted() == 0) {
      crew_.await_ranks(static_cast<std::uint32_t>(what->gpus.size()));
    }
    return;
  }
  if (const auto* save = std::get_if<Save>(&decision.what)) {
    run_.checkpoints.request_checkpoint(save->tier);
  }
}

// ---- end of the run ----

void StepDriver::stop(const StopRun& order) {
  if (over_ || end_.is_stopping()) return;
  end_.stop(order.reason());
  run_.desk.add_line(run_.clock.now(), "the run is to end: " + order.reason());
  if (!order.checkpoint()) return;
  if (run_.checkpoints.is_enabled()) return run_.checkpoints.request_checkpoint();
  run_.desk.add_warning(run_.clock.now(),
                        "the run has no folder for checkpoints: it ends without a checkpoint");
}

std::string StepDriver::announce_removal(const RemovalOrder& order) {
  const std::string name = part_name(order.part);
  const ClusterState& state = run_.world.state();
  const std::uint32_t count = count_of(run_.world.cluster(), order.part.kind);
  if (order.part.index >= count) {
    return fmt::format("{}: expected a {} of the run's cluster, 0 to {}; see orrery status", name,
                       name_of(order.part.kind), count - 1);
  }
  if (over_ || end_.is_stopping()) return fmt::format("{}: the run is about to end", name);
  for (const GpuId gpu : gpus_of(run_.world.cluster(), order.part)) {
    const NodeId node = run_.world.cluster().node_of(gpu);
    if (order.part.kind == PartKind::gpu && state.is_to_be_removed(gpu, node)) {
      return fmt::format("{}: its removal is announced already; see orrery status", name);
    }
    if (order.part.kind == PartKind::gpu && !state.is_healthy(gpu, node)) {
      return fmt::format("{}: it is lost already", name);
    }
  }
  const auto known = state.parts.find(order.part);
  if (known != state.parts.end() && known->second.health == Health::lost) {
    return fmt::format("{}: it is lost already", name);
  }
  if (known != state.parts.end() && known->second.removal) {
    return fmt::format("{}: its removal is announced already; see orrery status", name);
  }
  faults_.announce_removal(order.part, run_.clock.now(), order.notice, order.lasts, order.test);
  return {};
}

bool StepDriver::is_complete() {
  const bool to_stop = end_.is_stopping() && !run_.checkpoints.is_requested();
  if (!end_.are_steps_done(step_.number()) && !to_stop) return false;
  if (!crew_.is_ready() || !run_.checkpoints.is_idle()) return false;
  const bool asked = end_.is_stopping() && run_.checkpoints.is_requested();
  if (asked || !run_.checkpoints.missing().empty()) {
    if (!crew_.is_settled()) return false;
    const std::uint64_t attempt =
        run_.checkpoints.retry_checkpoint(step_.number(), crew_.members());
    if (attempt != 0) {
      crew_.save(step_.number(), attempt);
      return false;
    }
  }
  // The ranks still exchange the result of a sharded update, which a loss could interrupt.
  return sharding_of(scenario_.job().layout()) != Sharding::optimizer || crew_.is_settled();
}

void StepDriver::end_if_complete() {
  if (!is_complete()) return;
  if (!end_.are_steps_done(step_.number())) return end_early();
  over_ = true;
}

void StepDriver::end_early() {
  run_.account.record_discard(step_.number());
  recovery_.emit_losses();
  proposals_.reject_open(*this, "the run has ended");
  gate_.close("the run has ended");
  over_ = true;
}

bool StepDriver::finish_run() {
  const Nanos now = run_.clock.now();
  const RunState& state = run_.journal.state();
  if (state.at_end) {  // an earlier controller has reported the end
    const RankCount count{state.at_end->working, state.wanted_ranks};
    ranks_.record_end(count, state.at_end->is_assigned, now);
  } else if (run_.placement.is_submitted()) {
    const bool replaces = run_.placement.job().next.has_value();
    const RankCount count{run_.placement.counted(), state.wanted_ranks};
    const auto lacks = ranks_.record_end(count, replaces, now);
    if (lacks) run_.desk.add_warning(now, *lacks);
  }
  if (!end_.is_whole(step_.number())) return false;
  end_.gather_hashes(crew_, step_.number(), run_.failures, run_.journal, run_.clock);
  return true;
}

void StepDriver::emit_job_done() {
  emit_event(JobDone{kLiveJob});
  gate_.reject_decisions(kLiveJob, run_.clock.now());
}

// ---- report and status ----

void StepDriver::fill(Report& report) const {
  end_.fill(report);
  ranks_.fill(report);
  std::string why = end_.unfinished(step_.number(), run_.failures, run_.checkpoints.missing());
  if (!why.empty()) report.set_unfinished(std::move(why));
  faults_.fill(report, step_.number() > 0 ? step_.number() - 1 : 0, run_.account.elapsed());
}

void StepDriver::fill(RunStatus& status) const {
  const Nanos duration = step_.newest_duration();
  if (duration > 0) status.step_time_s = to_seconds(duration);
  const bool waits = run_.placement.is_submitted() && !run_.placement.job().is_placed();
  if (over_) {
    status.phase = "over";
  } else if (end_.is_stopping()) {
    status.phase = "stopping";
  } else if (waits) {
    status.phase = "waiting";
  }
  if (!run_.placement.is_submitted()) return;
  const RankCount count{run_.placement.counted(), run_.journal.state().wanted_ranks};
  status.ranks_missing = over_ ? 0 : count.missing();
  const JobInfo& job = run_.placement.job();
  if (job.saved_at > 0) status.saved = job.saved;
  status.batch = job.micro_batches();
  status.learning_rate_factor = job.now.get<orrery::Batch>().learning_rate_factor;
  status.delay_s = job.now.get<Delay>().seconds;
  for (const auto& [part, state] : run_.world.state().parts) {
    if (state.removal) status.removals.push_back({part, state.health, *state.removal});
    if (is_slower(state)) status.slower.push_back({part, state.rate, to_seconds(state.since)});
  }
  const std::vector<std::uint32_t> members = crew_.members();
  const std::vector<std::uint32_t> tested = tests_.seats(step_.number(), run_.clock.now());
  for (std::uint32_t seat = 0; seat < run_.placement.seats(); ++seat) {
    const bool tests = std::find(tested.begin(), tested.end(), seat) != tested.end();
    const bool member = std::find(members.begin(), members.end(), seat) != members.end();
    const bool there = crew_.is_running(seat);
    if (!there && run_.placement.is_stray(seat)) continue;  // no process has this GPU
    const auto [step, micro_batches] = detector_.at(seat);
    status.ranks.push_back(
        {.rank = seat,
         .state = member                  ? "working"
                  : tests                 ? "testing"
                  : crew_.is_spare(seat)  ? "spare"
                  : crew_.is_fenced(seat) ? "fenced"
                  : there                 ? "joining"
                                          : "lost",
         .pid = there ? crew_.pid(seat) : 0,
         .step = step,
         .micro_batches = micro_batches,
         .device = there ? run_.observations.telemetry().device(seat) : DeviceReading()});
  }
}

bool StepDriver::is_quiet() const {
  return !over_ && !recovery_.has_unreported() && !proposals_.has_open() && !gate_.has_unagreed();
}

}  // namespace orrery::live
