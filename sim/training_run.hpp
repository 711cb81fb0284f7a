// One training job of a simulated world: what its steps do, what its faults do to it, where it
// stands. Steps that nobody watches and that cannot differ are advanced at once. The backend owns
// the clock and asks for the next instant at which something happens; what has happened is told it
// as events. One thread. The policy clock is in nanoseconds.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policies/compression/codec_uses.hpp"
#include "policies/run/worker.hpp"
#include "policies/seam/gate.hpp"
#include "sim/accounts.hpp"
#include "sim/fitted_job.hpp"
#include "sim/hardware_state.hpp"
#include "sim/sim_timeline.hpp"
#include "traces/run.pb.h"

namespace orrery {

class TrainingRun {
 public:
  /// Steps are skipped up to `limit`, an instant at which somebody else may decide something.
  struct Watch {
    bool resting = false;    ///< the policies, by their last word
    bool reads = true;       ///< they look at telemetry, or want ticks
    Nanos limit = kNever;
  };
  using Happen = std::function<void(Event)>;

  /// Throws bad_input if the job does not fit the cluster or the memory of its GPUs.
  TrainingRun(const RunRequest& request, const Cluster& cluster, const World& world,
              DecisionGate& gate, Happen happen, ProgressSink progress);
  ~TrainingRun();

  /// What is submitted, and where the scenario puts it.
  JobSpec spec(const Needs& needs) const;
  Standing home() const;

  /// At `now`: what waits between two steps comes true, and the next step begins if it can.
  void begin(Nanos now, const Watch& watch);
  /// The next instant at which something happens here; kNever: never.
  Nanos next_stop() const;
  /// What happens at `now`, next_stop().
  void pass(Nanos now, const Watch& watch);
  /// Steps that were not told yet, before anything else is.
  void tell_steps();

  bool step_open() const { return open_.has_value(); }
  /// A step is under way, and the policies may want to look at it.
  bool watched(const Watch& watch) const { return open_ && !rests(watch); }
  bool over() const { return over_; }
  Nanos now() const { return now_; }
  /// What stands against a decision here; empty: nothing.
  std::string refusal(const Decision& decision) const;
  void carry_out(const Decision& decision, Nanos now);

  /// Telemetry; empty before the first step.
  void ranks(Nanos now, std::vector<RankSample>& out) const;
  void devices(Nanos now, std::vector<DeviceSample>& out) const;
  void links(Nanos now, std::vector<LinkSample>& out) const;
  void collectives(std::vector<CollectiveSample>& out) const;

  void fill(Report& report, Nanos now);

 private:
  /// What decides how a step goes, apart from noise.
  struct Circumstances {
    HardwareState state;
    std::vector<std::uint32_t> shares;  ///< of the replicas that work
    CollectiveTable collectives;
    CodecRules codecs;
    friend bool operator==(const Circumstances&, const Circumstances&) = default;
  };
  /// An assignment that has not come true yet.
  struct Transition {
    Standing where;
    StateFrom state{};
    Nanos ready = 0;
  };
  struct Loss {
    std::vector<std::uint32_t> ranks;
    Nanos at = 0;
    FailureReport report;
  };
  struct Saving {
    SaveDone done;
    Nanos at = 0;
  };

  const JobInfo& job() const { return world_.jobs()[kJob]; }
  const Scenario& scenario() const { return request_.scenario(); }
  std::shared_ptr<FittedJob> fitted(const Standing& where, std::vector<std::uint32_t> ranks);
  void refit();

  // Steps (training_run.cpp).
  bool rests(const Watch& watch) const;
  Step next_boundary() const;
  Nanos next_interruption(const Watch& watch) const;
  void enter_circumstances();
  bool skip_ahead(const Watch& watch);
  std::uint64_t steps_until(Step boundary, const SimulatedStep& each, Nanos limit, Nanos* last);
  void commit(const SimulatedStep& each, Nanos duration, std::uint64_t count,
              const std::vector<double>& stretch);
  void open_step();
  std::vector<Stepper::Change> changes_within(Nanos duration) const;
  Nanos length_of(const SimulatedStep& step, const std::vector<double>& stretch) const;
  std::shared_ptr<const SimulatedStep> simulate_step(const std::vector<double>& stretch);
  void close_step(const Watch& watch);
  void steps_done(std::uint64_t count, Nanos duration, bool tell);
  void note_exchange(const SimulatedStep& step, Nanos duration, const std::vector<double>& stretch);
  void save_if_due();
  void tell_due();

  // Losses and standing (training_standing.cpp).
  void tell_parts(Nanos at);
  std::vector<FatalFault> next_losses(Nanos from, Nanos until) const;
  void cut(const PlayedStep& played);
  void lose(std::vector<FatalFault> lost);
  void know_losses(const std::vector<std::size_t>& noticed);
  void give_up_step();
  void come_true();
  void stand_still_until(Nanos at);
  std::optional<RankId> rank_at_home(std::uint32_t home_rank) const;

  static constexpr JobId kJob{0};

  const RunRequest& request_;
  const Cluster& cluster_;
  const World& world_;
  DecisionGate& gate_;
  Happen happen_;
  ProgressSink progress_;
  EngineFactory engine_;
  Stepper::Options options_;
  std::vector<GpuId> home_;  ///< by rank, as the run began
  std::shared_ptr<FittedJob> begun_;  ///< as the run began
  std::shared_ptr<FittedJob> fit_;    ///< as it stands
  std::vector<std::shared_ptr<FittedJob>> fits_;  ///< other standings, newest first
  mutable FaultPlan faults_;  ///< remembers what can strike nobody any more
  Accounts accounts_;
  CodecUses codes_;
  std::unique_ptr<SimTimeline> timeline_;  ///< null without one

  Nanos now_ = 0, last_commit_ = 0;
  Step step_ = 0;       ///< being worked on
  bool over_ = false;
  bool watched_ = false;  ///< a whole step has been shown under these circumstances
  std::optional<Circumstances> circumstances_;
  std::optional<PlayedStep> open_;
  struct {
    std::uint64_t count = 0;
    Nanos duration = 0;
  } untold_;
  std::vector<std::pair<Nanos, Event>> later_;  ///< parts that change, saves that become durable
  std::set<Part> lost_parts_;  ///< that have been, or will be, told
  std::vector<Loss> losses_;
  std::vector<std::pair<Nanos, std::size_t>> unknown_;  ///< when who is left notices, which loss
  Nanos resume_at_ = 0;  ///< no step is open before: the ranks regroup
  std::optional<Transition> transition_;
  std::optional<Saving> saving_;
  bool save_asked_ = false, saves_ = false;  ///< after the next step; after the one under way
  std::vector<CollectiveSample> exchange_;  ///< of the newest committed step
  std::uint64_t simulated_before_ = 0;      ///< by fits that are gone
  std::uint32_t most_classes_ = 0;
};

}  // namespace orrery
