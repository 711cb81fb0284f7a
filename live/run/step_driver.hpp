// Takes the ranks of a live run from step to step: every step is planned, sent, reported by all
// ranks and committed; what policies decide for all ranks is put to them first and holds from the
// next plan on; whoever dies costs the step under way, which the others do again. Follows what the
// crew says, by objects of one purpose each: recovery, faults, detection, proposals, the open step.
// The live backend calls it, about twenty times a second; one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "live/run/account/run_account.hpp"
#include "live/run/checkpoints/run_checkpoints.hpp"
#include "live/run/checkpoints/save_events.hpp"
#include "live/run/files/journal.hpp"
#include "live/run/losses/failure_detector.hpp"
#include "live/run/losses/failure_records.hpp"
#include "live/run/losses/fault_injector.hpp"
#include "live/run/losses/recovery.hpp"
#include "live/run/observations/observations.hpp"
#include "live/run/observations/policy_clock.hpp"
#include "live/run/open_step.hpp"
#include "live/run/operator/operator_desk.hpp"
#include "live/run/processes/crew.hpp"
#include "live/run/processes/placement.hpp"
#include "live/run/proposals.hpp"
#include "live/run/run_end.hpp"
#include "policies/seam/gate.hpp"
#include "traces/run.pb.h"

namespace orrery::live {

class StepDriver : public Carrier {
 public:
  /// The rest of the run, which outlives the driver.
  struct Run {
    const RunRequest& request;
    World& world;
    Placement& placement;
    const PolicyClock& clock;
    Observations& observations;
    OperatorDesk& desk;
    RunAccount& account;
    RunCheckpoints& checkpoints;
    FailureRecords& failures;
    Journal& journal;
  };
  /// Starts the ranks, or goes on with those of an earlier controller, as the journal tells (see
  /// Crew). `needs`: of the policies.
  StepDriver(const Run& run, AgentProcesses& processes, const ControllerStart& place,
             const Assignment& assignment, const Capabilities& offered, const Needs& needs);

  /// An earlier controller has told that event, at that instant.
  void told(const Event& event, Nanos at);
  /// Makes up for what was not yet seen when it died: steps that nobody saw the end of, and
  /// decisions without an outcome.
  void resume(const std::vector<StepsDone>& unseen, const std::vector<Decision>& open);

  /// What has been decided for all ranks is put to them, and the next step begins if they are ready
  /// for it and the policies have seen what has happened. At the start, too: what was decided
  /// before the run holds from its first step on.
  void go_on();
  /// Takes in what the crew says, at the latest at `deadline`.
  void hear(Clock::time_point deadline);
  /// Goes on with it: faults strike, whoever hangs is ended, the next step begins or the run is
  /// over.
  void act();
  /// Decisions, and when their policies want to be called. `trains`: the clock has started.
  void decided(const DecisionList& decisions, bool trains);
  void wake(Nanos at) { gate_.wake(at); }
  bool wake_due(Nanos now) { return gate_.wake_due(now); }
  /// The first instant after now at which something is due; kNever: none.
  Nanos next_instant() const;

  /// The run is to end after the step under way, and one more if a checkpoint is to follow it.
  void stop(const StopRun& order);
  /// At that instant all connections are opened anew, between two steps.
  void open_anew_at(Nanos instant) { open_anew_at_ = instant; }
  /// No step will be done any more.
  bool over() const { return over_; }
  /// Once over: lets the ranks hand in their parameters, if all steps were done; else false.
  bool finish();
  /// That the job is done.
  void tell_done();

  /// The step that is worked on, or the next one.
  const OpenStep& step() const { return step_; }
  void fill(RunStatus& status) const;
  void fill(Report& report) const;
  /// Nothing is open that a snapshot would not tell. A step may be under way: it is done again, as
  /// after any death.
  bool at_peace() const;
  void keep(JournalSnapshot& now) const;

  // What the gate asks and tells.
  std::string refusal(const Decision& decision) const override;
  bool step_open(JobId) const override { return step_.under_way(); }
  void happen(Event event) override;
  void carry_out(const Decision& decision) override;

 private:
  void restore(const Past& past);
  void take(const CrewEvent& event);
  void take_message(const Incoming& incoming);
  void lose(const RankDied& died);
  void regroup(const membership::Formed& formed);
  void commit(const membership::Committed& committed);
  void leave_out(const GivenUp& given_up);
  void abandon(const StateGone& gone);
  void begin_step();
  StepPlan plan(const std::vector<std::uint32_t>& members);
  void tell_hardware();
  void tell_parts();
  bool complete();
  void end_if_complete();
  void give_up();

  const Run run_;
  const Scenario& scenario_;
  Crew crew_;
  DecisionGate gate_;
  FaultInjector faults_;
  FailureDetector detector_;
  Recovery recovery_;
  Proposals proposals_;
  OpenStep step_;
  SaveEvents saves_;
  RunEnd end_;
  Nanos open_anew_at_ = kNever;
  bool over_ = false;
};

}  // namespace orrery::live
