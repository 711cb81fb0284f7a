// Placement of a live run's processes: which process is which rank.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "policies/seam/job_lifecycle.hpp"
#include "policies/seam/world.hpp"

namespace orrery::live {

/// Id of the only job of a live run.
inline constexpr JobId kLiveJob{0};

/// Mapping between processes and ranks. A process is identified by its seat, the number of its GPU;
/// rank r of the job is the process on the r-th GPU of the job's placement. For example, on GPUs 0,
/// 2 and 3 the process with seat 2 is rank 1. Also tells which processes are pending or leaving by
/// the newest assignment. Everything except seats(), is_submitted(), abandon_seat() and try_again()
/// may be called only while is_submitted() holds, and throws an internal Error otherwise. Used by
/// the live backend; single-threaded.
class Placement {
 public:
  /// Starts without abandoned seats. `world` must outlive this object, and must hold the job when a
  /// rank is requested.
  Placement(const World& world, std::uint32_t seats) : world_(world), seats_(seats) {}

  /// Returns the number of seats.
  std::uint32_t seats() const { return seats_; }
  /// Returns true if the world holds the job: from its submission until the job, once ended, is
  /// removed (World::begin_batch()).
  bool is_submitted() const { return !world_.jobs().empty(); }
  /// Returns the job.
  const JobInfo& job() const { return world_.jobs()[kLiveJob]; }

  /// Returns the rank of the process in `seat`; nothing if the job does not use the process now:
  /// the seat is not in the placement, its rank is lost, or the job is restarting.
  std::optional<RankId> rank_in(std::uint32_t seat) const;
  /// Returns true if the job uses the process in `seat` now.
  bool is_working(std::uint32_t seat) const { return rank_in(seat).has_value(); }
  /// Returns true if the pending assignment adds the process in `seat` to the job and the seat is
  /// not abandoned. False without a pending assignment.
  bool is_pending(std::uint32_t seat) const;
  /// Returns true if the job uses the process in `seat` until the pending assignment, which does
  /// not name the seat, is active. False without a pending assignment.
  bool is_leaving(std::uint32_t seat) const;
  /// Returns true if the GPU of `seat` works, and its node.
  bool is_on_healthy_gpu(std::uint32_t seat) const;
  /// Returns true if neither the job nor its pending assignment uses the process in `seat`; also
  /// for the seat of a lost rank that no pending assignment names.
  bool is_stray(std::uint32_t seat) const;
  /// Returns the seats that are working (leaving ones included) or pending, ascending.
  std::vector<std::uint32_t> awaited_seats() const;
  /// Returns the first `count` seats on healthy GPUs that belong neither to the job, also for a
  /// lost rank, nor to its pending assignment, and whose removal is not announced, ascending; fewer
  /// if there are no more.
  std::vector<std::uint32_t> spare_seats(std::uint32_t count) const;
  /// Returns the number of ranks that the job uses now: those of its placement without the lost
  /// ones; 0 for a job on hold without GPUs and for a job that is restarting.
  std::size_t counted() const { return count_working_ranks(job()); }
  /// Returns the micro-batches per step of the rank in `seat`; 0 if the job does not use the
  /// process.
  std::uint32_t share(std::uint32_t seat) const;

  /// Records that no process is started for `seat` any more: is_pending() is false for the seat
  /// until try_again().
  void abandon_seat(std::uint32_t seat) { given_up_.insert(seat); }
  /// Allows new processes for `seat` again.
  void try_again(std::uint32_t seat) { given_up_.erase(seat); }

  /// Returns the placement after the pending assignment. Call only while job().next exists, which
  /// is not checked. Abandoned seats are omitted: otherwise the assignment would stay pending for
  /// ever and no other assignment could be accepted.
  Standing pending_placement() const;
  /// Returns true if all processes of the pending assignment, except those of abandoned seats, are
  /// members, with the job's state. False if no assignment is pending or all of its seats are
  /// abandoned.
  bool is_assembled(const std::vector<std::uint32_t>& members) const;
  /// Returns true if the members are exactly the processes that the job uses now, leaving ones
  /// included: they work until the assignment is active. False if a member is not used by the job
  /// yet, if a process of the job is no member, and while is_assembled() holds: the assignment is
  /// activated first.
  bool is_complete(const std::vector<std::uint32_t>& members) const;

 private:
  const World& world_;
  const std::uint32_t seats_;
  std::set<std::uint32_t> given_up_;
};

}  // namespace orrery::live
