// The simulator as a backend: a training job on a simulated cluster, observed and steered over the
// same seam as a real one. The policy clock is the simulated time; steps that nobody watches and
// that cannot differ are advanced at once. Made by orrery-sim, one per process; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policies/compression/codec_uses.hpp"
#include "policies/worker.hpp"
#include "policies/world.hpp"
#include "sim/accounts.hpp"
#include "sim/hardware_state.hpp"
#include "sim/stepper.hpp"
#include "sim/telemetry.hpp"
#include "traces/run.pb.h"
#include "traces/step_graph.hpp"

namespace orrery {

class SimTimeline;

class SimBackend : public RunBackend {
 public:
  /// Throws bad_input if the job does not fit the cluster or the memory of its GPUs.
  SimBackend(const RunRequest& request, const Cluster& cluster, ProgressSink progress);
  ~SimBackend() override;

  Capabilities capabilities() const override;
  const Cluster& cluster() const override { return cluster_; }
  void begin(const Needs& needs) override;
  std::optional<Observation> next() override;
  void apply(std::span<const Decision> decisions, bool at_rest) override;
  void fill(Report& report) override;

 private:
  /// What decides how a step goes, apart from noise.
  struct Circumstances {
    HardwareState state;
    std::vector<std::uint32_t> per_replica;
    CollectiveTable collectives;
    std::vector<CodecRule> codecs;
    friend bool operator==(const Circumstances&, const Circumstances&) = default;
  };

  void submit();
  void advance();
  bool resting() const;
  Step next_boundary() const;
  std::optional<Nanos> next_interruption() const;
  const std::vector<std::uint32_t>& per_replica() const;

  void enter_circumstances();
  bool skip_ahead();
  std::uint64_t steps_until(Step boundary, const SimulatedStep& each, Nanos limit, Nanos* last);
  void commit(const SimulatedStep& each, Nanos duration, std::uint64_t count,
              const std::vector<double>& stretch);
  std::uint32_t replicas_there();
  void open_step();
  std::vector<Stepper::Change> changes_within(Nanos duration) const;
  Nanos length_of(const SimulatedStep& step, const std::vector<double>& stretch) const;
  std::shared_ptr<const SimulatedStep> simulate_step(const std::vector<double>& stretch);
  void tell_links(Nanos at);
  void pass_ticks();
  Nanos next_stop() const;
  void pass_instants(Nanos now);
  void close_step();
  void step_done(Nanos duration, bool tell);
  void die(const PlayedStep& played);
  void survive(const FatalFault& fatal, const PlayedStep& played);
  void note_losses();
  void readmit();
  void show_slices(const SimulatedStep& step);
  void sample_exchange();

  Observation observe();
  void decide(const Decision& decision);
  DecisionOutcome outcome_of(const Decision& decision) const;

  const RunRequest request_;
  const Cluster& cluster_;
  ProgressSink progress_;
  StepGraph graph_;
  std::vector<GpuId> placement_;  ///< by rank
  World world_;
  FaultPlan faults_;
  Stepper stepper_;
  Telemetry telemetry_;
  Accounts accounts_;
  CodecUses codes_;
  std::unique_ptr<SimTimeline> timeline_;  ///< null without one

  Needs needs_;
  bool at_rest_ = false;    ///< the policy's last word
  bool submitted_ = false;
  bool over_ = false;
  bool watched_ = false;    ///< a whole step has been shown under these circumstances
  Nanos now_ = 0;
  Nanos last_commit_ = 0;
  double last_exchange_ = 0;  ///< of the last committed step, beyond its computation
  Nanos next_tick_ = kNever;
  Step step_ = 0;           ///< being worked on
  std::uint64_t calls_ = 0;
  std::optional<Circumstances> circumstances_;
  std::optional<PlayedStep> open_;
  std::set<Nanos> wakes_;
  std::set<Step> effects_;  ///< steps from which announced decisions hold
  std::vector<Decision> held_;  ///< wait for the end of the step
  std::vector<std::pair<Nanos, Event>> within_;  ///< events to come in the open step
  std::set<std::uint32_t> down_;  ///< links that have been, or will be, told to be down
  struct Loss {
    std::uint32_t rank = 0;
    Nanos at = 0;
    FailureReport report;
  };
  std::vector<Loss> failures_;
  Nanos resume_at_ = 0;  ///< no step is open before: the ranks regroup
  std::map<std::uint32_t, Nanos> undecided_;  ///< lost ranks that no policy has spoken of: since
  std::map<std::uint32_t, Nanos> back_at_;    ///< replacements, by rank
  std::uint64_t epoch_ = 1, counted_in_ = 0;
  std::uint32_t replicas_ = 0;  ///< that share their gradients, in the epoch of counted_in_

  // The observation under way.
  std::vector<Event> events_;
  std::vector<DeviceSample> devices_;
  std::vector<LinkSample> links_;
  std::vector<RankSample> ranks_;
  std::vector<CollectiveSample> collectives_;
};

}  // namespace orrery
