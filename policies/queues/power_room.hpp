// Room for waiting jobs within limits of power that a queue policy knows in advance. Kept by
// queue_policy; one thread. Nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <google/protobuf/repeated_ptr_field.h>

#include "policies/seam/policy.hpp"
#include "topologies/power.hpp"
#include "traces/scenario.pb.h"
#include "traces/scenario/power_schedule.hpp"

namespace orrery {

/// Limits of power as numbers of GPUs that may work at full power at once, and the expected ends of
/// the running jobs in one pass of a queue policy.
///
/// For example, 8 H100 may work until 8 o'clock and five from then on. At 7 o'clock, beside a job
/// of four GPUs that is expected to end at 10 o'clock, a job of two GPUs may start if it is
/// expected to end by 8 o'clock, or has one GPU.
class PowerRoom {
 public:
  /// Constructs a room without limits.
  PowerRoom() = default;
  /// Reads the limits of a cluster. Throws bad_input as PowerSchedule(), and for limits of a
  /// cluster whose GPUs have no known power.
  PowerRoom(const google::protobuf::RepeatedPtrField<PowerLimit>& limits, const Cluster& cluster);

  /// Returns true without any limit: all jobs have room.
  bool empty() const { return limits_.windows().empty(); }
  /// Begins a pass. `seen` must outlive the pass. A job has the rest of its estimate before it, and
  /// one that has outlived its estimate runs as long again as it has.
  void begin_pass(const Observation& seen);
  /// Returns true if the job may start now: until its expected end the limits have power for its
  /// GPUs beside those of the running jobs. Jobs with more GPUs than a limit allows are expected to
  /// pause under that limit. Returns true for a job that would run into such a limit whenever it
  /// starts. The first job of a pass that may not start reserves its GPUs within all later limits:
  /// other jobs may start if they leave these GPUs to it. Call within a pass.
  bool admit_job(const JobSpec& job);
  /// Records that the pass starts the job.
  void add_start(const JobSpec& job);
  /// Returns the next instant at which a job that admit_job() has refused in the pass may have
  /// room without an event; nothing if none was refused.
  std::optional<Nanos> retry_time() const;

 private:
  /// Working job with the instant at which its GPUs are expected to be idle.
  struct Run {
    Nanos end = 0;
    std::uint32_t gpus = 0;
  };
  /// Returns the number of GPUs that may work at `at`.
  std::uint32_t most_gpus(Nanos at) const;
  Nanos expected_end(const JobInfo& job) const;
  Nanos time_left(const JobSpec& job) const;
  bool has_room(std::uint32_t gpus, Nanos end) const;
  bool would_fit_alone(std::uint32_t gpus, Nanos takes) const;

  WorkingPower power_;
  PowerSchedule limits_;
  std::uint32_t lowest_ = 0;  ///< GPUs that may work under the lowest limit
  Nanos now_ = 0;
  const JobTable* jobs_ = nullptr;
  std::vector<Run> runs_;
  std::uint32_t reserved_ = 0;  ///< GPUs of the first job that was refused; 0: none was refused
};

}  // namespace orrery
