// Parts of findings that the rules of the training spec share. Used by sim/planning/training_spec
// and sim/planning/spec_facts. Pure functions; thread-safe.
#pragma once

#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/units.hpp"
#include "sim/planning/training_spec.hpp"

namespace orrery::sim {

/// Returns a share in per cent, for example "1.5%" for 0.015.
inline std::string spec_percent(double share) { return fmt::format("{:.1f}%", 100 * share); }
/// Returns a time with its unit, for example "4.00 min" for 240.
inline std::string spec_time(double seconds) { return format_quantity(seconds, Dimension::time); }

/// Returns a finding without a fix.
inline SpecFinding graded(const char* rule, bool good, std::string expected, std::string found) {
  return {
      rule, good ? SpecGrade::pass : SpecGrade::fail, std::move(expected), std::move(found), "", {},
      {}};
}

/// Returns a finding of a rule that does not apply; `why` is the reason.
inline SpecFinding not_graded(const char* rule, std::string expected, std::string why) {
  return {rule, SpecGrade::unknown, std::move(expected), std::move(why), "", {}, {}};
}

}  // namespace orrery::sim
