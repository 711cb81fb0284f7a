// Futures of a simulated run: options of `orrery simulate`, and the printed results. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "policies/run/worker.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::cli {

/// Options of the futures of a run: --futures, --at, --for and --policies.
struct FuturesOptions {
  std::uint32_t count = 0;            ///< number of futures; 0: none
  std::string at, ahead;              ///< written quantities such as "90 s", or empty
  std::vector<std::string> policies;  ///< policies of each future; empty: the run's own

  /// Declares the options; this object must outlive the parsing of the command line.
  void add(CLI::App& command);
  bool has_futures() const { return count > 0; }
  /// Writes the options into the request of a run: its futures, and with --for its end (`until`).
  /// `begun`: end of the log from which the run continues; futures begin there if --at is absent.
  /// Changes nothing if no option is given; choose_future_policies() adds the policies. Throws a
  /// usage error if the options do not fit together or a time is not valid.
  void fill(RunRequest& request, std::optional<Nanos> begun = {}) const;
};

/// Runs the futures of `request` under `policies` (choose_future_policies()) and prints quantiles,
/// or one JSON object, and failed futures on standard error. Returns the exit code: goal_missed if
/// a future failed, else 0. Throws errors of run_futures().
int show_futures(const FuturesOptions& options, const RunRequest& request,
                 const FuturePolicies& policies, const SourceMap& places, bool json);

}  // namespace orrery::cli
