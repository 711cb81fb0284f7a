// Real processes behind the seam: one controller (this), one agent a rank. Every step is planned,
// sent, reported by all ranks and committed; a policy's shift holds from the next plan on. Called
// by the thread that runs drive(). The policy clock starts with the first step.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "live/agent_group.hpp"
#include "live/ledger.hpp"
#include "live/run_statistics.hpp"
#include "live/silence.hpp"
#include "live/telemetry.hpp"
#include "policies/worker.hpp"

namespace orrery::live {

class LiveBackend : public RunBackend {
 public:
  /// `request.scenario` is resolved. Starts nothing yet. Throws bad_input for what live mode
  /// cannot run (another model than the built-in one, a layout other than data parallel, faults
  /// at times or on links), environment for a fabric that this machine does not have.
  LiveBackend(const RunRequest& request, const Cluster& cluster, ProgressSink progress);
  ~LiveBackend() override;

  Capabilities capabilities() const override;
  const Cluster& cluster() const override { return cluster_; }
  void begin(const Needs& needs) override;
  std::optional<Observation> next() override;
  void apply(std::span<const Decision> decisions, bool at_rest) override;
  void fill(Report& report) override;

 private:
  enum class Stage : std::uint8_t { idle, waiting_for_start, training, over, ended };

  Nanos now() const;
  JobSpec job_spec() const;
  Observation submit();
  Observation observe(std::vector<Event> events);
  std::optional<Observation> finish();
  void wait_for_something();
  Clock::time_point next_instant() const;
  void happen(const Event& event);
  void take_in(const Incoming& incoming);
  void take_report(std::uint32_t rank, const StepReport& report);
  void commit();
  void plan_next();
  double speed_of(std::uint32_t rank) const;
  void look_for_the_dead();
  void note_failure(const RankDeath& death, Nanos noticed);
  void notify_progress();
  void check_cores(double cores) const;
  double busy_cores() const;
  /// The rank that ended instead of handing in its parameters, if any.
  std::optional<RankDeath> gather_parameters();

  void answer(std::uint64_t decision, Outcome status, std::string reason);
  void decide(const Decision& decision);

  const RunRequest request_;
  const Scenario& scenario_;
  const Cluster& cluster_;
  const ProgressSink progress_;
  const std::uint32_t ranks_;
  World world_;
  Ledger ledger_;
  RunStatistics statistics_;
  Telemetry telemetry_;
  std::unique_ptr<AgentGroup> agents_;

  Stage stage_ = Stage::idle;
  Clock::time_point start_;
  Nanos tick_period_ = 0, next_tick_ = kNever;
  std::set<Nanos> wakes_;
  std::uint64_t sequence_ = 0;
  std::vector<Event> events_, arriving_;  ///< of the observation; for the next one
  std::vector<std::uint64_t> deferred_;   ///< decisions that hold from the next step on

  Step step_ = 0;  ///< under way, or next to be planned
  bool under_way_ = false;
  std::vector<std::optional<StepReport>> reports_;  ///< of the step under way, by rank
  Silence silence_;
  std::map<std::uint32_t, Nanos> killed_at_;        ///< by a fault
  std::vector<Nanos> cpu_at_start_, cpu_now_;
  std::set<int> injected_;  ///< faults that have come into effect, by index
  std::vector<FailureReport> failures_;
  std::string parameters_sha256_;
  double unigram_entropy_ = 0;
};

/// Maker for serve_run("live", ...).
std::unique_ptr<RunBackend> make_live_backend(const RunRequest& request, const Cluster& cluster,
                                              const ProgressSink& progress);

}  // namespace orrery::live
