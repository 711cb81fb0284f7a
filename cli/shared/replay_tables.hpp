// Tables of `orrery jobs`: one replay, several replays side by side, and replayed waits beside the
// waits of the log. Printed to standard output. One thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/replay/backtest.hpp"
#include "traces/jobs/job_trace.hpp"
#include "traces/jobs/node_health.hpp"
#include "traces/report.pb.h"
#include "traces/scenario.pb.h"

namespace orrery::cli {

/// Label of the log's own outcome.
inline constexpr std::string_view kAsRecorded = "as recorded";

/// Prints the report of one replay.
void print_table(const JobReplay& replay, const JobsReport& report);

/// Prints one row for each report, with its label, and one for the log's own outcome, if known; a
/// line below if the rows are about different jobs; then waits and savings in hours, if any report
/// has savings. `reports` must not be empty. `replay`: the
/// first replay.
void print_comparison(const JobReplay& replay, const std::vector<std::string>& labels,
                      const std::vector<JobsReport>& reports, const JobsReport& recorded);

/// Prints replayed waits beside the waits of the log.
void print_backtest(const std::string& policy, const std::vector<sim::BacktestRow>& rows);

/// Prints the failures of nodes in the log. `nodes`: number of nodes of the replayed cluster.
void print_node_health(const NodeHealth& health, std::uint32_t nodes);

/// Prints one report as a JSON object, several reports as a list of objects.
void print_json(const std::vector<JobsReport>& reports);

}  // namespace orrery::cli
