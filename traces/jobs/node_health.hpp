// Failure rates of nodes, fitted from a job log with the nodes of each job and the jobs that ended
// by a node failure: Slurm's sacct with the columns JobID, Start, End, State and NodeList. Called
// by `orrery jobs --backtest`. Thread-safe. The days of a node are the sum of the run times of its
// jobs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// Failures of the nodes of a log.
struct NodeHealth {
  /// Node with many more failures than its days explain: at least two, and so many that fewer than
  /// one node in a hundred such logs would have as many if all nodes were alike.
  struct Lemon {
    std::string node;
    std::uint64_t failures = 0;  ///< failures of jobs that ran on it
    double expected = 0;         ///< expected failures if all nodes were alike
  };

  std::uint64_t nodes = 0, failures = 0;  ///< nodes that ran jobs; jobs that ended by a failure
  double node_days = 0;                   ///< sum of the days of all nodes
  std::vector<Lemon> lemons;  ///< most failures first

  /// Returns the failures of a thousand nodes in a day, 1000 x failures / node_days. The failure of
  /// a job counts as the failure of one node. Returns 0 without node days.
  double per_thousand_node_days() const;
  /// Returns the mean hours until one of `of_nodes` nodes fails; infinite without a failure or
  /// node.
  double mean_hours(std::uint64_t of_nodes) const;
};

/// Returns the failures in a log; nothing for a log without the necessary columns or without run
/// times. Skips torn rows and rows of job steps, of jobs without nodes and of jobs that have not
/// ended. Throws bad_input for an unreadable file.
std::optional<NodeHealth> load_node_health(const std::string& path);
/// Returns the failures in a text; `path` is for messages.
std::optional<NodeHealth> node_health(const std::string& path, std::string_view text);

/// Returns the probability of at least `count` events where `expected` are expected (Poisson): 1
/// for a count of 0, otherwise 0 if nothing is expected.
double chance_of_at_least(std::uint64_t count, double expected);

}  // namespace orrery
