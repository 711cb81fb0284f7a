// CPU time of a run's ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ids.hpp"

namespace orrery::live {

/// CPU time used by each rank, summed over all processes that the rank has had. A rank is the
/// number of a slot here. Each process counts its own CPU time from its first report. Times in
/// nanoseconds. Single-threaded.
class CpuMeter {
 public:
  /// Starts for `ranks` ranks with the CPU time `so_far`, by rank, of earlier processes; a missing
  /// rank starts at zero. A report of a further rank adds all ranks up to it.
  explicit CpuMeter(std::uint32_t ranks, const std::vector<Nanos>& so_far = {});

  /// Records that process `life` of `rank` has connected; a process does so on every new stream. A
  /// new process starts a new count; the same process again has no effect.
  void hello(std::uint32_t rank, std::uint32_t life);
  /// Records the total CPU time of the process of the rank's newest hello(); its first report is
  /// the zero of its count.
  void record_cpu_time(std::uint32_t rank, Nanos cpu);

  /// Returns the CPU time of each rank, by rank.
  std::vector<Nanos> so_far() const;
  /// Returns the CPU time of all ranks.
  Nanos total() const;

 private:
  /// Counters of one rank.
  struct Rank {
    std::optional<std::uint32_t> life;
    /// First and newest count of the current process; -1: no report yet.
    Nanos first = -1, newest = 0;
    Nanos before = 0;  ///< CPU time of earlier processes.
    /// Returns the CPU time of the current process.
    Nanos own() const { return first < 0 ? 0 : newest - first; }
  };
  /// Returns the counters of `rank`, which may be new.
  Rank& counters_of(std::uint32_t rank);

  std::vector<Rank> ranks_;
};

}  // namespace orrery::live
