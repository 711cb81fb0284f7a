// Reservations of nodes for users, virtual clusters or maintenance, as Slurm has them. Read by the
// queue policy multifactor. Immutable, thread-safe; nanoseconds of the policy clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policies/seam/job.hpp"

namespace orrery {

/// Reservation of nodes from `begin` to `end`.
struct ReservationWindow {
  std::string name = {};
  Nanos begin = 0, end = 0;
  std::vector<std::uint32_t> nodes = {};
  std::uint64_t gpus = 0;  ///< number in place of `nodes`, rounded up to whole nodes; 0: none
  /// users and virtual clusters whose jobs belong to the reservation; none: a maintenance
  std::vector<std::string> users = {}, vcs = {};

  /// Returns true if the job belongs to the reservation.
  bool admits(const JobSpec& job) const;
};

/// Reservations of a cluster.
///
/// For example, with node 3 reserved for ann from 10:00 to 12:00, a job of another user with an
/// estimate of an hour starts on node 3 until 9:00 and from 12:00 on.
class ReservationWindows {
 public:
  ReservationWindows() = default;
  /// Gives each reservation of a number of GPUs the last nodes of the cluster that no other
  /// reservation has at the same time; those before in the list choose first. Throws bad_input for
  /// a reservation that does not end after its begin, has both nodes and GPUs or neither, has a
  /// node that the cluster lacks, or finds too few nodes.
  ReservationWindows(std::vector<ReservationWindow> given, std::uint32_t nodes,
                     std::uint32_t gpus_per_node);

  /// Returns true without any reservation.
  bool empty() const { return windows_.empty(); }
  /// Returns the nodes, ascending, on which the job must not start at `at`: those of reservations
  /// to which it does not belong and within which it would run, by its estimate, at least 1 s.
  std::vector<std::uint32_t> closed_nodes(const JobSpec& job, Nanos at) const;
  /// Returns the nodes, ascending, of the reservations at `at` to which the job belongs.
  std::vector<std::uint32_t> own_nodes(const JobSpec& job, Nanos at) const;
  /// Returns the next begin or end after `now`; kNever if none follows.
  Nanos next_edge(Nanos now) const;
  /// Returns the ends of all reservations after `now`, ascending.
  std::vector<Nanos> ends_after(Nanos now) const;

 private:
  std::vector<ReservationWindow> windows_;  ///< order of their begins
};

}  // namespace orrery
