// Which training jobs of a world meet on links, and what their steps take beside one another. Jobs
// that meet, directly or through others, are simulated together (sim/estimates/step/side_by_side)
// from where each stands in its step; what they take then holds until one of them changes, begins
// or ends. What a job takes that meets nobody is its own affair. Owned by the world, told by its
// jobs; one thread. Nanoseconds of the policy clock.
//
// Limits: a step under way ends as it began; jobs take the mean of their common steps, whatever the
// phase of one step against another; traces and recorded jobs meet nobody.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/ids.hpp"
#include "sim/estimates/step/stepper.hpp"

namespace orrery::sim {

class Contention {
 public:
  /// What a job's steps are like from now on.
  struct Work {
    std::shared_ptr<estimates::Stepper> stepper;
    estimates::HardwareState state;
    std::vector<std::uint32_t> micro_batches;
    std::optional<std::vector<LinkId>> links = {};  ///< that its flows cross, where they are known
    /// Nothing of the stepper will ever be set, and nobody tells when its steps begin: what a
    /// company of such jobs takes, all beginning together, is remembered.
    bool steady = false;
  };
  void enter(JobId job, Work work);
  /// It stands still, or is over.
  void leave(JobId job);
  /// Its next step begins then at the earliest.
  void next_step(JobId job, Nanos at);

  /// Changes when those that it meets do, or what they do.
  std::uint64_t company(JobId job) const;
  /// Its step beside those that it meets, at `now`, when it begins one; null: it meets nobody.
  std::shared_ptr<const estimates::SimulatedStep> step(JobId job, Nanos now);

 private:
  struct Entry {
    Work work;
    std::optional<std::vector<LinkId>> links;  ///< that its flows cross; found where it has others
    Nanos next = 0;
    std::uint64_t company = 0;
    /// Of this company; null: not simulated yet.
    std::shared_ptr<const estimates::SimulatedStep> beside;
  };
  /// Those that meet `job`, directly or through others, and itself; ascending.
  std::vector<JobId> group_of(JobId job) const;
  void find_links();
  void changed(const std::vector<JobId>& group);
  /// Of a group, in its order.
  using Steps = std::vector<std::shared_ptr<const estimates::SimulatedStep>>;
  /// By stepper, which the value keeps.
  struct Known {
    std::vector<std::shared_ptr<estimates::Stepper>> steppers;
    Steps steps;
  };
  static constexpr std::size_t kMostKnown = 1024;

  void take_steps(const std::vector<JobId>& group, Nanos now);
  Steps simulate(const std::vector<JobId>& group, Nanos now) const;

  std::map<JobId, Entry> entries_;
  std::map<std::vector<const estimates::Stepper*>, Known> known_;  ///< of steady jobs
  std::uint64_t changes_ = 0;
};

}  // namespace orrery::sim
