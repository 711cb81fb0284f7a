// The futures of a simulated run: options of `orrery simulate`, and what is shown of them. One
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "policies/run/worker.hpp"
#include "traces/scenario/scenario.hpp"

namespace orrery::cli {

struct FuturesOptions {
  std::uint32_t count = 0;  ///< 0: none
  std::string at, ahead;    ///< written quantities, or empty
  std::vector<std::string> policies;

  void add(CLI::App& command);
  bool wanted() const { return count > 0; }
  /// `begun`: where a log ends that the run goes on from; futures begin there unless --at says
  /// otherwise. Throws usage where options do not go together or are no times.
  void fill(RunRequest& request, std::optional<Nanos> begun = {}) const;
};

/// Runs them and prints quantiles, or one JSON object. Returns the exit code.
int show_futures(const FuturesOptions& options, const RunRequest& request, const SourceMap& places,
                 bool json);

}  // namespace orrery::cli
