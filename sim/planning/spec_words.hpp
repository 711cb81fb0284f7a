// Parts of findings that the rules of the training spec share: words, gains, and the rules about
// hardware. Used by sim/planning/training_spec and sim/planning/spec_facts. Pure functions;
// thread-safe.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/units.hpp"
#include "sim/planning/graded_run.hpp"
#include "sim/planning/training_spec.hpp"

namespace orrery::sim {

/// Returns a share in per cent, for example "1.5%" for 0.015.
inline std::string spec_percent(double share) { return fmt::format("{:.1f}%", 100 * share); }
/// Returns a time with its unit, for example "4.00 min" for 240.
inline std::string spec_time(double seconds) { return format_quantity(seconds, Dimension::time); }

/// Returns a finding without a fix.
inline SpecFinding graded(const char* rule, bool good, std::string expected, std::string found) {
  return {.rule = rule,
          .grade = good ? SpecGrade::pass : SpecGrade::fail,
          .expected = std::move(expected),
          .found = std::move(found),
          .fix = "",
          .set = {},
          .no_gain = good ? "the rule passes" : ""};
}

/// Returns a finding of a rule that does not apply; `why` is the reason.
inline SpecFinding not_graded(const char* rule, std::string expected, std::string why) {
  return {.rule = rule,
          .grade = SpecGrade::unknown,
          .expected = std::move(expected),
          .found = std::move(why),
          .fix = "",
          .set = {},
          .no_gain = "the rule is not graded"};
}

/// Writes a gain, or the reason why it is unknown, into a finding that fails.
inline void set_gain(SpecFinding& finding, PredictedGain gain) {
  finding.gain = gain.share;
  finding.no_gain = std::move(gain.reason);
}

/// Returns the gain of a change of the scenario.
using GainOf = std::function<PredictedGain(const std::function<void(Scenario&)>&)>;

/// Returns the findings of the rules about hardware, with the gains that `gain_of` returns.
std::vector<SpecFinding> cluster_findings(const Cluster& cluster, const GainOf& gain_of);

}  // namespace orrery::sim
