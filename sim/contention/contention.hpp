// Training jobs that share links, and the step times of each job beside the others. Jobs that share
// links, directly or through other jobs, form a group and are simulated together
// (sim/estimates/step/side_by_side), each from the begin of its next step on. The resulting step
// times are valid until a job of the group changes, begins or ends. A job without shared links
// keeps its own step time. Owned by the world, called by its jobs; one thread. Nanoseconds of the
// policy clock.
//
// Limits: a step in progress keeps its duration when the group changes; each job gets the mean of
// its simulated steps, whatever the phases of the jobs; execution traces, and recorded jobs without
// simulated speed, share links with no job.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "sim/estimates/step/side_by_side.hpp"
#include "sim/estimates/step/stepper.hpp"

namespace orrery::sim {

/// Groups of jobs that share links, with the step of each job beside its group. For example, of
/// jobs A, B and C, where A shares a link with B and B with C, all three are one group.
class Contention {
 public:
  /// Work of one job: the conditions of its steps from now on.
  struct Work {
    std::shared_ptr<estimates::Stepper> stepper;
    estimates::HardwareState state;
    std::vector<std::uint32_t> micro_batches;  ///< one number for each replica of the step graph
    /// Links of the job's flows, ascending; nothing: computed from the stepper when needed.
    std::optional<std::vector<LinkId>> links = {};
    /// True if the stepper never changes, the state is nominal, and no begin of a step is reported.
    /// If all jobs of a group are steady, their steps begin together, and the result is cached. Of
    /// the step of a steady job beside its group only the duration has a meaning.
    bool steady = false;
  };
  /// Adds a job, or replaces the work of a job. Its next step may begin at once, until next_step().
  /// The company() of the job's groups before and after changes, except of jobs that share no
  /// links, and their steps are simulated anew at the next step(). Computes missing links if
  /// another job exists. All steppers must share one engine. Does not check the numbers of
  /// micro-batches.
  void enter_job(JobId job, Work work);
  /// Removes a job that stalls or is over; the rest of its group changes as in enter_job(). Does
  /// nothing for an unknown job.
  void remove_job(JobId job);
  /// Sets the earliest begin of the job's next step, for later simulations; steps that are
  /// simulated already stay valid. Ignores an unknown job.
  void next_step(JobId job, Nanos at);

  /// Returns a number that changes when the group of the job, or the work of a job in the group,
  /// changes; 0 if the job shares no links or is unknown.
  std::uint64_t company(JobId job) const;
  /// Returns the step of the job, which begins at `now`, beside its group; null if the job shares
  /// no links or is unknown. The first call after a change of the group simulates the steps of all
  /// its jobs, unless cached (Work::steady); later calls return these steps for any `now`. Throws
  /// bad_input if the engine lacks room for the jobs together.
  std::shared_ptr<const estimates::SimulatedStep> step(JobId job, Nanos now);

 private:
  /// Job with its work, links and group.
  struct Entry {
    Work work;
    /// links of the job's flows; computed once another job exists
    std::optional<std::vector<LinkId>> links;
    Nanos next = 0;             ///< earliest begin of the next step
    std::uint64_t company = 0;  ///< version of the group; 0: shares no links
    /// step beside the current group; null: not simulated yet
    std::shared_ptr<const estimates::SimulatedStep> beside;
  };
  /// Returns the jobs that share links with `job`, directly or through other jobs, including `job`;
  /// ascending.
  std::vector<JobId> group_of(JobId job) const;
  /// Sets the links of all jobs whose links are unknown.
  void find_links();
  /// Gives the jobs of a changed group a new version, and discards their steps.
  void mark_changed(const std::vector<JobId>& group);
  /// Steps of the jobs of a group, in the order of the group: first planned, then with their runs.
  using Steps = std::vector<std::unique_ptr<estimates::SimulatedStep>>;
  /// Typical steps of the jobs of a group.
  using Runs = std::vector<estimates::SteadyStep>;
  static constexpr std::size_t kMostKnown = 4096;

  /// Replaces the steps of a group.
  void replace_steps(const std::vector<JobId>& group, Nanos now);
  /// Returns the planned steps of a group; links that several of its jobs cross are pinned.
  Steps plan_steps(const std::vector<JobId>& group) const;
  /// Returns the jobs of a group for a joint simulation from `now` on; `steps` must outlive them.
  std::vector<estimates::JobBeside> jobs_beside(const std::vector<JobId>& group,
                                                const Steps& steps, Nanos now) const;
  /// Returns the typical steps of a group of steady jobs, cached by the pattern of the group.
  Runs known_runs(estimates::Engine& engine, const std::vector<estimates::JobBeside>& jobs);

  std::map<JobId, Entry> entries_;
  /// typical steps of groups of steady jobs, in the order of their pattern, by its text
  std::map<std::string, Runs> known_;
  std::uint64_t changes_ = 0;  ///< number of changes of groups
};

}  // namespace orrery::sim
