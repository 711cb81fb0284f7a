// What `orrery jobs` prints: one replay as a table, several side by side, waits beside those of the
// log. One thread.
#pragma once

#include <string>
#include <vector>

#include "sim/jobs/backtest.hpp"
#include "traces/jobs/node_health.hpp"
#include "traces/report.pb.h"
#include "traces/scenario.pb.h"

namespace orrery::cli {

void print_table(const JobReplay& replay, const JobsReport& report);

/// One row each, with its label; `replay` is the first one.
void print_comparison(const JobReplay& replay, const std::vector<std::string>& labels,
                      const std::vector<JobsReport>& reports);

/// Waits beside those of the log. Throws usage if that says of no job when it started.
void print_backtest(const std::string& policy, const std::vector<sim::BacktestRow>& rows);

/// How often nodes failed in the log.
void print_node_health(const NodeHealth& health, std::uint32_t nodes);

/// One object, or a list of several.
void print_json(const std::vector<JobsReport>& reports);

}  // namespace orrery::cli
