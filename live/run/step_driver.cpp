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
#include "policies/seam/fabric_rules.hpp"

namespace orrery::live {
namespace {

template <class... Each>
struct Hearing : Each... {
  using Each::operator()...;
};

std::optional<Nanos> hold_limit(const Scenario& scenario, const Needs& needs) {
  if (!needs.actions.has<Assign>()) return {};
  return scenario.survival().hold_limit();
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
      detector_(scenario_, !run.request.has_rendezvous(), run.placement, faults_, crew_,
                [this](const std::string& what) { run_.desk.warn(run_.clock.now(), what); }),
      recovery_(run.placement, crew_, *this, gate_, run.clock, hold_limit(scenario_, needs)),
      proposals_(gate_, run.clock, [this](std::uint64_t number) { crew_.propose(number); }),
      step_(run.checkpoints.first_step(), run.placement.seats()),
      saves_(run.checkpoints),
      end_(scenario_.run().steps()) {
  restore(run.journal.past());
}

// ---- beginning ----------------------------------------------------------------------------

void StepDriver::restore(const Past& past) {
  if (past.snapshot) {
    step_.restore(past.snapshot->step());
    for (const Nanos at : past.snapshot->wakes()) gate_.wake(at);
    recovery_.restore(*past.snapshot);
    detector_.restore(*past.snapshot);
  }
  if (!past.commits.empty()) step_.restore(past.commits.back().step() + 1);
  proposals_.go_on_after(past.core.decided);
}

void StepDriver::told(const Event& event, Nanos at) {
  recovery_.told(event, at);
  if (const auto* suspected = std::get_if<RanksSuspected>(&event)) detector_.told(*suspected);
}

void StepDriver::resume(const std::vector<StepsDone>& unseen, const std::vector<Decision>& open) {
  const CheckpointPlan& plan = run_.placement.job().now.get<CheckpointPlan>();
  if (run_.checkpoints.kept()) run_.checkpoints.set_every(plan.every_steps);
  for (const StepsDone& done : unseen) {
    happen(done);
    gate_.step_ended(kLiveJob, run_.clock.now());
  }
  recovery_.resume();
  gate_.resume(open, run_.clock.now());
  faults_.strike_again();
  happen(Tick{});  // a wake may have been missed
}

// ---- what happens -------------------------------------------------------------------------

void StepDriver::happen(Event event) {
  run_.desk.happened(event, run_.clock.now());
  run_.observations.happen(std::move(event));
}

void StepDriver::hear(Clock::time_point deadline) {
  for (const CrewEvent& event : crew_.wait(deadline)) take(event);
  for (const SaveDone& done : saves_.take(run_.clock.now())) happen(done);
}

void StepDriver::take(const CrewEvent& event) {
  std::visit(Hearing{[this](const Incoming& incoming) { take_message(incoming); },
                     [this](const RankDied& died) { lose(died); },
                     [this](const membership::Revoked&) {
                       step_.revoke();
                       gate_.membership_changed(kLiveJob);
                     },
                     [this](const membership::Agreed&) {
                       run_.failures.known(run_.clock.now());
                       if (!over_) recovery_.tell_losses();
                     },
                     [this](const membership::Formed& formed) { regroup(formed); },
                     [this](const membership::Committed& committed) { commit(committed); },
                     [this](const membership::Decided& lot) { proposals_.agreed(lot.number); },
                     [this](const membership::Aborted& lot) { proposals_.dropped(lot.number); },
                     [this](const membership::Stuck&) {
                       if (!over_) give_up();
                     },
                     [this](const GivenUp& given_up) { leave_out(given_up); },
                     [this](const StateGone& gone) { abandon(gone); }},
             event);
}

void StepDriver::take_message(const Incoming& incoming) {
  const std::uint32_t rank = incoming.rank;
  if (incoming.message->has_hello()) {
    run_.account.hello(rank, incoming.life);
  } else if (incoming.message->has_heartbeat()) {
    const Heartbeat& beat = incoming.message->heartbeat();
    run_.account.heard(rank, incoming.life, beat.progress());
    detector_.note(rank, incoming.life, beat, run_.clock.now());
    run_.observations.telemetry().progress(rank, beat.progress(), run_.clock.at(incoming.at));
  } else if (incoming.message->has_step_report()) {
    const StepReport& report = incoming.message->step_report();
    run_.account.sent(rank, incoming.life, report.bytes_sent());
    if (step_.take(rank, incoming.life, report, crew_.epoch())) run_.account.executed(report);
  } else if (incoming.message->has_shard()) {
    run_.checkpoints.take(incoming.message->shard());
  }
}

void StepDriver::commit(const membership::Committed& committed) {
  const Step done = step_.number();
  ensure(step_.under_way() && committed.step == done, "the step under way is committed");
  const Nanos now = run_.clock.now();
  const std::vector<StepReport> reports = step_.commit(now, run_.account.elapsed());
  run_.account.committed(done, reports, run_.placement.job().now.get<CodecRules>(),
                         static_cast<std::uint32_t>(crew_.members().size()), now);
  run_.observations.telemetry().step_done(
      done, sizeof(float) * parameter_count(scenario_.job().model()), reports, now);
  JournalRecord record;
  JournalCommit& kept = *record.mutable_commit();
  kept.set_step(done);
  kept.set_epoch(committed.epoch);
  kept.set_at(now);
  kept.mutable_reports()->Add(reports.begin(), reports.end());
  run_.account.keep(kept);
  kept.set_checkpoint(run_.checkpoints.planned());
  run_.journal.append(record);
  run_.failures.resumed(now);
  detector_.step_done(step_.took());
  happen(StepsDone{.job = kLiveJob, .last = done, .count = 1, .duration = step_.took()});
  saves_.committed(step_.number(), now);
  gate_.step_ended(kLiveJob, now);
  end_if_complete();
  run_.account.tell_progress();
}

void StepDriver::lose(const RankDied& died) {
  const std::uint32_t seat = died.death.rank;
  if (over_ || !recovery_.died(seat, died.was_member)) return;
  const Nanos noticed = run_.clock.now();
  run_.failures.lost(seat, faults_.struck(seat).value_or(noticed), noticed, died.death.cause);
  run_.checkpoints.lost(seat);
  if (recovery_.nobody_left()) recovery_.tell_losses();
}

/// What was done of the step is thrown away: all have said what they had done before they left
/// the old epoch.
void StepDriver::regroup(const membership::Formed& formed) {
  run_.account.discarded(step_.number());
  step_.discard();
  if (over_) return;
  std::vector<std::uint32_t> there;
  for (const membership::Seat& member : formed.members) there.push_back(member.rank);
  for (const std::uint32_t seat : recovery_.end_missing(there)) {
    lose({.death = {.rank = seat, .cause = "has not come back to the new controller"},
          .was_member = true});
  }
  recovery_.tell_losses();
  recovery_.come_true(there, step_.number());
}

void StepDriver::leave_out(const GivenUp& given_up) {
  run_.desk.warn(run_.clock.now(),
                 fmt::format("rank {} is started no more, its processes die before they join: {}",
                             given_up.rank, given_up.cause));
  if (over_) return;
  recovery_.give_up(given_up.rank, step_.number());
  if (recovery_.deserted()) give_up();
}

void StepDriver::abandon(const StateGone& gone) {
  if (over_ || end_.state_gone()) return;
  run_.desk.note(run_.clock.now(), end_.state_gone(gone.what));
  give_up();
}

// ---- going on -----------------------------------------------------------------------------

void StepDriver::act() {
  if (!over_) end_if_complete();
  go_on();
  tell_hardware();
  crew_.send_directives();
  if (over_) return;
  if (step_.under_way()) {
    tell_parts();
    faults_.strike(step_.number(), run_.clock.now(), run_.placement.awaited());
  }
  if (step_.disturbed()) tell_parts();
  const Nanos now = run_.clock.now();
  if (const auto suspected = detector_.suspect()) happen(*suspected);
  detector_.look(step_.number(), step_.under_way(), now);
  if (recovery_.waits_in_vain(!run_.observations.waiting())) give_up();
}

Nanos StepDriver::next_instant() const {
  return std::min(gate_.next_wake(), faults_.next_instant(run_.clock.now()));
}

void StepDriver::go_on() {
  if (crew_.running()) proposals_.put();
  begin_step();
}

/// Once the ranks are ready for it and the policy has seen what has happened.
void StepDriver::begin_step() {
  if (end_.stopping() && !run_.checkpoints.asked()) return;  // the run is to end here
  if (over_ || step_.under_way() || !crew_.ready() || run_.observations.waiting()) return;
  const bool runs = run_.placement.job().phase == JobPhase::running;
  if (end_.steps_done(step_.number()) || !runs) return;
  if (run_.clock.now() >= open_anew_at_) {
    open_anew_at_ = kNever;
    run_.desk.note(run_.clock.now(), "certificates are renewed, all connections are opened anew");
    return crew_.open_anew();
  }
  const std::vector<std::uint32_t> members = crew_.members();
  if (!run_.placement.complete(members)) return;
  const StepPlan planned = plan(members);
  tell_hardware();
  crew_.work([&](std::uint32_t) { return planned; });
  const Nanos now = run_.clock.now();
  step_.begin(now);
  run_.failures.working(now);
  for (const std::uint32_t seat : members) run_.failures.replaced(seat, now);
  tell_parts();
  faults_.strike(step_.number(), run_.clock.now(), run_.placement.awaited());
}

StepPlan StepDriver::plan(const std::vector<std::uint32_t>& members) {
  const JobInfo& job = run_.placement.job();
  StepPlan plan;
  plan.set_step(step_.number());
  plan.set_epoch(crew_.epoch());
  plan.set_checkpoint(run_.checkpoints.plan(step_.number(), members));
  encode(job.now.get<CollectiveTable>(), *plan.mutable_collectives());
  std::uint64_t first = 0;
  for (const std::uint32_t seat : members) {
    Share& share = *plan.add_shares();
    share.set_first(first);
    share.set_count(run_.placement.share(seat));
    first += share.count();
  }
  ensure(first == job.spec.micro_batches, "the members do every micro-batch of the step");
  set_codecs(job.now.get<CodecRules>(), plan);
  return plan;
}

/// How the ranks' hardware stands now; they are told with the next directives.
void StepDriver::tell_hardware() {
  const Nanos now = run_.clock.now();
  for (std::uint32_t rank = 0; rank < run_.placement.seats(); ++rank) {
    crew_.set_hardware(rank, faults_.hardware(rank, step_.number(), now));
  }
}

void StepDriver::tell_parts() {
  const ClusterState& known = run_.world.state();
  for (const PartChanged& part : faults_.changes(known, step_.number(), run_.clock.now())) {
    happen(part);
  }
}

// ---- decisions ----------------------------------------------------------------------------

void StepDriver::decided(const DecisionList& decisions, bool trains) {
  gate_.take(decisions, run_.clock.now());
  if (!trains) return;
  go_on();
  crew_.send_directives();
}

std::string StepDriver::refusal(const Decision& decision) const {
  const auto* where = std::get_if<Assign>(&decision.what);
  if (where != nullptr && !where->leaves() && run_.placement.job().next) {
    // Newcomers are on their way.
    return fmt::format("job {} is being assigned already", where->job.value);
  }
  return fabric_refusal(scenario_, decision);
}

void StepDriver::carry_out(const Decision& decision) {
  if (const auto* what = std::get_if<Assign>(&decision.what)) {
    return recovery_.assign(*what, step_.number());
  }
  if (std::holds_alternative<Save>(decision.what)) return run_.checkpoints.ask();
  const auto* plan = std::get_if<CheckpointPlan>(&std::get<Configure>(decision.what).what);
  if (plan != nullptr) run_.checkpoints.set_every(plan->every_steps);
}

// ---- the end ------------------------------------------------------------------------------

void StepDriver::stop(const StopRun& order) {
  if (over_ || end_.stopping()) return;
  end_.stop(order.reason());
  run_.desk.note(run_.clock.now(), "the run is to end: " + order.reason());
  if (order.checkpoint() && run_.checkpoints.kept()) run_.checkpoints.ask();
}

/// Every step is done, or the operator has asked for the end, and what follows from the last one is
/// done, too.
bool StepDriver::complete() {
  const bool to_stop = end_.stopping() && !run_.checkpoints.asked();
  if (!end_.steps_done(step_.number()) && !to_stop) return false;
  if (!crew_.ready() || !run_.checkpoints.at_rest()) return false;
  if (!run_.checkpoints.missing().empty()) {
    if (!crew_.settled()) return false;
    const std::uint64_t attempt = run_.checkpoints.once_more(step_.number(), crew_.members());
    if (attempt != 0) {
      crew_.save(step_.number(), attempt);
      return false;
    }
  }
  // The ranks exchange what a sharded update has changed: a loss still takes a new epoch.
  return scenario_.job().layout().shard() != "optimizer" || crew_.settled();
}

void StepDriver::end_if_complete() {
  if (!complete()) return;
  if (!end_.steps_done(step_.number())) return give_up();
  over_ = true;
}

/// Nobody is left who could go on, or is to.
void StepDriver::give_up() {
  run_.account.discarded(step_.number());
  recovery_.tell_losses();
  proposals_.reject(*this, "the run has ended");
  gate_.close("the run has ended");
  over_ = true;
}

bool StepDriver::finish() {
  if (!end_.whole(step_.number())) return false;
  end_.gather(crew_, step_.number(), run_.failures, run_.journal, run_.clock);
  return true;
}

void StepDriver::tell_done() {
  happen(JobDone{kLiveJob});
  gate_.job_gone(kLiveJob, run_.clock.now());
}

// ---- what is told of it -------------------------------------------------------------------

void StepDriver::fill(Report& report) const {
  end_.fill(report);
  std::string why = end_.unfinished(step_.number(), run_.failures, run_.checkpoints.missing());
  if (!why.empty()) report.set_unfinished(std::move(why));
  faults_.fill(report, step_.number() > 0 ? step_.number() - 1 : 0, run_.account.elapsed());
}

void StepDriver::fill(RunStatus& status) const {
  status.step = step_.number();
  status.step_time_s = to_seconds(step_.took());
  if (status.phase == "training") {
    status.phase = over_              ? "over"
                   : end_.stopping()  ? "stopping"
                   : recovery_.held() ? "held"
                                      : "training";
  }
  if (!run_.placement.submitted()) return;
  status.epoch = crew_.epoch();
  const JobInfo& job = run_.placement.job();
  if (job.saved_at > 0) status.saved = job.saved;
  const std::vector<std::uint32_t> members = crew_.members();
  for (std::uint32_t seat = 0; seat < run_.placement.seats(); ++seat) {
    const bool member = std::find(members.begin(), members.end(), seat) != members.end();
    const bool there = crew_.running(seat);
    const auto [step, micro_batches] = detector_.at(seat);
    status.ranks.push_back(
        {.rank = seat,
         .state = member  ? "working"
                  : there ? "joining"
                          : "lost",
         .pid = there ? crew_.pid(seat) : 0,
         .step = step,
         .micro_batches = micro_batches,
         .device = there ? run_.observations.telemetry().device(seat) : DeviceReading()});
  }
}

bool StepDriver::at_peace() const {
  return !over_ && !recovery_.untold() && !proposals_.open() && !gate_.has_unagreed();
}

void StepDriver::keep(JournalSnapshot& now) const {
  crew_.keep(now);
  now.set_step(step_.number());
  faults_.keep(now);
  now.mutable_wakes()->Add(gate_.wakes().begin(), gate_.wakes().end());
  recovery_.keep(now);
  detector_.keep(now);
}

}  // namespace orrery::live
