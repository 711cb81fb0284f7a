// What decisions that were only watched would have been worth: for every step that follows one, the
// compute time of its latest replica as the work was divided, and as the decision divides it, both
// from the measured micro-batch times of that step's ranks. Only Shares have a score. A
// later decision on the same job takes an earlier one's place. One thread; seconds.
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

class ShadowScore {
 public:
  /// A decision on what `seen` showed.
  void propose(const Decision& decision, const Observation& seen);
  /// Every observation, in order.
  void see(const Observation& seen);
  void fill(ShadowSummary& summary) const;
  /// All of it, to go on with in another process.
  void save(ByteWriter& write) const;
  void load(ByteReader& read);

 private:
  /// Replicas' newest micro-batch times, and how the step under way is divided.
  struct Job {
    std::vector<double> rank_time;  ///< of rank 0, 1, ...; 0: unknown
    std::vector<std::uint32_t> per_replica;
  };
  struct Proposal {
    std::uint64_t decision = 0;
    Step from = 0;
    std::vector<std::uint32_t> per_replica;
    std::string what;
  };
  void steps_done(const StepsDone& done, const JobInfo& job);
  static std::optional<double> compute(const Job& job, const ParallelLayout& layout,
                                       const std::vector<std::uint32_t>& per_replica);

  std::map<JobId, Job> jobs_;
  std::map<JobId, std::map<Step, Proposal>> proposals_;  ///< by the step they hold from
  std::map<std::uint64_t, DecisionScore> scores_;
  std::uint64_t not_scored_ = 0;
};

}  // namespace orrery
