// The simulator as a backend: one simulated world with whatever runs in it, observed and steered
// over the same seam as a real one. Training jobs, recorded jobs and execution traces are models
// (sim/world/job_model) on one calendar: the next instant is the earliest of what they, the
// policies' ticks and their wake-ups ask for. Worlds are made by sim/worlds; one thread. The policy
// clock is the simulated time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "policies/run/worker.hpp"
#include "policies/seam/gate.hpp"
#include "sim/world/job_model.hpp"

namespace orrery::sim {

class SimBackend : public RunBackend, private Carrier {
 public:
  /// `offered`: what any of its models carries out.
  SimBackend(const Cluster& cluster, Capabilities offered);

  const World& world() const { return world_; }
  DecisionGate& gate() { return gate_; }
  /// How the model that is added next tells what happens. All are added before begin().
  JobModel::Happen teller();
  void add(std::unique_ptr<JobModel> model) { models_.push_back(std::move(model)); }

  Capabilities capabilities() const override { return offered_; }
  const Cluster& cluster() const override { return world_.cluster(); }
  void begin(const Needs& needs) override;
  std::optional<Observation> next() override;
  void apply(const DecisionList& decisions) override;
  void fill(Report& report) override;
  void branch_at(Nanos at, std::function<GoingOn()> branch) override;
  void go_on_from(std::unique_ptr<Past> past, std::function<bool()> hand_over) override;
  void end_at(Nanos until) override { end_ = until; }

 private:
  /// Drawn when it is asked for, once an observation.
  class Instruments : public Samples {
   public:
    explicit Instruments(SimBackend& of) : of_(of) {}
    void forget() { drawn_.clear(); }
    bool read() const { return read_; }
    RankSummary summary(JobId job, std::uint32_t latest) override;
    std::span<const RankSample> ranks(JobId job) override;
    std::span<const DeviceSample> devices(JobId job) override;
    std::span<const LinkSample> links(JobId job) override;
    std::span<const CollectiveSample> collectives(JobId job) override;

   private:
    struct Drawn {
      std::optional<std::vector<RankSample>> ranks;
      std::optional<std::vector<DeviceSample>> devices;
      std::optional<std::vector<LinkSample>> links;
      std::optional<std::vector<CollectiveSample>> collectives;
      std::vector<RankSample> slowest;
    };
    SimBackend& of_;
    bool read_ = false;  ///< ever
    std::map<JobId, Drawn> drawn_;
  };

  // Carrier
  std::string refusal(const Decision& decision) const override;
  bool step_open(JobId job) const override;
  void happen(Event event) override;
  void carry_out(const Decision& decision) override;

  void go_on();
  /// Null for a job that never was.
  JobModel* model_of(JobId job) const;
  bool over() const;
  void advance();
  void begin_models();
  void pass_models(Nanos stop);
  Nanos next_stop();
  JobModel::Watch watch() const;
  bool watched() const;
  bool as_they_were() const;
  void pass_ticks();

  World world_;
  const Capabilities offered_;
  DecisionGate gate_;
  Instruments instruments_{*this};
  std::vector<std::unique_ptr<JobModel>> models_;
  std::vector<Nanos> stops_;             ///< by model: its next one
  /// From this job on jobs are that model's, up to the next entry's.
  struct Run {
    std::uint32_t job;
    JobModel* model;
  };
  std::vector<Run> runs_;
  Needs needs_;
  bool at_rest_ = false;  ///< the policies' last word
  bool resting_ = false;  ///< it still holds at the instant that is to be shown
  std::unique_ptr<Past> past_;       ///< as long as it tells
  std::function<bool()> hand_over_;  ///< when all of it has been told
  Milestones milestones_;
  Nanos now_ = 0, next_tick_ = kNever, end_ = kNever;
  Nanos branches_at_ = 0;  ///< an instant to come that is reported of; 0: none
  std::uint64_t calls_ = 0;
  std::vector<Event> events_;  ///< since the last observation
  std::vector<Event> shown_;   ///< with it
};

}  // namespace orrery::sim
