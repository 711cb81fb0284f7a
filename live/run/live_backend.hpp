// Real processes behind the seam: one controller (this), one agent a rank. What has happened is
// shown to the policies as observations, what they decide goes to the step driver, which takes the
// ranks from step to step. So that the run outlives its controller, whatever matters is in a
// journal first: another one shows the policies once more what they have seen, and goes on. Called
// by the thread that runs drive(). The policy clock starts with the first step.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "live/run/account/run_account.hpp"
#include "live/run/checkpoints/run_checkpoints.hpp"
#include "live/run/observations/journal_replay.hpp"
#include "live/run/observations/observations.hpp"
#include "live/run/observations/policy_clock.hpp"
#include "live/run/observations/policy_ticks.hpp"
#include "live/run/operator/operator_desk.hpp"
#include "live/run/processes/placement.hpp"
#include "live/run/processes/supervision.hpp"
#include "live/run/step_driver.hpp"
#include "policies/run/worker.hpp"

namespace orrery::live {

class LiveBackend : public RunBackend {
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
  void asked(const Decision& decision) override { desk_.asked(decision, clock_.now()); }
  std::vector<Verdict> verdicts() override { return desk_.take_verdicts(); }
  void remember_by(Memory memory) override { memory_ = std::move(memory); }

 private:
  enum class Stage : std::uint8_t { idle, waiting_for_start, training, ended };

  Assignment assignment() const;
  Observation submit();
  Observation observe() { return observations_.make(failures_.take_changed()); }
  void start_training();
  bool trains() const { return stage_ == Stage::training && !driver_->over(); }
  void wait_for_something();
  void hear_operator();
  RunStatus status() const;
  std::optional<Observation> finish();

  /// What an earlier controller has left, and what is left to another one: see live_resume.cpp.
  void restore();
  Observation replay();
  void resume();
  void begin_journal_anew();
  void journal_is_gone(const std::string& why);

  const RunRequest request_;
  const Cluster& cluster_;
  const Text text_;
  Supervision& supervision_;
  Journal journal_;
  JournalReplay replay_;
  Placement placement_;
  PolicyClock clock_;
  PolicyTicks ticks_;
  RunAccount account_;
  RunCheckpoints checkpoints_;
  FailureRecords failures_;
  Observations observations_;
  OperatorDesk desk_;
  Stage stage_ = Stage::idle;
  Needs needs_;
  bool halted_ = false;  ///< the newest answer
  Memory memory_;
  std::unique_ptr<StepDriver> driver_;  ///< from begin() on
};

/// Maker for serve_run("live", ...).
std::unique_ptr<RunBackend> make_live_backend(const RunRequest& request, const Cluster& cluster,
                                              const ProgressSink& progress,
                                              Supervision& supervision);

}  // namespace orrery::live
