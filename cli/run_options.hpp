// What the commands that run a scenario share: their options, the scenario they make of them, and
// a run with a progress line that Ctrl-C ends. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "policies/run/worker.hpp"
#include "traces/report.pb.h"
#include "traces/run.pb.h"
#include "traces/scenario/scenario.hpp"

namespace orrery::cli {

/// The exit code that shells give to a program that the last signal ended: 130 after SIGINT, 143
/// after SIGTERM.
int interrupted_code();
/// A signal has come during the last run().
bool was_interrupted();

struct RunOptions {
  std::string file;
  std::vector<std::string> overrides;  ///< "path=value", of --set
  std::vector<std::string> own;        ///< the same, of options with a name; they win
  std::string record;                  ///< log to write, or empty
  bool json = false;

  void add_file(CLI::App& command);
  void add_overrides(CLI::App& command);
  void add_seed(CLI::App& command);  ///< becomes the override "run.seed=N"
  void add_record(CLI::App& command);
  void add_json(CLI::App& command);
  /// Throws bad_input, as load_scenario() does.
  LoadedScenario load() const;
  std::vector<std::string> all_overrides() const;
};

/// Runs `request` in a worker process ("orrery-sim", "orrery-live"). Shows a progress line on a
/// terminal once the run has taken about a second. Throws what run_in_worker() throws, bad input
/// with its place of `places`: Interrupted after SIGINT, SIGTERM or SIGHUP; a live run that keeps
/// checkpoints ends in order instead, and reports. `operated`: who answers for it.
/// `server`: of the worker's program, which then need not be started.
Report run(const std::string& worker, const RunRequest& request, const SourceMap& places,
           Operator* operated = nullptr, ForkServer* server = nullptr);

/// The same for a request with futures.
FuturesReport run_futures(const std::string& worker, const RunRequest& request,
                          const SourceMap& places);

/// Prints a report to standard output. Returns the exit code: goal_missed if a failure ended the
/// run or it is unfinished, else 0.
int print_report(const Report& report, bool json);

}  // namespace orrery::cli
