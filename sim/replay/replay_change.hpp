// Effect of a change of a job-level replay, as far as it can be known before the replay: a key that
// the replay does not read has no effect. `orrery jobs --what-if` and
// the Python package refuse such keys by it. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "traces/jobs/job_trace.hpp"
#include "traces/scenario.pb.h"

namespace orrery::sim {

/// Properties of the policy of a replay on which the effect of other keys depends.
struct PolicyTraits {
  bool reads_estimates = true;
  bool may_preempt = true;  ///< the policy may take GPUs from running jobs
};
/// Returns the traits of the policy of a replay, with its parameters. A policy from outside of the
/// program has both. Throws as policy_of().
PolicyTraits policy_traits(const JobReplay& replay);

/// Properties of a log on which the effect of keys depends.
struct LogTraits {
  bool has_limits = false;   ///< a job has a requested time
  bool names_kinds = false;  ///< a job names kinds of GPUs
};
LogTraits log_traits(const std::vector<TraceJob>& jobs);

/// Returns why the replay `changed` is the replay `base` of the log; empty if the two may differ.
/// Both have the same policy by name, or two policies, which then may differ. For example, under
/// `fifo` another kind of estimates has no effect, because `fifo` reads none. Throws as
/// cluster_of() and policy_of().
std::string reason_without_effect(const JobReplay& base, const JobReplay& changed,
                                  const LogTraits& log);

}  // namespace orrery::sim
