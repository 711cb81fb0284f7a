// The simulator as a backend: a simulated world with its training job, observed and steered over
// the same seam as a real one. The policy clock is the simulated time: the next instant is the
// earliest of what the job, the policies' ticks and wake-ups ask for. Made by orrery-sim, one per
// process; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "policies/run/worker.hpp"
#include "policies/seam/gate.hpp"
#include "sim/training_run.hpp"
#include "traces/run.pb.h"

namespace orrery {

class SimBackend : public RunBackend, private Carrier {
 public:
  /// Throws bad_input if the job does not fit the cluster or the memory of its GPUs.
  SimBackend(const RunRequest& request, const Cluster& cluster, ProgressSink progress);

  Capabilities capabilities() const override;
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
    void forget();
    bool read() const { return read_; }
    RankSummary summary(JobId job, std::uint32_t latest) override;
    std::span<const RankSample> ranks(JobId job) override;
    std::span<const DeviceSample> devices(JobId job) override;
    std::span<const LinkSample> links(JobId job) override;
    std::span<const CollectiveSample> collectives(JobId job) override;

   private:
    bool has(JobId job);
    SimBackend& of_;
    bool read_ = false;  ///< ever
    std::optional<std::vector<RankSample>> ranks_;
    std::optional<std::vector<DeviceSample>> devices_;
    std::optional<std::vector<LinkSample>> links_;
    std::optional<std::vector<CollectiveSample>> collectives_;
    std::vector<RankSample> slowest_;
  };

  // Carrier
  std::string refusal(const Decision& decision) const override;
  bool step_open(JobId job) const override;
  void happen(Event event) override;
  void carry_out(const Decision& decision) override;

  void submit();
  void go_on();
  void advance();
  Nanos next_stop() const;
  TrainingRun::Watch watch() const;
  void pass_ticks();

  const RunRequest request_;
  World world_;
  DecisionGate gate_;
  Instruments instruments_{*this};
  TrainingRun run_;
  Needs needs_;
  bool at_rest_ = false;  ///< the policies' last word
  bool submitted_ = false;
  std::unique_ptr<Past> past_;  ///< as long as it tells
  std::function<bool()> hand_over_;  ///< when all of it has been told
  Milestones milestones_;
  Nanos now_ = 0, next_tick_ = kNever, end_ = kNever;
  std::uint64_t calls_ = 0;
  std::vector<Event> events_;  ///< since the last observation
  std::vector<Event> shown_;   ///< with it
};

}  // namespace orrery
