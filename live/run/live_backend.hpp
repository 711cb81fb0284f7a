// Real processes behind the seam: one controller (this), one agent a rank. Every step is planned,
// sent, reported by all ranks and committed; what policies set for all ranks is put to them first
// and holds from the next plan on. A process has a seat, the number of its GPU; the job's rank
// r is whoever sits on the r-th GPU on which the job stands. A rank that dies costs the step under
// way, which the others do again. So does the controller: another one shows the policies once more
// what they have seen, and goes on. Called by the thread that runs drive(). The policy clock starts
// with the first step.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "live/run/crew.hpp"
#include "live/run/failure_detector.hpp"
#include "live/run/failure_records.hpp"
#include "live/run/fault_injector.hpp"
#include "live/run/journal_replay.hpp"
#include "live/run/kept_world.hpp"
#include "live/run/observations.hpp"
#include "live/run/open_step.hpp"
#include "live/run/operator_desk.hpp"
#include "live/run/placement.hpp"
#include "live/run/policy_clock.hpp"
#include "live/run/policy_ticks.hpp"
#include "live/run/proposals.hpp"
#include "live/run/recovery.hpp"
#include "live/run/run_account.hpp"
#include "live/run/run_checkpoints.hpp"
#include "live/run/run_end.hpp"
#include "live/run/supervision.hpp"
#include "live/run/telemetry.hpp"
#include "policies/record/encoding.hpp"
#include "policies/run/worker.hpp"
#include "policies/seam/gate.hpp"

namespace orrery::live {

class LiveBackend : public RunBackend, private Carrier {
 public:
  /// `request.scenario` is resolved. Starts nothing yet. Throws bad_input for what live mode
  /// cannot run (another model than the built-in one, a layout other than data parallel, faults
  /// of switches), environment for a fabric that this machine does not have.
  /// `supervision` outlives this.
  LiveBackend(const RunRequest& request, const Cluster& cluster, ProgressSink progress,
              Supervision& supervision);
  ~LiveBackend() override;

  Capabilities capabilities() const override;
  const Cluster& cluster() const override { return cluster_; }
  void begin(const Needs& needs) override;
  std::optional<Observation> next() override;
  void apply(const DecisionList& decisions) override;
  void fill(Report& report) override;
  bool halted(bool now) override;
  bool goes_on_without_log(const std::string& why) override;
  std::unique_ptr<LogFile> log_file(std::unique_ptr<LogFile> plain) override;
  void asked(const Decision& decision) override { desk_.asked(decision, now()); }
  std::vector<Verdict> verdicts() override { return desk_.take_verdicts(); }
  void remember_by(Memory memory) override { memory_ = std::move(memory); }

 private:
  enum class Stage : std::uint8_t { idle, waiting_for_start, training, over, ended };

  Nanos now() const { return clock_.now(); }
  JobSpec job_spec() const;
  Observation submit();
  Observation observe() { return observations_.make(failures_.take_changed()); }
  void start_training();
  std::optional<Observation> finish();
  void wait_for_something();
  Clock::time_point next_instant() const;
  void note_checkpoints();
  bool complete();
  void take_in(const Incoming& incoming);
  void take_in(const RankDied& died);
  void take_in(const membership::Revoked& revoked);
  void take_in(const membership::Agreed& agreed);
  void take_in(const membership::Formed& formed);
  void take_in(const membership::Committed& committed);
  void take_in(const membership::Decided& decided);
  void take_in(const membership::Aborted& aborted);
  void take_in(const membership::Stuck& stuck);
  void take_in(const GivenUp& given_up);
  void take_in(const StateGone& gone);
  void go_on();
  bool on_gpus() const { return request_.fabric() == "nccl"; }
  void inject_faults();
  void give_up();
  void end_run();
  void hear_operator();
  std::string objection(const ParameterSet& set) const;
  void stop_after_step(const StopRun& order);
  RunStatus status() const;
  void set_hardware();
  void notify_progress();
  void check_cores(double cores) const;

  /// What an earlier controller has left: see live_resume.cpp.
  const Past& past() const { return journal_.past(); }
  void restore();
  Observation replay();
  void resume();
  void restore(const JournalSnapshot& then);
  bool at_peace() const;
  void begin_journal_anew();
  void journal_is_gone(const std::string& why);
  void warn(const std::string& what) { desk_.warn(now(), what); }
  void write_down(const JournalRecord& record) { journal_.append(record); }
  void write_down_commit(Step step, std::span<const StepReport> reports, std::uint64_t epoch,
                         Nanos at);

  // What policies decide, and where the job stands: see live_seats.cpp.
  std::string refusal(const Decision& decision) const override;
  bool step_open(JobId) const override { return step_.under_way(); }
  void happen(Event event) override;
  void carry_out(const Decision& decision) override;
  void propose();
  void tell_parts();
  const JobInfo& job() const { return placement_.job(); }
  bool waits_in_vain() const;

  const RunRequest request_;
  const Scenario& scenario_;
  const Cluster& cluster_;
  const ProgressSink progress_;
  const std::uint32_t ranks_;
  const Text text_;
  Supervision& supervision_;
  Journal journal_;
  JournalReplay replay_;
  World& world_ = replay_.world();
  Placement placement_{world_, ranks_};
  DecisionGate gate_;
  RunAccount account_;
  Telemetry telemetry_;
  RunCheckpoints checkpoints_;
  FailureRecords failures_;
  std::unique_ptr<Crew> crew_;
  std::optional<FaultInjector> faults_;
  std::optional<FailureDetector> detector_;
  std::optional<Recovery> recovery_;

  Stage stage_ = Stage::idle;
  PolicyClock clock_;
  PolicyTicks ticks_;
  Needs needs_;
  Observations observations_{world_, placement_, clock_, telemetry_, journal_};
  Proposals proposals_{gate_, clock_, [this](std::uint64_t number) { crew_->propose(number); }};

  OpenStep step_;
  std::map<Step, Nanos> saving_;  ///< since when, by the step that goes on from it
  std::optional<bool> halted_;    ///< newest answer
  OperatorDesk desk_;
  Nanos open_anew_at_ = kNever;  ///< connections, with renewed certificates
  RunEnd end_{scenario_.run().steps()};
  Memory memory_;
  std::optional<Resumption> resumed_;  ///< the checkpoint that the run goes on from
};

/// Maker for serve_run("live", ...).
std::unique_ptr<RunBackend> make_live_backend(const RunRequest& request, const Cluster& cluster,
                                              const ProgressSink& progress,
                                              Supervision& supervision);

}  // namespace orrery::live
