// Training jobs that share links, and the step times of each job beside the others. Jobs that share
// links, directly or through other jobs, form a group and are simulated together
// (sim/estimates/step/side_by_side), each from the begin of its next step on; groups of steady jobs
// without an engine, by their flows (sim/estimates/step/joint_run). The resulting step times are
// valid until a job of the group changes, begins or ends. A job without shared links keeps its own
// step time. Owned by the world, called by its jobs; one thread. Nanoseconds of the
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
#include <tuple>
#include <vector>

#include "core/ids.hpp"
#include "sim/estimates/step/joint_flows.hpp"
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
    /// If all jobs of a group are steady, their steps begin together, and the result is cached;
    /// their steps beside the group have a duration and nothing else.
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

  /// Returns the number of groups of steady jobs whose steps are cached.
  std::size_t known_groups() const { return known_.size(); }
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
  /// Groups in the cache, bytes of their texts, and points of all cached flows.
  static constexpr std::size_t kMostKnown = 4096, kMostBytes = 32 << 20, kMostPoints = 1 << 20;
  /// Step of a steady job without a run, with the flows of its plan.
  struct Steady {
    std::shared_ptr<estimates::Stepper> stepper;  ///< stays alive, as the key
    std::shared_ptr<const estimates::SimulatedStep> step;
    estimates::FlowGraph flows;
  };
  /// Stepper, micro-batches and pinned links.
  using SteadyKey =
      std::tuple<const estimates::Stepper*, std::vector<std::uint32_t>, std::vector<LinkId>>;

  /// Replaces the steps of a group.
  void replace_steps(const std::vector<JobId>& group, Nanos now);
  /// Replaces the steps of a group of steady jobs.
  void replace_steady_steps(const std::vector<JobId>& group);
  /// Returns the links of each job of a group that another one crosses, too.
  std::vector<std::vector<LinkId>> shared_links(const std::vector<JobId>& group) const;
  /// Returns the planned steps of a group; links that several of its jobs cross are pinned.
  Steps plan_steps(const std::vector<JobId>& group) const;
  /// Returns the jobs of a group for a joint simulation from `now` on; `steps` must outlive them.
  std::vector<estimates::JobBeside> jobs_beside(const std::vector<JobId>& group, const Steps& steps,
                                                Nanos now) const;
  /// Returns the flows of a steady job whose given links are pinned, from the cache if known.
  std::shared_ptr<const Steady> steady(const Work& work, const std::vector<LinkId>& shared);
  /// Returns the mean steps of the lanes of a group, from the cache if known.
  const std::vector<double>& known_means(const estimates::FlowGroup& group);

  std::map<JobId, Entry> entries_;
  /// Only for lookup: the order of pointers is not deterministic.
  std::map<SteadyKey, std::shared_ptr<const Steady>> steadies_;
  std::map<std::string, std::vector<double>> known_;  ///< mean steps, by FlowGroup::text
  std::size_t known_bytes_ = 0, steady_points_ = 0;   ///< sizes of both caches
  std::uint64_t changes_ = 0;                         ///< number of changes of groups
};

}  // namespace orrery::sim
