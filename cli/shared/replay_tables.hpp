// Tables of `orrery jobs`: one replay, several replays side by side, and replayed waits beside the
// waits of the log. Printed to standard output. One thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/replay/backtest.hpp"
#include "sim/replay/job_savings.hpp"
#include "traces/jobs/job_trace.hpp"
#include "traces/jobs/node_health.hpp"
#include "traces/report.pb.h"
#include "traces/scenario.pb.h"

namespace orrery::cli {

/// Label of the log's own outcome.
inline constexpr std::string_view kAsRecorded = "as recorded";

/// Replay of a comparison.
struct ComparedReplay {
  std::string label;  ///< policy, and change
  JobsReport report;
  std::vector<sim::GroupWaits> waits;  ///< waits beside those that its savings are against
};

/// Prints the report of one replay, without its groups.
void print_replay(const JobReplay& replay, const JobsReport& report);
/// Prints the groups of a report by size and by virtual cluster, each beside its group in the log's
/// own outcome; nothing if no job completed.
void print_group_tables(const JobsReport& report);

/// Prints the log, the cluster and the number of jobs of several replays. `replay`, `report`: the
/// first one.
void print_heading(const JobReplay& replay, const JobsReport& report);
/// Prints one row for each replay and one for the log's own outcome, or a line if the log has none;
/// lines about different jobs, about changes without effect, and `remarks`; then waits and savings
/// in hours, and who waits less, if any report has savings. `rows` must not be empty.
void print_comparison(const std::vector<ComparedReplay>& rows, const JobsReport& recorded,
                      const std::vector<std::string>& remarks);

/// Prints replayed waits beside the waits of the log.
void print_backtest(const std::string& policy, const std::vector<sim::BacktestRow>& rows);

/// Prints the failures of nodes in the log. `nodes`: number of nodes of the replayed cluster.
void print_node_health(const NodeHealth& health, std::uint32_t nodes);

/// Prints one report as a JSON object, several reports as a list of objects.
void print_json(const std::vector<JobsReport>& reports);

}  // namespace orrery::cli
