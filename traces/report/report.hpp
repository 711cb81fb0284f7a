// Report for people and for scripts. Called by the command line and Python. Thread-safe. Seconds,
// bytes, joules, dollars; an unknown value is null in JSON and "not known" in text.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/schema/names.hpp"
#include "traces/report.pb.h"

namespace orrery {

/// Worlds of a run (Report.mode).
enum class ReportWorld : std::uint8_t { sim, live };
constexpr std::array<std::string_view, 2> names_of(ReportWorld) { return {"sim", "live"}; }

/// Kinds of jobs of a run (JobOutcome.kind): a training job, a job of a recorded log, a recorded
/// program.
enum class OutcomeKind : std::uint8_t { training, recorded, trace };
constexpr std::array<std::string_view, 3> names_of(OutcomeKind) {
  return {"training", "recorded", "trace"};
}

/// Returns the stable JSON object, without the tables of a replay; `with_host` = false gives the
/// bytes that equal runs share.
std::string report_json(const Report& report, bool with_host = true);

/// Returns the stable JSON object of a replay.
std::string report_json(const JobsReport& report, bool with_host = true);

/// Returns the lines for a terminal, each with a line end: every number with its unit and origin;
/// at most thirteen lines of figures, without those that are not known, then the reason of an
/// unfinished run, warnings and, for several jobs, the outcomes: of all training jobs, and of
/// others as long as fewer than eight jobs are listed.
std::string report_summary(const Report& report);

/// Returns the number of failures: a node of eight ranks that goes down is one. Ranks that are lost
/// at one instant count once.
std::uint64_t count_failure_events(const Report& report);

/// Returns the number with separators, for example "12,345".
std::string grouped(std::uint64_t value);

/// Returns the version of this build, for example "0.1.0".
std::string version();

}  // namespace orrery
