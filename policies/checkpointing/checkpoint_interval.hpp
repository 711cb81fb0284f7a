// Checkpoint intervals: a fixed interval, or Young's or Daly's for the cost of a checkpoint and the
// mean time between failures, declared or observed. Sets CheckpointPlan, in whole steps of the
// recent step duration. Called by drive(); one thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/schema/names.hpp"
#include "policies/parameters.pb.h"
#include "policies/seam/policy.hpp"

namespace orrery {

/// Formula of the interval (CheckpointIntervalParameters.method).
enum class IntervalMethod : std::uint8_t { fixed, young, daly, adaptive };
constexpr std::array<std::string_view, 4> names_of(IntervalMethod) {
  return {"fixed", "young", "daly", "adaptive"};
}

/// Policy that sets the checkpoint interval of each job. For example, a cost of 60 s and one
/// failure a day give Young's interval of 3,220 s, which is 322 steps of 10 s.
class CheckpointInterval : public Policy {
 public:
  /// Returns Configure, the setting CheckpointPlan and `step_times`; no tick.
  Needs needs() const override;
  /// `parameters`: CheckpointIntervalParameters, or null for the defaults; absent fields have their
  /// defaults. Throws an internal Error for another message type.
  void start(Context& context, const Cluster& cluster,
             const google::protobuf::Message* parameters) override;
  /// Records step durations, stalls of durable checkpoints and losses. After each such event of a
  /// placed job with a known step duration, decides a CheckpointPlan with the tier local_disk if
  /// none was decided yet or the interval differs by more than 10% from the decided one. Method
  /// `adaptive` also requests a call at the instant at which the interval will differ so much
  /// without further losses, and decides then. Forgets a job that is over. Always rests.
  void observe(Context& context, const Observation& seen, DecisionList& decisions) override;
  /// Writes the observations of all known jobs; replaces the content of the archive.
  void save(Archive& archive) const override;
  /// Replaces the known jobs. Throws an internal Error for bytes that end within a job; bytes that
  /// end between two jobs load as fewer jobs.
  void load(const Archive& archive) override;

 private:
  /// Observations of one job.
  struct Watched {
    Nanos since = 0;  ///< first start
    std::uint64_t failures = 0;
    double step_s = 0;             ///< duration of the newest steps
    std::optional<double> cost_s;  ///< cost of the newest durable checkpoint
    std::uint64_t asked = 0;       ///< requested steps between two checkpoints
    Nanos wake = 0;                ///< instant of the newest requested call; 0: none
  };

  double mtbf_s(const Watched& of, Nanos now) const;
  double interval_s(const Watched& of, Nanos now) const;
  /// Returns the interval in whole steps.
  std::uint64_t steps_of(const Watched& of, Nanos now) const;
  void plan(const Observation& seen, JobId id, DecisionList& decisions);
  /// Requests a call at the instant from which the interval differs from the requested one.
  void wake_for_change(const Observation& seen, Watched& of, DecisionList& decisions) const;

  CheckpointIntervalParameters parameters_;
  IntervalMethod method_ = IntervalMethod::adaptive;
  std::map<JobId, Watched> jobs_;
};

}  // namespace orrery
