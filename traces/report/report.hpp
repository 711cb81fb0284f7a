// The report for people and for scripts. Called by the command line and Python. Thread-safe.
// Seconds, bytes, joules, dollars; an unknown value is null in JSON and "not known" in text.
#pragma once

#include <cstdint>
#include <string>

#include "traces/report.pb.h"

namespace orrery {

/// The stable JSON object; `with_host` = false gives the bytes that equal runs share.
std::string report_json(const Report& report, bool with_host = true);

std::string report_json(const JobsReport& report, bool with_host = true);

/// Twelve lines for a terminal: every number with its unit and origin.
std::string report_summary(const Report& report);

/// "12,345".
std::string grouped(std::uint64_t value);

/// Version of this build: "0.1.0".
std::string version();

}  // namespace orrery
