// Training spec: versioned rules for configuring, synchronising, checkpointing, recovering and
// monitoring a large training run (docs/spec.md), and the grades of a scenario or a cluster under
// these rules. Called by `orrery check --spec`. One thread; no state between calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/schema/names.hpp"
#include "topologies/cluster.hpp"
#include "traces/scenario.pb.h"

namespace orrery::sim {

/// Version of the rules: the first number changes with the meaning of a rule, the second with
/// additional rules.
inline constexpr std::string_view kSpecVersion = "1.0";

/// Grade of one rule. unknown: the rule does not apply, or the file does not contain the facts.
enum class SpecGrade : std::uint8_t { pass, fail, unknown };
constexpr std::array<std::string_view, 3> names_of(SpecGrade) {
  return {"pass", "fail", "unknown"};
}

/// Grade of a rule with its facts. For example, the rule "checkpoint.interval" expects 150 to 600
/// steps, finds 10,000, proposes checkpoints.every=300, and predicts a gain of 0.021 of the
/// time.
struct SpecFinding {
  std::string rule;  ///< for example "checkpoint.interval"
  SpecGrade grade{};
  std::string expected, found;
  std::string fix;                  ///< remedy in words; empty unless the rule fails
  std::vector<std::string> set;     ///< the fix as "path=value" of the scenario, if it is one
  std::optional<double> gain = {};  ///< share of the run's time that the fix saves; may be negative
  std::string no_gain = {};         ///< reason why `gain` is empty; empty if the gain is known
};

/// Grades of one file.
struct SpecReport {
  std::string subject;  ///< "scenario", "cluster" or "recorded run"
  /// Basis of the predicted gains, such as the failures that were assumed; empty without gains.
  std::string basis;
  std::vector<SpecFinding> findings;  ///< findings in the order of docs/spec.md

  std::size_t count_of(SpecGrade grade) const;
};

/// Returns the grades of a scenario with a training job, which must be loaded (resolved, with
/// defaults). Gains are those of a run of at least 30 days with the scenario's failures, or with
/// the counts of Llama 3 if the scenario has none. Throws bad_input for a scenario without a job,
/// and as estimate_step().
SpecReport grade_scenario(const Scenario& scenario);

/// Returns the grades of the rules about hardware. A cluster alone has no job, so that no rule has
/// a gain.
SpecReport grade_cluster(const Cluster& cluster);

/// Facts of a recorded run.
struct RunFacts {
  double elapsed_s = 0;                   ///< time from the first to the last record
  double worked_s = 0;                    ///< time of committed steps
  std::uint64_t steps = 0;                ///< committed steps
  std::vector<double> step_s = {};        ///< time of each step, or the mean of a group of steps
  std::vector<double> standstill_s = {};  ///< times from each loss to the next committed step
  std::vector<double> repeated_s = {};    ///< steps that each loss repeated, in seconds
  std::vector<double> stalls_s = {};      ///< stalls of checkpoints
  std::size_t saves = 0, saves_failed = 0;
};

/// Returns the grades of the rules about a recorded run, without those of its scenario.
std::vector<SpecFinding> grade_facts(const RunFacts& facts);

}  // namespace orrery::sim
