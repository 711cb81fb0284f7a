// Backend for real processes: this controller and one agent per rank.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "live/run/files/unhurried_log.hpp"
#include "live/run/observations/policy_ticks.hpp"
#include "live/run/processes/supervision.hpp"
#include "live/run/run_parts.hpp"
#include "live/run/step_driver.hpp"
#include "policies/run/worker.hpp"

namespace orrery::live {

/// Backend of a live run. Shows events to the policies as observations and hands their decisions to
/// the step driver, which drives the ranks. Every state that a successor needs is written to the
/// journal first: the successor replays the observations to its policies and continues. Called by
/// the thread that runs drive(). The policy clock starts with the first step.
class LiveBackend : public RunBackend, public PacedRun, public OperatedRun, public SurvivableRun {
 public:
  /// Checks the request and opens the journal; starts no process. `request.scenario` must be
  /// resolved. `cluster` and `supervision` must outlive this object. Throws the errors of RunParts,
  /// and bad_input if the cluster has fewer GPUs than the job has ranks. Discards the journal if
  /// policies decide in another process or need approvals: their decisions cannot be replayed.
  LiveBackend(const RunRequest& request, const Cluster& cluster, ProgressSink progress,
              Supervision& supervision);
  ~LiveBackend() override;

  /// Returns all actions and all settings; StepDriver::refusal() refuses those that the fabric
  /// lacks.
  Capabilities capabilities() const override;
  const Cluster& cluster() const override { return cluster_; }
  /// Opens the checkpoint folder, publishes the first status, starts the ranks and blocks until
  /// they are linked, or continues with those of an earlier controller, and loads the policies and
  /// the recorder from the journal's snapshot, if it has one. Call once; remember_by() and
  /// watch_policies(), if used, come before. Throws as RunCheckpoints::open() and StepDriver; an
  /// internal Error if the journal begins with a snapshot and remember_by() was not called.
  void begin(const Needs& needs) override;
  /// Returns the observations in the journal first, without their waits. A new run first shows the
  /// job's submission and start. The next call starts the policy clock and the steps, from the
  /// state in the journal. Later calls block for an event of the ranks, the operator or a timer,
  /// apply the operator's orders, publish the status, rewrite the journal if due, and drive the
  /// steps. At the end of a complete run, collects the parameter hashes and returns a last
  /// observation with JobDone; then, or at once after an incomplete run, returns nothing. Call only
  /// after begin(), and apply() between two calls. Throws as StepDriver::await_events() and
  /// finish_run(), bad_input for a record of the journal that cannot be read, and an environment
  /// Error if paced ranks of this machine kept too many of its cores busy.
  std::optional<Observation> next() override;
  /// Behaves as PacedRun::advance_run(); throws as next(). Call only after begin().
  bool advance_run() override;
  /// As OperatedRun::attend_operator(). Returns true also if the end was ordered earlier. Call only
  /// after begin().
  bool attend_operator() override;
  void watch_policies(const PolicyMeter& meter) override { policy_meter_ = &meter; }
  /// As SurvivableRun::given_up(); empty after the replay.
  std::string given_up() override;
  /// Writes the decisions to the journal and carries them out through the step driver, and stores
  /// whether the policies need no ticks. During the replay compares them with the recorded answer,
  /// which an earlier controller has carried out, and warns of the first difference; a new answer
  /// to the last observation is written, and carried out after the replay. Call once after each
  /// next(). Throws an internal Error for an id of a decision without an outcome, and as
  /// StepDriver::carry_out().
  void apply(const DecisionList& decisions) override;
  /// Writes the metrics of the run into the report; appends warnings, losses and steps. Call once,
  /// after begin().
  void fill(Report& report) override;
  /// Returns `now`, and writes a changed state to the journal; during the replay returns the state
  /// that the journal holds.
  bool is_halted(bool now) override;
  /// Warns the operator, and returns true: a live run always continues without its log.
  bool can_continue_without_log(const std::string& why) override;
  /// Returns an UnhurriedLog around `plain`.
  std::unique_ptr<LogFile> log_file(std::unique_ptr<LogFile> plain) override;
  /// Adds the question to the status for the operator, see OperatorDesk::add_question().
  void on_approval_request(const Decision& decision) override {
    run_.desk.add_question(decision, run_.clock.now());
  }
  /// Returns the id after the highest one of the decisions that the journal has shown so far.
  DecisionId decided_before() const override { return run_.replay.decided_before(); }
  /// Returns the operator's answers since the last call, which next() has read.
  std::vector<Verdict> verdicts() override { return run_.desk.take_verdicts(); }
  /// Stores the functions; without this call the journal is never rewritten by a snapshot, and
  /// begin() throws for a journal that begins with one.
  void remember_by(Memory memory) override { memory_ = std::move(memory); }

 private:
  /// Stage of the run.
  enum class Stage : std::uint8_t { starting, training, ended };

  /// Returns the assignment of all ranks.
  Assignment assignment() const;
  /// Submits the job and returns the first observation.
  Observation submit_job();
  /// Returns an observation of the pending events.
  Observation observe() { return run_.observations.next_observation(run_.failures.take_changed()); }
  /// Returns true if no policy has seen the job of this run, also of an earlier controller.
  bool is_new() const { return run_.journal.state().sequence == 0; }
  /// Starts the policy clock and the steps, from the state in the journal.
  void start_training();
  /// Returns true while steps are trained.
  bool is_training() const { return stage_ == Stage::training && !driver_->is_over(); }
  /// Waits for an event of the ranks, the operator or a timer, and handles it.
  void wait_for_something();
  /// Handles the operator's orders.
  void apply_orders();
  /// Returns the status for the operator.
  RunStatus status() const;
  /// Ends the run. Returns the last observation; nothing if the run is over or unfinished.
  std::optional<Observation> finish_run();

  /// Compares the answer to a replayed observation with the recorded one, and warns of the first
  /// difference. Writes wake-up times that are still to come and that no record has.
  void compare_answer(const DecisionList& decisions);
  /// Replaces the journal by a snapshot if due and possible.
  void begin_journal_anew();
  /// Warns that no successor can take over any more.
  void journal_is_gone(const std::string& why);

  const Cluster& cluster_;
  Supervision& supervision_;
  RunParts run_;
  PolicyTicks ticks_;
  Stage stage_ = Stage::starting;
  Needs needs_;
  std::shared_ptr<const LogProgress> log_progress_;  ///< Null without a log.
  const PolicyMeter* policy_meter_ = nullptr;
  Memory memory_;
  std::unique_ptr<StepDriver> driver_;  ///< Step driver; null before begin().
};

/// Returns the backend for serve_run("live", ...). Throws as the constructor of LiveBackend;
/// `cluster` and `supervision` must outlive the backend.
std::unique_ptr<RunBackend> make_live_backend(const RunRequest& request, const Cluster& cluster,
                                              const ProgressSink& progress,
                                              Supervision& supervision);

}  // namespace orrery::live
