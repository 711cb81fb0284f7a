#include "live/run/step_driver.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/run/job_release.hpp"
#include "live/run/next_step.hpp"
#include "live/run/step_status.hpp"
#include "live/training/model.hpp"
#include "policies/record/wire.hpp"
#include "policies/seam/fabric_rules.hpp"
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

/// Returns true if the policies are to be called although no rank works: at a wake-up, or because a
/// part of the cluster changes.
bool is_call_due(const RunParts& run, const StepParts& parts, Nanos now) {
  return next_wake(run.journal.state()) != kNever ||
         parts.faults.has_coming_changes(run.world().state(), parts.step.number(), now);
}

}  // namespace

StepDriver::StepDriver(RunParts& run, AgentProcesses& processes, const ControllerStart& place,
                       const Assignment& assignment, const Capabilities& offered,
                       const Needs& needs)
    : run_(run),
      parts_(run, *this, processes, place, assignment, offered, needs,
             [this](const std::string& what) { abandon_run(what); }),
      unseen_(unseen_steps(run.journal.past())),
      over_(run.journal.state().at_end.has_value()) {}

// ---- start ----

void StepDriver::begin_training(const std::vector<Decision>& open) {
  if (over_) return;
  show_steps();
  give_orders();
  parts_.crew.fence_former_members(
      [this](std::uint32_t seat) { return run_.placement.is_working(seat); });
  parts_.recovery.start_missing();
  parts_.gate.resume_decisions(open, run_.clock.now());
  begin_next_step();
}

void StepDriver::show_steps() {
  for (const StepsDone& done : std::exchange(unseen_, {})) {
    emit_event(done);
    parts_.gate.settle_deferred(kLiveJob, run_.clock.now());
  }
}

void StepDriver::give_orders() {
  const Nanos now = run_.clock.now();
  const std::uint32_t warm = run_.scenario().survival().warm();
  if (!over_) parts_.crew.set_spares(parts_.tests.waiting_seats(warm, parts_.step.number(), now));
  parts_.faults.continue_stopped(now);
  if (!over_) parts_.faults.send_recorded(now);
}

// ---- events ----

void StepDriver::commit_step(const membership::Committed& committed) {
  OpenStep& step = parts_.step;
  const Step done = step.number();
  ensure(step.is_current() && committed.step == done, "expected the commit of the current step");
  const Nanos now = run_.clock.now();
  std::vector<StepReport> reports = step.commit_step(now, run_.metrics.elapsed());
  for (StepReport& report : reports) report.clear_hashes();  // compared; the journal needs none
  const Job& job = run_.scenario().job();
  run_.observations.telemetry().record_step(
      done, std::uint64_t{run_.placement.job().micro_batches()} * job.micro_batch(),
      sizeof(float) * parameter_count(job.model()), reports, now);
  JournalRecord record;
  JournalCommit& kept = *record.mutable_commit();
  kept.set_step(done);
  kept.set_epoch(committed.epoch);
  kept.set_at(now);
  kept.mutable_reports()->Add(reports.begin(), reports.end());
  run_.metrics.record_commit(run_.placement.job().now,
                             static_cast<std::uint32_t>(parts_.crew.members().size()), kept);
  kept.set_checkpoint(run_.checkpoints.planned());
  kept.set_tier(wire::to_record<TierRecord>(run_.checkpoints.planned_tier()));
  run_.journal.append_record(record);
  run_.failures.mark_resumed(now);
  parts_.detector.step_done(step.newest_duration());
  parts_.saves.on_commit(step.number(), now);
  unseen_.push_back(
      {.job = kLiveJob, .last = done, .count = 1, .duration = step.newest_duration()});
  show_steps();
  parts_.recovery.activate_when_ready(step.is_current(), step.number());
  end_if_complete();
  run_.metrics.send_progress();
}

void StepDriver::handle_loss(const RankDied& died) {
  const std::uint32_t seat = died.death.rank;
  if (over_ || !parts_.recovery.record_exit(seat, died.was_member)) return;
  const Nanos noticed = run_.clock.now();
  run_.failures.add_loss(seat, parts_.faults.take_hit_time(seat).value_or(noticed), noticed,
                         died.death.cause);
  run_.checkpoints.record_lost_rank(seat);
  if (parts_.recovery.is_nobody_left()) parts_.recovery.emit_losses();
}

void StepDriver::handle_new_epoch(const membership::Formed& formed) {
  run_.metrics.record_discard(parts_.step.number());
  parts_.step.discard_reports(formed.epoch);
  if (over_) return;
  std::vector<std::uint32_t> there;
  for (const membership::Seat& member : formed.members) there.push_back(member.rank);
  for (const std::uint32_t seat : parts_.recovery.fence_missing(there)) {
    handle_loss({.death = {.rank = seat, .cause = "did not connect to the new controller"},
                 .was_member = true});
  }
  if (parts_.recovery.has_unreported()) parts_.recovery.emit_losses();
  parts_.recovery.return_ranks(there);
  parts_.recovery.end_strays(there);
  parts_.recovery.activate_assignment(there, parts_.step.number());
}

void StepDriver::omit_rank(const GivenUp& given_up) {
  run_.desk.add_warning(
      run_.clock.now(),
      fmt::format("rank {} is not started again, because its processes die before they join: {}",
                  given_up.rank, given_up.cause));
  if (over_) return;
  parts_.recovery.abandon_seat(given_up.rank, parts_.step.number());
  if (run_.placement.counted() == 0 && run_.placement.job().next) {
    const auto left = static_cast<std::uint32_t>(run_.placement.pending_placement().gpus.size());
    parts_.crew.await_ranks(left);
  }
  const bool is_due = is_call_due(run_, parts_, run_.clock.now());
  if (parts_.recovery.is_deserted() && !parts_.recovery.can_be_assigned(is_due)) {
    abandon_run(kWholeState);
  }
}

/// No decision of a policy could continue the run: only the newest checkpoint can.
void StepDriver::abandon_run(std::string what) {
  if (over_ || parts_.end.is_state_gone()) return;
  const bool are_steps_done = parts_.end.are_steps_done(parts_.step.number());
  if (parts_.end.is_stopping() && !are_steps_done) return end_early();
  parts_.recovery.emit_losses();
  if (!run_.failures.empty()) what += fmt::format(" ({})", run_.failures.cause());
  run_.desk.add_line(run_.clock.now(), parts_.end.end_without_state(what));
  parts_.crew.record_lost_state();
  end_early();
}

// ---- next step ----

void StepDriver::review_run() {
  const OpenStep& step = parts_.step;
  // Faults that fall into the wait of a job without GPUs end no rank later.
  if (step.is_current() || !run_.placement.job().is_placed()) {
    emit_part_changes();
    parts_.faults.inject_due(step.number(), run_.clock.now(), run_.placement.awaited_seats());
  }
  if (step.is_disturbed()) emit_part_changes();
  const Nanos now = run_.clock.now();
  const bool saved = run_.checkpoints.written() > 0 || run_.checkpoints.first_step() > 0;
  parts_.crew.set_patience_with_holders(patience_with_holders(run_.scenario().survival(), saved));
  if (const auto suspected = parts_.detector.new_suspects()) emit_event(*suspected);
  parts_.detector.check_progress(step.number(), step.is_current(), now);
  const JobInfo& job = run_.placement.job();
  const bool replaces = job.next || parts_.proposals.has_open() || parts_.gate.has_unagreed();
  const std::string cause = run_.failures.empty() ? std::string() : run_.failures.cause();
  const RankCount count{run_.placement.counted(), run_.journal.state().wanted_ranks};
  const auto lacks = parts_.ranks.find_warning(count, replaces, cause, now);
  if (lacks) run_.desk.add_warning(now, *lacks);
  const bool shown = !run_.observations.has_pending();
  if (parts_.recovery.is_nobody_left() && shown && !handle_lost_state(now)) return;
  const bool stops = parts_.recovery.is_held() && parts_.end.is_stopping();
  parts_.end.set_waiting(!job.is_placed());
  if (stops && run_.checkpoints.is_requested()) {
    run_.desk.add_warning(now, "the job is on hold: the run ends without the requested checkpoint");
  }
  if (stops || parts_.recovery.is_hold_unanswerable(shown)) end_early();
}

bool StepDriver::handle_lost_state(Nanos now) {
  Recovery& recovery = parts_.recovery;
  if (recovery.has_unreported()) {
    recovery.emit_losses();  // the policies decide first
    return false;
  }
  const JobInfo& job = run_.placement.job();
  const bool is_due = is_call_due(run_, parts_, now);
  if (!parts_.end.is_stopping() && restore_job(run_, parts_, *this)) {
    run_.desk.add_line(now, fmt::format("no rank has the training state any more: all ranks "
                                        "restart from the state of step {}",
                                        parts_.step.number()));
  } else if (parts_.end.is_stopping() || !recovery.can_be_assigned(is_due)) {
    abandon_run(kWholeState);
    return false;
  } else if (std::exchange(deserted_in_, job.epoch) != job.epoch) {
    run_.desk.add_warning(
        now, fmt::format("no rank has the training state any more: the job waits for GPUs from a "
                         "policy, at most {:g} s (survival.hold_limit), to restart from the "
                         "checkpoint of step {}",
                         to_seconds(run_.scenario().survival().hold_limit()), job.saved));
  }
  return true;
}

Nanos StepDriver::next_instant() const {
  const Nanos now = run_.clock.now();
  return std::min({next_wake(run_.journal.state()), parts_.faults.next_instant(now),
                   parts_.step.next_begin(now)});
}

void StepDriver::begin_next_step() {
  if (parts_.crew.is_epoch_formed()) parts_.proposals.propose_waiting();
  // A checkpoint that failed or took too long no longer delays a move.
  const OpenStep& step = parts_.step;
  if (!over_ && !step.is_current()) parts_.recovery.activate_when_ready(false, step.number());
  begin_step();
}

void StepDriver::begin_step() {
  if (parts_.end.is_stopping() && !run_.checkpoints.is_requested()) return;  // The run ends here.
  if (over_ || parts_.step.is_current() || !parts_.crew.is_ready()) return;
  if (run_.observations.has_pending()) return;
  const bool runs = run_.placement.job().phase == JobPhase::running;
  if (parts_.end.are_steps_done(parts_.step.number()) || !runs) return;
  if (run_.clock.now() >= renew_connections_at_) {
    renew_connections_at_ = kNever;
    run_.desk.add_line(run_.clock.now(), "certificates are renewed; all ranks reconnect");
    return parts_.crew.renew_connections();
  }
  const std::vector<std::uint32_t> members = parts_.crew.members();
  if (!run_.placement.is_complete(members)) return;
  const Nanos delay = to_nanos(run_.placement.job().now.get<Delay>().seconds);
  const Nanos at = run_.clock.now();
  if (at < parts_.step.delay(delay, at)) return;
  const StepPlan planned = plan_step(run_, parts_, members);
  set_hardware(run_, parts_);
  parts_.crew.start_step([&](std::uint32_t) { return planned; });
  const Nanos now = run_.clock.now();
  parts_.step.begin(now);
  run_.failures.mark_working(now);
  for (const std::uint32_t seat : members) run_.failures.mark_replaced(seat, now);
  emit_part_changes();
  parts_.faults.inject_due(parts_.step.number(), run_.clock.now(), run_.placement.awaited_seats());
}

void StepDriver::emit_part_changes() {
  const Nanos now = run_.clock.now();
  for (const PartChanged& part : parts_.tests.part_changes(parts_.step.number(), now)) {
    const bool is_lost_node = part.part.kind == PartKind::node && part.to.health == Health::lost;
    if (is_lost_node) run_.checkpoints.record_lost_node({part.part.index});
    emit_event(part);
    if (is_lost_node) choose_checkpoint_again(run_, parts_);
  }
}

// ---- decisions ----

void StepDriver::accept_decisions(const DecisionList& decisions, bool trains) {
  for (const Decision& decision : decisions.items()) run_.world().announce_decision(decision);
  parts_.gate.resume_decisions(decisions.items(), run_.clock.now());
  if (!over_) parts_.recovery.activate_when_ready(parts_.step.is_current(), parts_.step.number());
  if (!trains) return;
  begin_next_step();
  parts_.crew.send_directives();
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
  return fabric_refusal(run_.scenario(), decision,
                        placement.is_submitted() && placement.job().is_placed());
}

void StepDriver::carry_out(const Decision& decision) {
  if (const auto* what = std::get_if<Assign>(&decision.what)) {
    if (what->is_release()) return release_job(run_, parts_, *this);
    if (run_.placement.job().is_restarting) restart_job(run_, parts_, *this, what->state);
    parts_.recovery.accept_assignment(*what);
    // Ranks that load their state begin together.
    if (run_.placement.counted() == 0) {
      parts_.crew.await_ranks(static_cast<std::uint32_t>(what->gpus.size()));
    }
    return;
  }
  if (const auto* save = std::get_if<Save>(&decision.what)) {
    run_.checkpoints.request_checkpoint(save->tier);
  }
}

// ---- end of the run ----

void StepDriver::stop(const StopRun& order) {
  if (over_ || parts_.end.is_stopping()) return;
  parts_.end.stop(order.reason());
  run_.desk.add_line(run_.clock.now(), "the run is to end: " + order.reason());
  if (!order.checkpoint()) return;
  if (run_.checkpoints.is_enabled()) return run_.checkpoints.request_checkpoint();
  run_.desk.add_warning(run_.clock.now(),
                        "the run has no folder for checkpoints: it ends without a checkpoint");
}

std::string StepDriver::announce_removal(const RemovalOrder& order) {
  const std::string name = part_name(order.part);
  const ClusterState& state = run_.world().state();
  const std::uint32_t count = count_of(run_.world().cluster(), order.part.kind);
  if (order.part.index >= count) {
    return fmt::format("{}: expected a {} of the run's cluster, 0 to {}; see orrery status", name,
                       name_of(order.part.kind), count - 1);
  }
  if (over_ || parts_.end.is_stopping()) return fmt::format("{}: the run is about to end", name);
  for (const GpuId gpu : gpus_of(run_.world().cluster(), order.part)) {
    const NodeId node = run_.world().cluster().node_of(gpu);
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
  parts_.faults.announce_removal(order.part, run_.clock.now(), order.notice, order.lasts,
                                 order.test);
  return {};
}

void StepDriver::end_if_complete() {
  const bool are_steps_done = parts_.end.are_steps_done(parts_.step.number());
  const bool asked = parts_.end.is_stopping() && run_.checkpoints.is_requested();
  if (!are_steps_done && (asked || !parts_.end.is_stopping())) return;
  if (!parts_.crew.is_ready() || !run_.checkpoints.is_idle()) return;
  if (asked || !run_.checkpoints.missing().empty()) {
    if (!parts_.crew.is_settled()) return;
    const std::uint64_t attempt =
        run_.checkpoints.retry_checkpoint(parts_.step.number(), parts_.crew.members());
    if (attempt != 0) return parts_.crew.save(parts_.step.number(), attempt);
  }
  // The ranks still exchange the result of a sharded update, which a loss could interrupt.
  const bool is_sharded = sharding_of(run_.scenario().job().layout()) == Sharding::optimizer;
  if (is_sharded && !parts_.crew.is_settled()) return;
  if (!are_steps_done) return end_early();
  over_ = true;
}

void StepDriver::end_early() {
  run_.metrics.record_discard(parts_.step.number());
  parts_.recovery.emit_losses();
  parts_.proposals.reject_open(*this, "the run has ended");
  parts_.gate.close("the run has ended");
  over_ = true;
}

bool StepDriver::finish_run() {
  const Nanos now = run_.clock.now();
  const RunState& state = run_.journal.state();
  if (state.at_end) {  // an observation has shown the end
    const RankCount count{state.at_end->working, state.wanted_ranks};
    parts_.ranks.record_end(count, state.at_end->is_assigned, now);
  } else if (run_.placement.is_submitted()) {
    const bool replaces = run_.placement.job().next.has_value();
    const RankCount count{run_.placement.counted(), state.wanted_ranks};
    const auto lacks = parts_.ranks.record_end(count, replaces, now);
    if (lacks) run_.desk.add_warning(now, *lacks);
  }
  if (!parts_.end.is_whole(parts_.step.number())) return false;
  parts_.end.gather_hashes(parts_.crew, parts_.step.number(), run_.failures, run_.journal,
                           run_.clock);
  return true;
}

void StepDriver::emit_job_done() {
  emit_event(JobDone{kLiveJob});
  parts_.gate.reject_decisions(kLiveJob, run_.clock.now());
}

// ---- report and status ----

void StepDriver::fill(Report& report) const {
  parts_.end.fill(report);
  parts_.ranks.fill(report);
  const Step next = parts_.step.number();
  std::string why = parts_.end.unfinished(next, run_.failures, run_.checkpoints.missing());
  if (!why.empty()) report.set_unfinished(std::move(why));
  parts_.faults.fill(report, next > 0 ? next - 1 : 0, run_.metrics.elapsed());
}

void StepDriver::fill(RunStatus& status) const { fill_status(run_, parts_, over_, status); }

bool StepDriver::is_quiet() const {
  return !over_ && !parts_.recovery.has_unreported() && !parts_.proposals.has_open() &&
         !parts_.gate.has_unagreed();
}

}  // namespace orrery::live
