// Checkpoint interval from the observed failures and costs, by Young's formula: interval = sqrt(2 *
// cost of a checkpoint * mean time between failures) (J. W. Young, "A first order approximation to
// the optimum checkpoint interval", 1974). The cost is the stall of the newest durable checkpoint,
// the mean time between failures follows from the observed losses. For example, a stall of 2 s and
// a failure an hour give an interval of 120 s. adaptive_checkpoints.py makes the same decisions.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "policies/seam/policy.hpp"

namespace orrery::example {

/// Policy that adapts the checkpoint interval to observed failures and costs. One thread.
class AdaptiveCheckpoints : public Policy {
 public:
  /// `mtbf_s`: assumed mean time between failures, with the weight of one observed failure.
  explicit AdaptiveCheckpoints(double mtbf_s) : mtbf_s_(mtbf_s) {}

  Needs needs() const override {
    return {.actions = Kinds<Action>::of<Configure>(),
            .settings = Kinds<Setting>::of<CheckpointPlan>()};
  }
  void start(Context&, const Cluster&, const google::protobuf::Message*) override {}

  void observe(Context&, const Observation& seen, DecisionList& decisions) override {
    for (const Event& event : seen.events) {
      if (const auto* done = std::get_if<StepsDone>(&event)) {
        step_s_ = to_seconds(done->duration) / static_cast<double>(done->count);
      } else if (const auto* saved = std::get_if<SaveDone>(&event)) {
        if (saved->durable) stall_s_ = to_seconds(saved->stalled);
        plan(seen, saved->job, decisions);
      } else if (const auto* lost = std::get_if<RanksLost>(&event)) {
        ++failures_;
        plan(seen, lost->job, decisions);
      } else if (const auto* started = std::get_if<JobStarted>(&event)) {
        plan(seen, started->job, decisions);
      }
    }
    decisions.rest();
  }

  void save(Archive& archive) const override {
    archive = fmt::format("{} {} {}", failures_, stall_s_.value_or(-1), step_s_);
  }

 private:
  void plan(const Observation& seen, JobId id, DecisionList& decisions) const {
    const JobInfo& job = seen.jobs[id];
    if (job.phase != JobPhase::running) return;
    const double mtbf = (to_seconds(seen.now - job.spec.submit) + mtbf_s_) / (failures_ + 1);
    double every = kFirstEvery;
    std::string why = "to see what a checkpoint costs";
    if (step_s_ > 0 && stall_s_) {
      const double interval = std::sqrt(2 * std::max(*stall_s_, 1e-3) * mtbf);
      every = std::max(1.0, std::nearbyint(interval / step_s_));
      why = fmt::format("a checkpoint costs {:.3g} s, a failure comes every {:.3g} s", *stall_s_,
                        mtbf);
    }
    const auto now = static_cast<double>(job.now.get<CheckpointPlan>().every_steps);
    if (now > 0 && std::abs(every - now) <= kTolerance * now) return;
    const CheckpointPlan wanted{static_cast<std::uint64_t>(every), Tier::local_disk};
    decisions.add(Configure{id, wanted}, std::move(why));
  }

  static constexpr double kFirstEvery = 10;  ///< interval in steps before a cost is known
  static constexpr double kTolerance = 0.2;  ///< relative change below which nothing changes

  double mtbf_s_;
  int failures_ = 0;
  std::optional<double> stall_s_;
  double step_s_ = 0;
};

}  // namespace orrery::example
