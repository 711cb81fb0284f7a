// Scores of decisions in mode shadow, which are observed and not applied. For every later step, the
// score adds the compute time of the slowest replica under the actual shares and under the shares
// of the decision, both computed from the measured micro-batch times of the ranks. Only Shares get
// a score. A later decision on the same job replaces an earlier decision from its first step on.
// One thread; seconds. For example, with micro-batches of 2 s and 1 s on two replicas, shares {8,
// 8} take 16 s and shares {5, 11} take 11 s.
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

/// Collector of the scores of a run's observed decisions.
class ShadowScore {
 public:
  /// Adds a decision on the observation `seen`, the newest of add_observation(); `at_step` 0 means
  /// from the next step on, before the first step from step 0 on. Decisions without Shares, on an
  /// unknown job, or for another number of replicas, only count as not scored; so does a decision
  /// that another one with the same first step replaces.
  void add_proposal(const Decision& decision, const Observation& seen);
  /// Adds an observation: scores its completed steps and reads the micro-batch times of all ranks.
  /// A step counts, for the decision that would be in force, only if the times of all ranks with
  /// work were known before. Call with every observation, in order.
  void add_observation(const Observation& seen);
  /// Writes the sums over all decisions, and the scores of the first 1000 decisions, into an empty
  /// summary. A decision counts as better or worse if it changes the compute time by more than
  /// 0.5%; one without a scored step counts as not scored.
  void fill(ShadowSummary& summary) const;
  /// Writes the complete state, for another process that continues the run.
  void save(ByteWriter& write) const;
  /// Restores the state that save() has written, into a new object. Throws an internal Error for
  /// bytes that are incomplete or contain no scores.
  void load(ByteReader& read);

 private:
  /// Newest micro-batch times of a job's ranks, and the shares of its current step.
  struct Job {
    std::vector<double> rank_time;  ///< seconds of a micro-batch, indexed by rank; 0: unknown
    std::vector<std::uint32_t> per_replica;  ///< actual shares
  };
  /// Observed decision with Shares.
  struct Proposal {
    std::uint64_t decision = 0;  ///< id of the decision
    Step from = 0;               ///< first step of the effect
    std::vector<std::uint32_t> per_replica;
    std::string what;  ///< decision as text
  };
  void steps_done(const StepsDone& done, const JobInfo& job);
  /// Frees the memory for a job that has ended; its decisions and scores still count.
  void remove_job(JobId job);
  static std::optional<double> compute_seconds(const Job& job, const ParallelLayout& layout,
                                               const std::vector<std::uint32_t>& per_replica);

  std::map<JobId, Job> jobs_;
  std::map<JobId, std::map<Step, Proposal>> proposals_;  ///< keyed by first step of the effect
  std::map<std::uint64_t, DecisionScore> scores_;        ///< keyed by decision id
  std::uint64_t not_scored_ = 0;
  std::uint64_t removed_ = 0;  ///< decisions in `proposals_` of jobs that have ended
};

}  // namespace orrery
