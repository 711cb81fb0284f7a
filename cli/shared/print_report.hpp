// Printing of a report in another text than its own; run_options.hpp prints a report as it is.
#pragma once

#include <string>

#include "traces/report.pb.h"

namespace orrery::cli {

/// Prints `text` in place of the report on standard output; warnings and exit code are those of
/// print_report() in run_options.hpp. `json`: true if the text is JSON, which has no warnings.
int print_report(const Report& report, bool json, const std::string& text);

}  // namespace orrery::cli
