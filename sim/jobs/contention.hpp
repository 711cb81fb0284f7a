// Training jobs that share links, and their step times beside one another. Jobs that share links,
// directly or through others, are simulated together (sim/estimates/step/side_by_side) from the
// current position of each; the resulting step times are valid until one of the jobs changes,
// begins or ends. A job without shared links has its own step times. Owned by the world, called by
// its jobs; one thread. Nanoseconds of the policy clock. Limits: a current step ends as it began;
// jobs take the mean of their common steps, independently of the phases of their steps; traces and
// recorded jobs share links with no job.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/ids.hpp"
#include "sim/estimates/step/stepper.hpp"

namespace orrery::sim {

/// Groups of jobs that share links.
class Contention {
 public:
  /// Steps of one job from now on.
  struct Work {
    std::shared_ptr<estimates::Stepper> stepper;
    estimates::HardwareState state;
    std::vector<std::uint32_t> micro_batches;
    std::optional<std::vector<LinkId>> links = {};  ///< links of its flows, where known
    /// True if the stepper never changes and no begin of a step is reported; the step times of a
    /// group of such jobs, all beginning together, are cached.
    bool steady = false;
  };
  /// Adds a job, or replaces its work.
  void enter_job(JobId job, Work work);
  /// Removes a job that stalls or is over.
  void remove_job(JobId job);
  /// Sets the earliest begin of the job's next step.
  void next_step(JobId job, Nanos at);

  /// Returns a number that changes when the group of the job, or the work of a member, changes.
  std::uint64_t company(JobId job) const;
  /// Returns the step of the job beside its group, at `now`, when it begins; null if it shares no
  /// links.
  std::shared_ptr<const estimates::SimulatedStep> step(JobId job, Nanos now);

 private:
  struct Entry {
    Work work;
    /// links of its flows; computed when other jobs exist
    std::optional<std::vector<LinkId>> links;
    Nanos next = 0;
    std::uint64_t company = 0;
    /// Step within the current group; null: not simulated yet.
    std::shared_ptr<const estimates::SimulatedStep> beside;
  };
  /// Returns the jobs that share links with `job`, directly or through others, including itself;
  /// ascending.
  std::vector<JobId> group_of(JobId job) const;
  void find_links();
  void mark_changed(const std::vector<JobId>& group);
  /// Steps of a group, in its order.
  using Steps = std::vector<std::shared_ptr<const estimates::SimulatedStep>>;
  /// Cached steps by stepper; the entry keeps the steppers alive.
  struct Known {
    std::vector<std::shared_ptr<estimates::Stepper>> steppers;
    Steps steps;
  };
  static constexpr std::size_t kMostKnown = 1024;

  void replace_steps(const std::vector<JobId>& group, Nanos now);
  Steps simulate_group(const std::vector<JobId>& group, Nanos now) const;

  std::map<JobId, Entry> entries_;
  std::map<std::vector<const estimates::Stepper*>, Known> known_;  ///< steps of steady jobs
  std::uint64_t changes_ = 0;
};

}  // namespace orrery::sim
