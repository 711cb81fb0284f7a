// Job of a user's program in the world of the policies: its events, from the submission to the end.
// GPU g is the place of rank g of the program, so the job's GPUs tell which ranks of the program
// its ranks are. Used by program_backend. One thread; instants of the policy clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "policies/seam/world.hpp"

namespace orrery::live {

/// World with one job, and the events that were not shown yet.
class ProgramJob {
 public:
  /// `now` returns the present instant; `cluster` must outlive this object.
  ProgramJob(const Cluster& cluster, std::function<Nanos()> now)
      : world_(cluster), now_(std::move(now)) {}

  World& world() { return world_; }
  const World& world() const { return world_; }
  /// Returns the job. Call after submit_job() and before the job leaves the world.
  const JobInfo& job() const { return world_.jobs()[kJob]; }
  /// Returns true from submit_job() to end_job().
  bool is_alive() const;
  /// Returns the ranks of the program by rank of the job, each with true if the rank is not lost.
  std::vector<std::pair<std::size_t, bool>> ranks() const;

  /// Applies an event and adds it to the next observation.
  void emit_event(Event event);
  bool has_events() const { return !events_.empty(); }
  /// Returns the events since the last call.
  std::vector<Event> drain_events() { return std::exchange(events_, {}); }

  /// Continues with the world of an earlier process, which has the job.
  void set_world(const World& world) { world_ = world; }
  /// Submits and starts the job with all of its GPUs, at step `from`.
  void submit_job(JobSpec spec, Step from);
  /// Starts the job on these ranks of the program, ascending.
  void start_job(const std::vector<std::size_t>& ranks, Step from);
  /// Reports the loss of ranks of the program. Ignores those that the job has lost or never had.
  void lose_ranks(const std::vector<std::size_t>& ranks);
  /// Reports the ranks of the program without a recent heartbeat, if they are others than before.
  void suspect_ranks(const std::vector<std::size_t>& ranks);
  /// Reports that `steps` steps are done, which took `duration_s` together since the last report;
  /// then the snapshots of these steps. Returns false if no step is new or the job does not train.
  bool complete_steps(std::uint64_t steps, double duration_s);
  /// Reports a snapshot, once its step is done. `is_durable`: false if it failed.
  void record_save(Step step, double stalled_s, bool is_durable);
  /// Sets the tier that the snapshots after step `step` are reported with.
  void set_tier(Tier tier) { tier_ = tier; }
  /// Ends the job.
  void end_job(Ending how) { emit_event(JobDone{kJob, how}); }

  static constexpr JobId kJob{0};

 private:
  std::vector<RankId> job_ranks(const std::vector<std::size_t>& ranks) const;
  void show_saves();

  World world_;
  const std::function<Nanos()> now_;
  Tier tier_ = Tier::local_disk;
  std::multimap<Step, SaveDone> saves_;  ///< snapshots of steps that are not done
  std::vector<Event> events_;
};

}  // namespace orrery::live
