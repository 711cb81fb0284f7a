// Job-level replay of a recorded trace: rigid gang jobs on a pool of GPUs, at recorded durations.
// A Backend over an event queue in whole seconds, without a simulation engine; the same policies
// as everywhere place the jobs. Called by `orrery jobs` and the Python package. One thread.
//
// At one instant: jobs that end free their GPUs, jobs that arrive join, then the policy is asked
// once. Nothing happens between instants. A job keeps its GPUs until it ends.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "policies/backend.hpp"
#include "traces/job_trace.hpp"
#include "traces/report.pb.h"
#include "traces/scenario.pb.h"

namespace orrery {

class JobReplayBackend : public Backend {
 public:
  /// Jobs are submitted by submission time, ties in the order given. None may need more GPUs than
  /// there are (replay_jobs() checks): it would wait for ever.
  JobReplayBackend(const std::vector<TraceJob>& jobs, const Cluster& cluster);

  Capabilities capabilities() const override;
  const Cluster& cluster() const override { return world_.cluster(); }
  void begin(const Needs&) override {}
  std::optional<Observation> next() override;
  void apply(std::span<const Decision> decisions, bool at_rest) override;

  /// What became of the jobs; after the last next(). Times are in seconds.
  void fill(JobsReport& report) const;

 private:
  struct Job {
    std::int64_t submit_s = 0, duration_s = 0;
    std::uint32_t gpus = 0;
    std::int64_t start_s = -1, end_s = -1;  ///< -1: not yet
  };
  using End = std::pair<std::int64_t, std::uint32_t>;  ///< second, job

  std::optional<std::int64_t> next_second() const;
  void end_jobs();
  void submit_jobs();
  void happen(Event event);

  World world_;
  std::vector<TraceJob> trace_;  ///< by JobId
  std::vector<Job> jobs_;
  std::priority_queue<End, std::vector<End>, std::greater<>> running_;
  std::size_t arrived_ = 0;
  std::int64_t now_s_ = 0;
  std::uint64_t sequence_ = 0;
  std::vector<Event> events_;    ///< of the observation under way
  std::vector<Event> outcomes_;  ///< of the decisions since
  bool last_word_ = false;       ///< outcomes were shown though nothing more can happen
};

/// Replays `jobs` through the policy and placement that `replay` names (its `trace` is only
/// recorded) and, with a path, records the run there. `host` stays absent: the caller knows.
/// Throws bad_input on an unknown name or a job too large.
JobsReport replay_jobs(const std::vector<TraceJob>& jobs, const JobReplay& replay,
                       const std::string& record_path = {});

/// The same with a policy of the caller's own.
JobsReport replay_jobs(const std::vector<TraceJob>& jobs, const JobReplay& replay, Policy& policy,
                       const std::string& record_path = {});

}  // namespace orrery
