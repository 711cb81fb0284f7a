// One possible future of a queue of jobs: starts from a snapshot and gives every job a duration.
// The policy decides as in any other world. Used by sim/forecast/queue_forecast. One thread;
// nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "policies/seam/backend.hpp"
#include "policies/seam/gate.hpp"
#include "sim/forecast/queue_snapshot.hpp"

namespace orrery::sim {

/// Job that arrives after the snapshot; `spec.id` is set at the arrival.
struct LaterJob {
  JobSpec spec;
  Nanos duration = 0;     ///< kNever: the job keeps its GPUs
  Nanos seen = -1;        ///< instant of the arrival; -1: that of the submission
  Nanos leaves = kNever;  ///< instant at which the job ends, whether it runs or waits

  /// Returns the instant of the arrival.
  Nanos arrival() const { return seen < 0 ? spec.submit : seen; }
};

/// Changes of parts after the snapshot, in order of their instants.
struct LaterChanges {
  std::vector<std::pair<Nanos, PartChanged>> parts;
  bool stop_jobs = false;  ///< true: the loss of a part stops the jobs on its GPUs, which wait then
};

/// Course of one job in a future.
struct ForkedJob {
  Nanos left = 0;  ///< rest of its duration
  Nanos start =
      kNever;  ///< first start after the snapshot; of a running job the snapshot's instant
  Nanos end = kNever;
  Nanos waited = 0;  ///< time in the queue since the snapshot
  Nanos since = 0;   ///< newest start or stop
  bool is_running = false;
  std::uint32_t moves = 0;  ///< number of starts and stops
};

/// Events of the first observation of a future. `all`: the submission of each job of the snapshot.
/// `one`: that of the first job only, which makes a pass due, for a policy that reads the table of
/// jobs (resumed_policy()): saves a copy of each job.
enum class FirstEvents : std::uint8_t { all, one };

/// Backend of one future, which ends at `until`, or when all jobs are over. Times of jobs that have
/// not started or ended by then are kNever.
class ForkedQueue : public Backend, private Carrier {
 public:
  /// `left`: rest of the duration of each job of the snapshot, > 0; kNever: the job keeps its GPUs.
  /// `later`: in order of arrival. The snapshot and `later` must outlive this object. Throws as
  /// refuse_variable().
  ForkedQueue(const QueueSnapshot& from, const std::vector<Nanos>& left,
              std::span<const LaterJob> later, Nanos until, LaterChanges changes = {},
              FirstEvents first = FirstEvents::all);
  /// Constructs the same from `world`, which must be a copy of the snapshot's world.
  ForkedQueue(World world, const QueueSnapshot& from, const std::vector<Nanos>& left,
              std::span<const LaterJob> later, Nanos until, LaterChanges changes,
              FirstEvents first);

  Capabilities capabilities() const override { return {Kinds<Action>::of<Assign>(), {}}; }
  const Cluster& cluster() const override { return world_.cluster(); }
  void begin(const Needs&) override {}
  /// Returns first the snapshot with its FirstEvents, then each later instant with an end, a change
  /// of a part, an arrival or a wake-up.
  std::optional<Observation> next() override;
  void apply(const DecisionList& decisions) override;

  /// Returns the courses: jobs of the snapshot, then later jobs that have arrived. Waiting times
  /// are complete after next() has returned nothing.
  const std::vector<ForkedJob>& jobs() const { return jobs_; }
  /// Returns the world, for its memory: assigning another world needs less time than copying it.
  /// This object may only be destroyed then.
  World release_world() { return std::move(world_); }

 private:
  // Carrier
  std::string refusal(const Decision& decision) const override;
  bool is_step_open(JobId) const override { return false; }
  void emit_event(Event event) override;
  void carry_out(const Decision& decision) override;

  /// Expected end of a run; void if the job has moved since. `move` kAnyMove: never void.
  struct End {
    Nanos at = 0;
    std::uint32_t job = 0, move = 0;
    friend auto operator<=>(const End&, const End&) = default;
  };
  static constexpr std::uint32_t kAnyMove = ~0u;

  void show_event(Event event);
  void carry_out_at_once(const Decision& decision);
  void expect_end(std::uint32_t id);
  void end_jobs();
  std::vector<std::uint32_t> change_parts();
  void stop_job(std::uint32_t id);
  void submit_jobs();
  bool advance_clock();
  void close_waits();

  World world_;
  DecisionGate gate_;
  NoSamples samples_;
  const std::span<const LaterJob> later_;
  const LaterChanges changes_;
  const Nanos until_;
  std::size_t arrived_ = 0;  ///< number of later jobs that have arrived
  std::size_t changed_ = 0;  ///< number of changes of parts so far
  std::vector<ForkedJob> jobs_;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  Nanos now_;
  std::uint64_t calls_ = 0;
  std::vector<Event> events_, shown_;
};

}  // namespace orrery::sim
