// Value of decisions that were only observed: for every later step, the compute time of the slowest
// replica with the actual shares and with the decision's shares, both from the measured micro-batch
// times of that step's ranks. Only Shares have a score. A later decision on the same job replaces
// an earlier one. One thread; seconds. For example, shares {8, 8} at 2 s and 1 s a micro-batch take
// 16 s; shares {5, 11} take 11 s.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "policies/seam/byte_archive.hpp"
#include "policies/seam/policy.hpp"
#include "traces/report.pb.h"

namespace orrery {

/// Scores of the observed decisions of a run.
class ShadowScore {
 public:
  /// Adds a decision on the observation `seen`.
  void add_proposal(const Decision& decision, const Observation& seen);
  /// Adds an observation; call with every observation, in order.
  void add_observation(const Observation& seen);
  /// Writes the scores.
  void fill(ShadowSummary& summary) const;
  /// Writes the complete state, for another process.
  void save(ByteWriter& write) const;
  void load(ByteReader& read);

 private:
  /// Newest micro-batch times of the replicas, and the shares of the current step.
  struct Job {
    std::vector<double> rank_time;  ///< indexed by rank; 0: unknown
    std::vector<std::uint32_t> per_replica;
  };
  struct Proposal {
    std::uint64_t decision = 0;
    Step from = 0;
    std::vector<std::uint32_t> per_replica;
    std::string what;
  };
  void steps_done(const StepsDone& done, const JobInfo& job);
  static std::optional<double> compute_seconds(const Job& job, const ParallelLayout& layout,
                                       const std::vector<std::uint32_t>& per_replica);

  std::map<JobId, Job> jobs_;
  /// keyed by the first step of their effect
  std::map<JobId, std::map<Step, Proposal>> proposals_;
  std::map<std::uint64_t, DecisionScore> scores_;
  std::uint64_t not_scored_ = 0;
};

}  // namespace orrery
