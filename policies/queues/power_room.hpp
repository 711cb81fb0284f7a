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
  /// starts. The first job of a pass that may not start reserves its GPUs from its earliest start
  /// on: other jobs may start if they leave these GPUs to it. Call within a pass, for a job for
  /// which enough GPUs are free.
  bool admit_job(const JobSpec& job);
  /// Records that the pass starts the job.
  void add_start(const JobSpec& job);
  /// Returns the next instant at which a job that admit_job() has refused in the pass may have
  /// room without an event; nothing if none was refused.
  std::optional<Nanos> retry_time() const;
  /// Returns the earliest start of a job that admit_job() has refused in the pass: of the first one
  /// by all limits and the expected ends of the running jobs, kNever if none is found; of others
  /// the next begin or end of a limit. Returns nothing for a job that was not refused.
  std::optional<Nanos> expected_start(JobId job) const;

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
  /// Returns true if the limit at `at` has power for so many GPUs.
  bool has_room_at(std::uint32_t gpus, Nanos at) const;
  /// Returns true if the limits have power for so many GPUs from `begin` to `end`.
  bool has_room(std::uint32_t gpus, Nanos begin, Nanos end) const;
  Nanos earliest_start(std::uint32_t gpus, Nanos takes) const;
  bool would_fit_alone(std::uint32_t gpus, Nanos takes) const;

  WorkingPower power_;
  PowerSchedule limits_;
  std::uint32_t lowest_ = 0;  ///< GPUs that may work under the lowest limit
  Nanos now_ = 0;
  const JobTable* jobs_ = nullptr;
  std::vector<Run> runs_;
  std::vector<JobId> refused_;  ///< jobs refused in the pass
  /// GPUs of the first job that was refused, from its earliest start on; 0: none was refused
  std::uint32_t reserved_ = 0;
  Nanos reserved_from_ = kNever;
};

}  // namespace orrery
