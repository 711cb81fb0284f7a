#include "traces/jobs/node_health.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "traces/files/csv.hpp"
#include "traces/jobs/cluster_log.hpp"
#include "traces/jobs/log_time.hpp"
#include "traces/jobs/sacct_table.hpp"

namespace orrery {
namespace {

constexpr double kDay = 86400;
// probability that any node counts as a lemon although all are alike
constexpr double kChance = 0.01;

/// Run time of the jobs of one node, and their failures.
struct Life {
  double days = 0;
  std::uint64_t failures = 0;
};

/// Index of each needed column.
struct Columns {
  std::size_t id = 0, start = 0, end = 0, state = 0, nodes = 0, count = 0;
};

std::optional<Columns> columns_of(const std::vector<std::string_view>& header) {
  Columns columns{.count = header.size()};
  for (const auto& [name, at] : {std::pair{"JobID", &columns.id},
                                 {"Start", &columns.start},
                                 {"End", &columns.end},
                                 {"State", &columns.state},
                                 {"NodeList", &columns.nodes}}) {
    const auto found = std::find(header.begin(), header.end(), name);
    if (found == header.end()) return {};
    *at = static_cast<std::size_t>(found - header.begin());
  }
  return columns;
}

/// Adds the job of a row to the nodes of the job. Returns true if the job ended by a node failure.
bool add(const std::vector<std::string_view>& row, const Columns& columns,
         std::map<std::string, Life>& nodes) {
  if (row.size() != columns.count || row[columns.id].find('.') != std::string_view::npos) {
    return false;
  }
  const auto start = parse_instant(row[columns.start]), end = parse_instant(row[columns.end]);
  if (!start || !end || *end < *start || row[columns.nodes].find(' ') != std::string_view::npos) {
    return false;  // "None assigned"
  }
  const bool failed = row[columns.state].starts_with("NODE_FAIL");
  const std::vector<std::string> hosts = expand_host_list(row[columns.nodes]);
  for (const std::string& host : hosts) {
    Life& life = nodes[host];
    life.days += static_cast<double>(*end - *start) / kDay;
    life.failures += failed ? 1 : 0;
  }
  return failed && !hosts.empty();
}

/// Returns the lemons. The failure of a job counts for each of its nodes, because the log does not
/// name the failed node.
std::vector<NodeHealth::Lemon> lemons_among(const std::map<std::string, Life>& nodes,
                                            double node_days) {
  std::uint64_t seen = 0;
  for (const auto& [name, life] : nodes) seen += life.failures;
  std::vector<NodeHealth::Lemon> lemons;
  for (const auto& [name, life] : nodes) {
    const double expected = static_cast<double>(seen) * life.days / node_days;
    const double chance = chance_of_at_least(life.failures, expected);
    if (life.failures > 1 && chance < kChance / static_cast<double>(nodes.size())) {
      lemons.push_back({name, life.failures, expected});
    }
  }
  std::stable_sort(lemons.begin(), lemons.end(),
                   [](const auto& a, const auto& b) { return a.failures > b.failures; });
  return lemons;
}

}  // namespace

double chance_of_at_least(std::uint64_t count, double expected) {
  if (count == 0) return 1;
  if (expected <= 0) return 0;
  // The sum begins at `count`: for small values, 1 - the other terms would be rounding noise.
  double term = std::exp(static_cast<double>(count) * std::log(expected) - expected -
                         std::lgamma(static_cast<double>(count) + 1));
  double sum = 0;
  for (double k = static_cast<double>(count); term > sum * 1e-12 || k < expected;) {
    sum += term;
    term *= expected / ++k;
    if (k > expected + 1e6) break;
  }
  return std::min(sum, 1.0);
}

double NodeHealth::per_thousand_node_days() const {
  return node_days > 0 ? 1000 * static_cast<double>(failures) / node_days : 0;
}

double NodeHealth::mean_hours(std::uint64_t of_nodes) const {
  if (failures == 0 || of_nodes == 0) return std::numeric_limits<double>::infinity();
  return 24 * node_days / (static_cast<double>(failures) * static_cast<double>(of_nodes));
}

std::optional<NodeHealth> node_health(const std::string& path, std::string_view text) {
  const std::string_view header_line = text.substr(0, text.find('\n'));
  if (header_line.find("NodeList") == std::string_view::npos) return {};
  const std::optional<std::string> table = with_bars(text);
  if (table) text = *table;
  CsvReader reader(path, text, sacct_separator(text).value_or(Separator::bar));
  std::vector<std::string_view> row;
  if (!reader.next_row(row)) return {};
  const std::optional<Columns> columns = columns_of(row);
  if (!columns) return {};
  NodeHealth health;
  std::map<std::string, Life> nodes;
  while (reader.next_row(row)) health.failures += add(row, *columns, nodes) ? 1 : 0;
  for (const auto& [name, life] : nodes) health.node_days += life.days;
  health.nodes = nodes.size();
  if (health.node_days <= 0) return {};
  health.lemons = lemons_among(nodes, health.node_days);
  return health;
}

std::optional<NodeHealth> load_node_health(const std::string& path) {
  return node_health(path, read_packed_text(path));
}

}  // namespace orrery
