// How often nodes failed, fitted from a job log that says on which nodes jobs ran and which of them
// ended because a node failed: Slurm's sacct with the columns Start, End, State and NodeList.
// Called by `orrery jobs --backtest`. Thread-safe. Days of a node are those on which jobs ran on
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

struct NodeHealth {
  /// A node that was there at many more failures than its days explain: fewer than one node of a
  /// hundred such logs would be, if all were alike.
  struct Lemon {
    std::string node;
    std::uint64_t failures = 0;  ///< of jobs that ran on it
    double expected = 0;         ///< if all were alike
  };

  std::uint64_t nodes = 0, failures = 0;  ///< that ran jobs; jobs that ended so
  double node_days = 0;
  std::vector<Lemon> lemons;  ///< most failures first

  /// Failures of a thousand nodes in a day. A job's failure is one node's.
  double per_thousand_node_days() const;
  /// Hours until one of so many nodes fails; infinite without a failure.
  double mean_hours(std::uint64_t of_nodes) const;
};

/// Nothing for a log that does not say it. Rows that are torn, ran on no node or have not ended are
/// passed over. Throws bad_input for a file that cannot be read.
std::optional<NodeHealth> load_node_health(const std::string& path);
/// The same of a text that has been read; `path` is for messages.
std::optional<NodeHealth> node_health(const std::string& path, std::string_view text);

/// Chance of at least `count` events where `expected` are (Poisson).
double chance_of_at_least(std::uint64_t count, double expected);

}  // namespace orrery
