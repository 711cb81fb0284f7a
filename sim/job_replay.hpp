// Job-level replay of a recorded trace: rigid gang jobs on a pool of GPUs, at recorded durations.
// A Backend over an event queue in whole seconds, without a simulation engine; the same policies
// as everywhere place the jobs. Called by `orrery jobs` and the Python package. One thread.
//
// At one instant: jobs that end free their GPUs, jobs that arrive join, then the policy is asked
// once, and again for what became of its decisions. Nothing happens between instants. A job keeps
// its GPUs until it ends, or until a policy takes them away: then it goes on where it was.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <vector>

#include "policies/seam/backend.hpp"
#include "policies/seam/gate.hpp"
#include "traces/job_trace.hpp"
#include "traces/report.pb.h"
#include "traces/scenario.pb.h"

namespace orrery {

class JobReplayBackend : public Backend, private Carrier {
 public:
  /// Jobs are submitted by submission time, ties in the order given. None may need more GPUs than
  /// there are (replay_jobs() checks): it would wait for ever. `jobs` outlives this.
  JobReplayBackend(const std::vector<TraceJob>& jobs, const Cluster& cluster);

  Capabilities capabilities() const override { return {Kinds<Action>::of<Assign>(), {}}; }
  const Cluster& cluster() const override { return world_.cluster(); }
  void begin(const Needs&) override {}
  std::optional<Observation> next() override;
  void apply(const DecisionList& decisions) override;

  /// What became of the jobs; after the last next(). Times are in seconds.
  void fill(JobsReport& report) const;

 private:
  /// A million of them are kept to the end: what only few jobs need is kept elsewhere.
  struct Job {
    std::int64_t start_s = -1, end_s = -1;  ///< first start, end; -1: not yet
    std::uint32_t starts = 0;
  };
  struct Served {
    std::int64_t served_s = 0;  ///< of its duration, before it was last started
    std::int64_t since_s = 0;   ///< when that was
  };
  struct End {
    std::int64_t second = 0;
    std::uint32_t job = 0, start = 0;  ///< of which start of the job
    friend auto operator<=>(const End&, const End&) = default;
  };

  // Carrier
  std::string refusal(const Decision& decision) const override;
  bool step_open(JobId) const override { return false; }
  void happen(Event event) override;
  void carry_out(const Decision& decision) override;

  std::optional<std::int64_t> next_second();
  void end_jobs();
  void submit_jobs();
  Nanos now() const { return now_s_ * kNanosPerSecond; }

  World world_;
  DecisionGate gate_;
  NoSamples samples_;
  const TraceJob& recorded(std::size_t job) const { return trace_[order_[job]]; }

  const std::vector<TraceJob>& trace_;
  std::vector<std::uint32_t> order_;  ///< of the trace's jobs, by JobId
  std::vector<Job> jobs_;             ///< by JobId
  std::map<std::uint32_t, Served> taken_off_;  ///< jobs that have left their GPUs before their end
  std::priority_queue<End, std::vector<End>, std::greater<>> running_;
  std::size_t arrived_ = 0;
  std::int64_t now_s_ = 0;
  std::uint64_t sequence_ = 0, preemptions_ = 0;
  std::vector<Event> events_, shown_;  ///< since the last observation; with it
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
