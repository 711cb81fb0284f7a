// Jobs of a log that have been submitted and wait for the end of others before they enter the
// queue. Owned by sim/replay/recorded_jobs; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "sim/replay/numbered_trace.hpp"

namespace orrery::sim {

/// Dependencies between the numbered jobs of a log. A job that can never run on the cluster keeps
/// no other job waiting.
///
/// For example, if job 4 names jobs 1 and 2, and job 2 ends last, the end of job 2 releases job 4.
class HeldJobs {
 public:
  /// Reads the dependencies; the jobs of `trace` must not wait for each other (not checked).
  explicit HeldJobs(const NumberedTrace& trace);

  /// Records that the job is submitted. Returns true if the job enters the queue now; false if it
  /// is held. Call once for each job.
  bool record_arrival(std::uint32_t number);
  /// Records that the job has ended, and releases the held jobs that waited for it last.
  void record_end(std::uint32_t number);
  /// Returns the jobs released since the last call, ascending.
  std::vector<std::uint32_t> drain_released();

 private:
  /// numbers of the jobs that wait, by the job that ends first
  std::map<std::uint32_t, std::vector<std::uint32_t>> dependents_;
  std::map<std::uint32_t, std::size_t> missing_;  ///< ends that are missing; no entry: none
  std::set<std::uint32_t> held_;
  std::vector<std::uint32_t> released_;
};

}  // namespace orrery::sim
